"""The log as this process follows it: read at the start, followed while others write, extended by our own slots.

`Log` owns the view and is the only one to change it. A slot is checked (its place, its predecessor's hash, its
entries against the state) before any of it is taken in.
"""

import asyncio
import logging
import sqlite3
from collections import deque
from collections.abc import AsyncIterator, Callable, Iterable, Mapping, Sequence
from itertools import islice
from pathlib import Path
from tempfile import TemporaryDirectory

from demarkus_world.engine import keys, slots
from demarkus_world.engine.checkpoints import Checkpoints
from demarkus_world.engine.entries import CONTENT, Entry, Op
from demarkus_world.engine.lineage import Misplaced, check_place
from demarkus_world.engine.parallel import PARALLEL
from demarkus_world.engine.proof import Tree
from demarkus_world.engine.reader import Found, Reader
from demarkus_world.engine.refusals import StoreDamaged, ViewFailed
from demarkus_world.engine.slots import NO_SLOT, Slot
from demarkus_world.engine.versions import Versions
from demarkus_world.view.apply import InvalidEntry, record_of
from demarkus_world.view.catalog import describe
from demarkus_world.view.local import LocalView, ViewUseless
from demarkus_world.view.reads import Tip
from mark_protocol.versions import StoredVersion

WORTH_A_CHECKPOINT = 8192
"""Who knows a part of the log reads a checkpoint only if it is at least so many entries ahead."""
CONFIRMED_FOR = 12 * 3600 * 1000
"""For so long (ms) after the log was last looked at, an absent next slot means that there is none."""
RECENT = 4096
"""So many of the newest entries are kept at hand."""
REMEMBERED = 10_000

logger = logging.getLogger(__name__)


class Touched:
    """The documents that slots have touched since somebody took them; not more than can be remembered."""

    def __init__(self) -> None:
        self.too_many = False
        self.some = asyncio.Event()
        self._paths: set[str] = set()

    def add(self, paths: Iterable[str]) -> None:
        """Remember these, unless they are too many."""
        self._paths.update(paths)
        if len(self._paths) > REMEMBERED:
            self._paths.clear()
            self.too_many = True
        self.some.set()

    def take(self) -> list[str]:
        """What was touched, and no more of it."""
        paths, self._paths = sorted(self._paths), set()
        self.some.clear()
        return paths

    def forget(self) -> None:
        """Begin again with nothing."""
        self._paths.clear()
        self.some.clear()
        self.too_many = False


