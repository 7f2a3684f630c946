"""The source of a restore, read before anything is made: how far its log is brought over, and that this is whole.

Every slot up to there has to follow the one before, every entry has to be one that a world could have committed, and
every version that is retained there has to be there with the recorded bytes. Behind it the log is only counted: a
restore may be wanted because of what is damaged there.
"""

import asyncio
import logging
from collections.abc import AsyncIterator, Callable
from dataclasses import dataclass, replace

from demarkus_base.blobs.port import Blobs
from demarkus_base.tlog.tree import EMPTY_ROOT, Edge
from demarkus_world.engine import identity, keys, retry, slots
from demarkus_world.engine.entries import Entry, Op
from demarkus_world.engine.lineage import Lineage, Misplaced
from demarkus_world.engine.model import Identity
from demarkus_world.engine.notes import Note, origin
from demarkus_world.engine.proof import leaf
from demarkus_world.engine.reader import Reader
from demarkus_world.engine.refusals import RestoreRefused, StoreDamaged, StoreForeign, StoreUnfinished
from demarkus_world.engine.slots import NO_SLOT, Slot
from demarkus_world.engine.verify.contents import Contents
from demarkus_world.engine.verify.findings import Fault, Finding
from demarkus_world.engine.verify.ledger import Impossible, Ledger

Told = Callable[[str, int], None]
"""Told of progress: what is being done, and how much of it was."""

BREATH = 16
"""Slots that are read before the loop gets a turn."""

logger = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True, kw_only=True)
class Until:
    """How far the log is wanted: up to an entry, or what was there at a time (ms); neither = all of it."""

    sequence: int | None = None
    time: int | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Survey:
    """What is brought over: the entries up to `edge`, of which the last slot hashes to `prev` and is of `time`.

    `known` is how many entries there are known to have been, `ancestors` the incarnations that the kept part of the log
    does not tell of.
    """

    edge: Edge
    prev: str
    time: int
    known: int
    ancestors: tuple[str, ...]
    ledger: Ledger


async def marker(blobs: Blobs, *, pause: retry.Pause) -> Identity | None:
    """Whose store it is; None if it does not say. Raises StoreDamaged, Unavailable."""
    data = await Reader(blobs, history="", pause=pause).object(keys.WORLD)
    return None if data is None else identity.decode(data)


async def source_of(blobs: Blobs, *, history: str | None, pause: retry.Pause) -> Identity:
    """Whose store the source is. Raises RestoreRefused, StoreForeign, StoreDamaged, Unavailable."""
    found = await marker(blobs, pause=pause)
    if found is None:
        raise RestoreRefused(f"there is no store to restore from: {keys.WORLD} is missing")
    if history is not None and found.history != history:
        raise StoreForeign(f"the source is the store of history {found.history}, this world is {history}")
    return found


async def walk(blobs: Blobs, history: str, *, pause: retry.Pause) -> AsyncIterator[tuple[Slot, bytes]]:
    """The slots of a log from the first one on, each behind the one before. Raises StoreDamaged, Unavailable."""
    reader = Reader(blobs, history=history, pause=pause)
    tip = _Tip()
    try:
        async for page in reader.behind(0):
            for count, found in enumerate(page):
                if found.first < tip.following:
                    continue
                if found.first > tip.following:
                    raise StoreDamaged(f"{keys.slot(tip.following)}: missing, though {found.key} is there")
                slot, tip = tip.went_on(found.data, found.key, history)
                yield slot, found.data
                if count % BREATH == 0:
                    await asyncio.sleep(0)
    except StoreDamaged:
        # Slots are read many at a time: those before the damaged one may be good.
        while (data := await reader.slot(tip.following)) is not None:
            slot, tip = tip.went_on(data, keys.slot(tip.following), history)
            yield slot, data
        raise


@dataclass(frozen=True, slots=True)
class _Tip:
    """Where the next slot has to go on."""

    following: int = 1
    prev: str = NO_SLOT
    time: int = 0

    def went_on(self, data: bytes, key: str, history: str) -> tuple[Slot, "_Tip"]:
        """The slot in the bytes, and where the one behind it goes on. Raises StoreDamaged."""
        slot = slots.decode(data, key=key, history=history, first=self.following, prev=self.prev, time=self.time)
        return slot, _Tip(slot.last + 1, slots.slot_hash(data), slot.entries[-1].time)


def kept(slot: Slot, data: bytes, size: int) -> tuple[Slot, bytes]:
    """The slot with no entry behind `size`; written anew if that cuts it."""
    if slot.last <= size:
        return slot, data
    cut = replace(slot, entries=tuple(entry for entry in slot.entries if entry.seq <= size))
    return cut, slots.encode(cut)


async def survey(
    blobs: Blobs, source: Identity, until: Until, witness: Note | None, *, pause: retry.Pause, told: Told
) -> Survey:
    """Read the source. Raises RestoreRefused, StoreDamaged, StoreUnfinished, Unavailable."""
    found = _Log(source, until, witness)
    await found.read(blobs, pause=pause, told=told)
    contents = Contents(blobs, found.ledger, pause=pause)
    findings = await contents.check(found.ledger.paths(), lambda versions: told("versions verified", versions))
    if findings:
        raise found.meaning(findings, len(findings) + contents.more)
    ancestors, known = found.lineage.cut(found.edge.size)
    return Survey(
        edge=found.edge,
        prev=found.prev,
        time=found.time,
        known=max(known, found.total, witness.size if witness else 0),
        ancestors=ancestors,
        ledger=found.ledger,
    )


