"""A store made from another one, up to an entry or a time; the source is only read.

    world.json      the marker: the history, an incarnation drawn anew, the parent
    restore.json    the plan: the slot that will end the restore (`engine/restoration.py`)
    docs/           the stored versions that are retained at that entry
    bundles/, log/  the slots up to it, byte for byte; one that is cut by it is written with fewer entries
    log/<next>      that slot. Before it is there the store is not opened

Everything is created, nothing is changed, and each object has the same bytes whoever makes it. So a restore that broke
off is finished by the same restore, and several of them at once do no harm.
"""

import asyncio
import hashlib
from collections.abc import Callable
from dataclasses import dataclass, replace
from itertools import islice

from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PublicKey

from demarkus_base.blobs.port import BlobError, Blobs, Exists, Integrity, NotFound, Permanent
from demarkus_base.blobs.port import StoreFull as BlobsFull
from demarkus_base.tlog.tree import Edge
from demarkus_world.engine import bundles, identity, keys, notes, restoration, retry, slots
from demarkus_world.engine.entries import Entry, Op
from demarkus_world.engine.model import Credential, Identity
from demarkus_world.engine.notes import Note, NoteError
from demarkus_world.engine.parallel import PARALLEL, in_parallel
from demarkus_world.engine.proof import leaf
from demarkus_world.engine.reader import Reader
from demarkus_world.engine.refusals import RestoreRefused, StoreDamaged, StoreFull, Unavailable
from demarkus_world.engine.restore.survey import Survey, Told, Until, kept, marker, source_of, survey, walk
from demarkus_world.engine.slots import Slot
from demarkus_world.engine.verify.ledger import Ledger, Retained

PAGE = PARALLEL * 4
ALL = Until()


@dataclass(frozen=True, slots=True, kw_only=True)
class Restored:
    """A store that can be opened. `size` entries were brought over, `lost` more are known to have been.

    `before` says that it had been finished by an earlier run.
    """

    identity: Identity
    size: int
    root: str
    lost: int
    before: bool


@dataclass(frozen=True, slots=True, kw_only=True)
class Witness:
    """The newest note that was kept outside, and the key of the world that signed it."""

    text: str
    key: Ed25519PublicKey


async def restore(
    source: Blobs,
    target: Blobs,
    *,
    now: Callable[[], int],
    random: Callable[[int], bytes],
    history: str | None = None,
    until: Until = ALL,
    witness: Witness | None = None,
    by: str | None = None,
    credential: Credential | None = "local",
    pause: retry.Pause = retry.sleep,
    told: Told = lambda what, done: None,
) -> Restored:
    """Make the store that `target` will hold, which has to be empty or the same restore, begun before.

    `history` is the world's that is restored, if that is known. Raises RestoreRefused and StoreForeign for what has to
    be changed, StoreDamaged for a source that is not whole, StoreFull, and Unavailable: then run it again.
    """
    try:
        found = await source_of(source, history=history, pause=pause)
        note = None if witness is None else _opened(witness, found.history)
        work = _Restore(source, target, found, random=random, pause=pause, told=told)
        begun = await work.begun()
        finished = begun is not None and await work.is_finished(begun)
        if begun is not None and until == ALL:
            until = Until(sequence=begun.entries[0].size)  # the source may have grown since
        if begun is not None and finished and until.time is None:
            _check_same(begun, until, witness, begun.entries[0])
            return work.done(begun, before=True)
        surveyed = await survey(source, found, until, note, pause=pause, told=told)
        draft = _draft(surveyed, found, witness=witness, by=by, credential=credential)
        if begun is None:
            begun = await work.begin(surveyed, draft, time=max(now(), surveyed.time))
        _check_same(begun, until, witness, draft)
        if finished:
            return work.done(begun, before=True)
        await work.copy_versions(surveyed.ledger)
        await work.copy_log(surveyed.edge)
        await work.create(keys.slot(begun.first), slots.encode(begun))
        return work.done(begun, before=False)
    except BlobError as error:
        raise Unavailable(f"the restore broke off, run it again: {error}") from error