class Log:
    """The part of the log that is known here.

    `foreign` counts the slots of other writers taken in since the start, `sweeps` the sweeps of anybody.
    """

    def __init__(
        self, reader: Reader, versions: Versions, tree: Tree, view: LocalView, *, history: str, now: Callable[[], int]
    ) -> None:
        self.view = view
        self.tree = tree
        self.foreign = 0
        self.sweeps = 0
        self.grew = asyncio.Event()
        self.touched = Touched()
        self._reader = reader
        self._versions = versions
        self._history = history
        self._now = now
        self._confirmed = 0
        self._tip_hash = NO_SLOT
        self._tip_time = 0
        self._damage: StoreDamaged | None = None
        self._offered: bytes | None = None
        self._probes = 0
        self._probing = asyncio.Lock()
        self._recent: deque[Entry] = deque(maxlen=RECENT)
        self._waiting: set[asyncio.Future[None]] = set()

    @property
    def tip_time(self) -> int:
        """The time of the newest entry, ms."""
        return self._tip_time

    async def start(self, checkpoints: Checkpoints | None) -> None:
        """Take in the whole log, beginning with what is known of it already: the view, if it is one of this log, or
        a checkpoint that is far ahead of it. Raises StoreDamaged, Unavailable.
        """
        if self.view.sequence and not await self._has(self.view.tip):
            logger.error("the local view knows of entries that are not in the log: it is thrown away")
            self.view.forget()
        if checkpoints is not None:
            await self._start_from_checkpoint(checkpoints)
        tip = self.view.tip
        self._tip_hash, self._tip_time = tip.slot, tip.time
        self.tree.begin(tip.edge)
        await self._catch_up()

    async def _start_from_checkpoint(self, checkpoints: Checkpoints) -> None:
        """Take over the newest checkpoint that is good, if it saves reading many entries."""
        worth = WORTH_A_CHECKPOINT if self.view.sequence else 1
        for sequence in await checkpoints.sequences():
            if sequence - self.view.sequence < worth:
                return
            manifest = await checkpoints.manifest(sequence)
            if manifest is None:
                continue
            try:
                if not await self._has(manifest.tip):
                    raise StoreDamaged("it is not one of this log")
                with TemporaryDirectory(dir=self.view.directory, prefix="checkpoint-") as folder:
                    catalog = Path(folder) / "catalog.db"
                    await checkpoints.fetch(manifest, catalog)
                    self.view.adopt(catalog)
                if self.view.tip == manifest.tip:
                    return
                raise StoreDamaged("its catalog is not the manifest's")
            except (StoreDamaged, ViewUseless, sqlite3.Error) as error:
                logger.warning("passing over the checkpoint at %d: %s", sequence, error)
                self.view.forget()

    async def _has(self, tip: Tip) -> bool:
        """Whether the log has the slot that ends there."""
        data = await self._reader.copied(tip.first)
        return data is not None and slots.slot_hash(data) == tip.slot

    async def _catch_up(self) -> None:
        """Take in what is listed behind the tip, bundles first, then read the heads that this changed."""
        async for page in self._reader.behind(self.view.sequence):
            for count, found in enumerate(page):
                following = self.view.sequence + 1
                if found.first > following:
                    raise StoreDamaged(f"{keys.slot(following)}: missing, though {found.key} is there")
                if found.first == following:
                    self.foreign += found.data != self._offered
                    self._take_in(self._decode(found.data, found.key), found.data, {})
                if count % PARALLEL == 0:
                    await asyncio.sleep(0)
        self._confirmed = self._now()
        await self._read_heads()

    async def _read_heads(self) -> None:
        """Read the newest versions that the view has the log's word of, and not their own."""
        last = 0
        while page := self.view.unread(after=last):
            last = page[-1][0]
            read = await self._versions.read(record for _, record in page)
            with self.view.slot():
                for document, record in page:
                    if record.blob in read:
                        self.view.set_described(document, record, describe(record.path, read[record.blob]))

    async def refresh(self) -> None:
        """Take in every slot that was there when this was called. Raises StoreDamaged, Unavailable.

        One probe runs at a time; it serves everybody who came before it started.
        """
        seen = self._probes
        async with self._probing:
            if self._damage is not None:
                raise self._damage
            if self._probes == seen:
                self._probes += 1
                await self._follow()

    def recent(self, after: int) -> list[Entry] | None:
        """The entries behind one of them that are at hand; None if some behind it are not any more."""
        missing = self.view.sequence - after
        if missing > len(self._recent):
            return None
        return list(islice(self._recent, len(self._recent) - missing, None)) if missing > 0 else []

    async def grown(self, sequence: int) -> None:
        """Wait until the log goes on behind an entry."""
        while self.view.sequence <= sequence:
            waiter = asyncio.get_running_loop().create_future()
            self._waiting.add(waiter)
            try:
                await waiter
            finally:
                self._waiting.discard(waiter)

    async def entries_from(self, sequence: int) -> AsyncIterator[Sequence[Entry]]:
        """Read again what was taken in before, from that entry on. Raises StoreDamaged, Unavailable."""
        # Reading begins behind a slot: where a bundle begins, or early enough to meet the slot of that entry.
        bundled = [bundle.first for bundle in await self._reader.bundles() if bundle.first <= sequence]
        behind = max(bundled) - 1 if bundled else max(sequence - slots.ENTRIES, 0)
        async for page in self._reader.behind(behind):
            entries = await asyncio.to_thread(_entries, page)
            yield [entry for entry in entries if entry.seq >= sequence]

    def next_slot(self, writer: str, entries: Sequence[Entry]) -> Slot:
        """The slot that would follow the tip. Raises StoreDamaged when the tip can't be followed."""
        if self._damage is not None:
            raise self._damage
        return Slot(
            history=self._history,
            first=self.view.sequence + 1,
            writer=writer,
            prev=self._tip_hash,
            entries=entries,
        )

    def offer(self, data: bytes | None) -> None:
        """Say which bytes this process is about to create as the next slot, so that they are known when met."""
        self._offered = data

    async def holds(self, key: str, data: bytes) -> bool | None:
        """Whether the slot of that name has these bytes; None if there is none. Raises StoreDamaged, Unavailable."""
        found = await self._reader.object(key)
        return None if found is None else found == data

    def landed(self, slot: Slot, data: bytes, read: Mapping[str, StoredVersion]) -> None:
        """Take in our own slot, unless a probe met it before; `read` is what its blobs hold, by their keys."""
        if self.view.sequence < slot.first:
            self._take_in(slot, data, read)

    async def _follow(self) -> None:
        while (data := await self._reader.slot(first := self.view.sequence + 1)) is not None:
            if self.view.sequence + 1 != first:
                continue  # our own committer took that slot in while the answer was on its way
            slot = self._decode(data, keys.slot(first))
            newest = {entry.path: record_of(entry) for entry in slot.entries if entry.op in CONTENT}
            read = await self._versions.read(newest.values())
            # Our own committer may have taken the same slot in while the blobs were read.
            if self.view.sequence + 1 == first:
                if data != self._offered:
                    self.foreign += 1
                self._take_in(slot, data, read)
        # Nothing under the next name is the end of the log only for who has followed it all the time.
        if self._now() - self._confirmed >= CONFIRMED_FOR:
            await self._catch_up()
        self._confirmed = self._now()

    def _decode(self, data: bytes, key: str) -> Slot:
        return slots.decode(
            data,
            key=key,
            history=self._history,
            first=self.view.sequence + 1,
            prev=self._tip_hash,
            time=self._tip_time,
        )

    def _take_in(self, slot: Slot, data: bytes, read: Mapping[str, StoredVersion]) -> None:
        tip_hash, tip_time = slots.slot_hash(data), slot.entries[-1].time
        try:
            with self.view.slot():
                self._apply(slot, read)
                self.tree.take_in(slot.entries)
                self.view.move_tip(
                    Tip(sequence=slot.last, first=slot.first, slot=tip_hash, time=tip_time, edge=self.tree.edge)
                )
        except InvalidEntry as error:
            # Nothing may be built on a log that has such an entry ...
            self._damage = StoreDamaged(f"{keys.slot(slot.first)}: {error}")
            raise self._damage from error
        except sqlite3.Error as error:
            # ... nor on a view that lacks one.
            self._damage = ViewFailed(f"the local view can't take in {keys.slot(slot.first)}: {error}")
            raise self._damage from error
        self._tip_hash, self._tip_time = tip_hash, tip_time
        self.touched.add(entry.path for entry in slot.entries)
        self.grew.set()
        self.sweeps += sum(entry.op is Op.SWEEP for entry in slot.entries)
        self._recent.extend(slot.entries)
        for waiter in self._waiting:
            if not waiter.done():
                waiter.set_result(None)

    def _apply(self, slot: Slot, read: Mapping[str, StoredVersion]) -> None:
        for entry in slot.entries:
            version = read.get(entry.blob) if entry.blob else None
            try:
                if entry.op is Op.RESTORE:
                    # Alone in its slot, so the tree is still that of the entries before it.
                    check_place(entry, self.tree.edge.root if len(slot.entries) == 1 else b"")
                self.view.apply(entry, describe(entry.path, version) if version else None)
            except (InvalidEntry, Misplaced) as error:
                raise InvalidEntry(f"entry {entry.seq}: {error}") from error


def _entries(page: Sequence[Found]) -> list[Entry]:
    return [entry for found in page for entry in slots.read(found.data, key=found.key).entries]