class _Log:
    """The log of a source, read once; what it has up to the cut, and what is told behind it."""

    def __init__(self, source: Identity, until: Until, witness: Note | None) -> None:
        self.ledger = Ledger()
        self.lineage = Lineage(source.history)
        self.edge = Edge()
        self.prev = NO_SLOT
        self.time = 0
        self.total = 0
        self._source = source
        self._until = until
        self._witness = witness
        self._witnessed = EMPTY_ROOT if witness is not None and not witness.size else None
        self._whole = Edge()
        self._ended = False
        self._first_time = 0
        self._pruned_later: dict[str, list[tuple[int, int]]] = {}

    async def read(self, blobs: Blobs, *, pause: retry.Pause, told: Told) -> None:
        """Read all of it. Raises RestoreRefused, StoreDamaged, StoreUnfinished, Unavailable."""
        try:
            async for slot, data in walk(blobs, self._source.history, pause=pause):
                self._take(slot, data)
                told("entries verified", self.total)
            whole = True
        except StoreDamaged as error:
            if not self._ended and self.total != self._until.sequence:
                raise
            whole = False
            logger.warning("the source is damaged behind what is restored: %s", error)
        newest = self.lineage.newest
        if whole and self._source.parent != (newest.parent if newest else None):
            raise StoreUnfinished("the source is itself a store whose restore was not finished")
        self._check_until()
        if self._witness is not None:
            self._hear(self._witness, whole=whole)

    def _take(self, slot: Slot, data: bytes) -> None:
        for entry in slot.entries:
            if entry.op is Op.RESTORE:
                self._take_restore(entry, slot)
            if not self._ended and self._is_behind(entry):
                self._end(entry, slot, data)
            self._whole, _ = self._whole.grown(leaf(entry))
            self.total = entry.seq
            if self._witness is not None and self._witness.size == entry.seq:
                self._witnessed = self._whole.root
            if self._ended:
                if entry.op is Op.PRUNE:
                    self._pruned_later.setdefault(entry.path, []).append((entry.version, entry.seq))
                continue
            self._first_time = self._first_time or entry.time
            try:
                self.ledger.apply(entry)
            except Impossible as fault:
                raise StoreDamaged(f"{keys.slot(slot.first)}: entry {entry.seq} {fault}") from fault
            self.edge, self.time = self._whole, entry.time
        if not self._ended:
            self.prev = slots.slot_hash(data)

    def _take_restore(self, entry: Entry, slot: Slot) -> None:
        try:
            self.lineage.take(entry, self._whole.root)
        except Misplaced as fault:
            raise StoreDamaged(f"{keys.slot(slot.first)}: entry {entry.seq} {fault}") from fault

    def _is_behind(self, entry: Entry) -> bool:
        sequence, time = self._until.sequence, self._until.time
        return (sequence is not None and entry.seq > sequence) or (time is not None and entry.time > time)

    def _end(self, entry: Entry, slot: Slot, data: bytes) -> None:
        """What is wanted ends before this entry."""
        self._ended = True
        if entry.seq == slot.first:
            return
        operation = [other.seq for other in slot.entries if other.operation == entry.operation]
        if operation[0] < entry.seq:
            raise RestoreRefused(
                f"entries {operation[0]} to {operation[-1]} are one operation, which happened or did not: "
                f"restore up to entry {operation[0] - 1} or {operation[-1]}"
            )
        self.prev = slots.slot_hash(kept(slot, data, entry.seq - 1)[1])

    def _check_until(self) -> None:
        sequence = self._until.sequence
        if sequence is not None and self.total < sequence:
            raise RestoreRefused(f"the log of the source ends with entry {self.total}, before entry {sequence}")
        if self._ended and not self.edge.size:
            raise RestoreRefused("at that time, or before that entry, nothing had been written yet")

    def _hear(self, note: Note, *, whole: bool) -> None:
        """Whether the witness knows this log."""
        incarnation = note.origin.removeprefix(f"{self._source.history}/")
        end = self.lineage.end(incarnation)
        if end is None and note.origin != origin(self._source):
            raise RestoreRefused(f"the witnessed note is about {note.origin}, the source is {origin(self._source)}")
        # What the source does not have, or not to be read, is counted as lost.
        reach = self.total if end is None else min(end.size, self.total)
        if note.size <= reach and self._witnessed != note.root:
            raise RestoreRefused(
                f"the source is not the witnessed history: its first {note.size} entries are not those that the world "
                "signed; it was rewritten, or goes on from an earlier state in another way"
            )

    def meaning(self, findings: list[Finding], total: int) -> RestoreRefused | StoreDamaged:
        """What it means for a restore that versions are not as the log says."""
        needed = 0
        for finding in findings:
            gone = [
                sequence
                for version, sequence in self._pruned_later.get(finding.path or "", ())
                if version >= (finding.version or 0)
            ]
            if finding.fault is not Fault.VERSION_MISSING or not gone:
                more = f" (and {total - 1} more findings)" if total > 1 else ""
                return StoreDamaged(f"the source is damaged: {finding.text}{more}")
            needed = max(needed, gone[0])
        first = findings[0]
        return RestoreRefused(
            f"version {first.version} of {first.path} is gone: it was pruned later and its bytes were deleted; "
            f"restore up to entry {needed} or later"
        )