def _opened(witness: Witness, history: str) -> Note:
    try:
        return notes.opened(witness.text, history, witness.key)
    except NoteError as error:
        raise RestoreRefused(f"the world of history {history} did not sign the witnessed note: {error}") from None


def _draft(
    surveyed: Survey, source: Identity, *, witness: Witness | None, by: str | None, credential: Credential | None
) -> Entry:
    """The restore entry, still without time and operation."""
    size = surveyed.edge.size
    return Entry(
        seq=size + 1,
        time=0,
        op=Op.RESTORE,
        path="/",
        operation="",
        by=by,
        credential=credential if by is not None else None,
        parent=source.incarnation,
        size=size,
        root=surveyed.edge.root.hex(),
        lost=surveyed.known - size,
        note=None if witness is None else witness.text,
        ancestors=surveyed.ancestors or None,
    )


def _check_same(begun: Slot, until: Until, witness: Witness | None, draft: Entry) -> None:
    """Raise RestoreRefused for a target in which another restore was begun."""
    entry = begun.entries[0]
    wanted = draft.size if until.sequence is None else until.sequence
    differs = {
        "up to entry": (entry.size, wanted),
        "root": (entry.root, draft.root),
        "witnessed note": (entry.note, None if witness is None else witness.text),
    }
    for field, (there, here) in differs.items():
        if there != here:
            raise RestoreRefused(
                f"another restore was begun in the target: {field} is {there!r} there and {here!r} here; "
                "finish that one, or take an empty target"
            )


class _Restore:
    """One run, from `source` into `target`."""

    def __init__(
        self,
        source: Blobs,
        target: Blobs,
        whose: Identity,
        *,
        random: Callable[[int], bytes],
        pause: retry.Pause,
        told: Told,
    ) -> None:
        self._source = source
        self._target = target
        self._reader = Reader(target, history=whose.history, pause=pause)
        self._whose = whose
        self._random = random
        self._pause = pause
        self._told = told
        self._identity: Identity | None = None
        self._copied = 0

    # What was begun before.

    async def begun(self) -> Slot | None:
        """The plan of the restore that was begun in the target, if one was. Raises RestoreRefused for anything else."""
        found = await marker(self._target, pause=self._pause)
        if found is None:
            async for key in retry.listing(self._target, "", pause=self._pause):
                raise RestoreRefused(f"the target is not empty: it holds {key}, and no world")
            return None
        self._adopt(found)
        data = await self._reader.object(keys.RESTORE)
        return None if data is None else restoration.decode(data, history=self._whose.history)[0]

    async def is_finished(self, plan: Slot) -> bool:
        """Whether the slot that ends the restore is in the log."""
        return await self._reader.copied(plan.first) == slots.encode(plan)

    def _adopt(self, found: Identity) -> None:
        if found.history != self._whose.history:
            raise RestoreRefused(f"the target is the store of another world: its history is {found.history}")
        if found.parent is None:
            raise RestoreRefused("there is a world in the target already: restore into an empty one")
        if found.parent != self._whose.incarnation:
            raise RestoreRefused(
                f"another restore was begun in the target: from incarnation {found.parent}, "
                f"the source is {self._whose.incarnation}; finish that one, or take an empty target"
            )
        self._identity = found

    # What is done.

    async def begin(self, surveyed: Survey, draft: Entry, *, time: int) -> Slot:
        """Make marker and plan; those of another run that was faster stand."""
        if self._identity is None:
            drawn = Identity(self._whose.history, self._random(16).hex(), self._whose.incarnation)
            await self.create(keys.WORLD, identity.encode(drawn), ours=False)
            found = await marker(self._target, pause=self._pause)
            if found is None:
                raise StoreDamaged(f"{keys.WORLD} is missing right after it was created")
            self._adopt(found)
        data = await self._reader.copied(draft.seq)
        if data is None:
            entry = replace(draft, time=time, operation=self._random(16).hex())
            writer = self._random(16).hex()
            data = slots.encode(
                Slot(history=self._whose.history, first=entry.seq, writer=writer, prev=surveyed.prev, entries=[entry])
            )
        await self.create(keys.RESTORE, data, ours=False)
        data = await self._reader.object(keys.RESTORE)
        if data is None:
            raise StoreDamaged(f"{keys.RESTORE} is missing right after it was created")
        return restoration.decode(data, history=self._whose.history)[0]

    async def copy_versions(self, ledger: Ledger) -> None:
        """Bring over the bytes of all retained versions."""
        retained = (version for path in ledger.paths() for version in ledger.retained(path))
        while page := list(islice(retained, PAGE)):
            await in_parallel(self._copy_version, page)
            self._copied += len(page)
            self._told("versions copied", self._copied)

    async def _copy_version(self, version: Retained) -> None:
        try:
            data = await retry.read(lambda: self._source.get(version.blob), pause=self._pause)
        except (NotFound, Integrity) as error:
            raise StoreDamaged(f"{version.blob}: it was there when the source was verified: {error}") from error
        if hashlib.sha256(data).hexdigest() != version.stored:
            raise StoreDamaged(f"{version.blob}: it was altered after the source was verified")
        await self.create(version.blob, data)

    async def copy_log(self, edge: Edge) -> None:
        """Bring over the log up to the edge: in bundles what is enough for one, the rest slot by slot."""
        waiting: list[tuple[Slot, bytes]] = []
        size, grown = 0, Edge()
        async for slot, data in walk(self._source, self._whose.history, pause=self._pause):
            waiting.append(kept(slot, data, edge.size))
            for entry in waiting[-1][0].entries:
                grown, _ = grown.grown(leaf(entry))
            if grown.size - size >= bundles.MOST:
                size, waiting = await self._bundle(waiting)
            if grown.size >= edge.size:
                break
        if grown != edge:
            raise StoreDamaged("the log of the source changed after it was verified")
        await in_parallel(lambda item: self.create(keys.slot(item[0].first), item[1]), waiting)

    async def _bundle(self, waiting: list[tuple[Slot, bytes]]) -> tuple[int, list[tuple[Slot, bytes]]]:
        """Make a bundle; the entry that it ends with, and what is left over."""
        taken = bundles.cut([(len(slot.entries), copied) for slot, copied in waiting])
        bundle, data = await asyncio.to_thread(
            bundles.encode, self._whose.history, [copied for _, copied in waiting[:taken]]
        )
        await self.create(bundle.key, data)
        self._told("entries copied", bundle.last)
        return bundle.last, waiting[taken:]

    async def create(self, key: str, data: bytes, *, ours: bool = True) -> None:
        """Make an object of the target; with `ours` one that is there has to be the same.

        Raises RestoreRefused, StoreFull, Unavailable.
        """
        attempt = 1
        while True:
            try:
                return await self._target.create(key, data)
            except Exists:
                if ours and await self._reader.object(key) != data:
                    raise RestoreRefused(f"the target holds another {key}: take an empty one") from None
                return
            except BlobsFull as error:
                raise StoreFull("the target is full: make room, then run the restore again") from error
            except BlobError as error:
                if attempt == retry.ATTEMPTS or isinstance(error, Permanent):
                    raise Unavailable(f"the restore broke off, run it again: {error}") from error
            await self._pause(retry.pause_before(attempt))
            attempt += 1

    def done(self, plan: Slot, *, before: bool) -> Restored:
        """What was made."""
        entry = plan.entries[0]
        assert self._identity is not None, "the marker is there before the plan"
        return Restored(
            identity=self._identity, size=entry.size or 0, root=entry.root or "", lost=entry.lost or 0, before=before
        )
