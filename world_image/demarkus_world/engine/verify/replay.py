"""The log read from its first entry to its newest, slot by slot, from the log's own objects and from bundles.

Every slot has to be well formed, to begin where the one before ended and to name its hash. Where two do not fit each
other, the slot after both tells which one was altered; where a bundle has a copy, the copy that fits goes on.
"""

from bisect import bisect_left
from collections.abc import Callable, Iterable
from dataclasses import dataclass, replace

from demarkus_base.blobs.port import Blobs, Integrity, NotFound
from demarkus_base.tlog.tree import Edge
from demarkus_world.engine import bundles, keys, retry, slots
from demarkus_world.engine.bundles import Bundle
from demarkus_world.engine.entries import Entry
from demarkus_world.engine.parallel import PARALLEL, in_parallel
from demarkus_world.engine.proof import leaf
from demarkus_world.engine.refusals import StoreDamaged
from demarkus_world.engine.slots import NO_SLOT, Slot
from demarkus_world.engine.verify.findings import Fault, Finding, Findings
from demarkus_world.engine.verify.ledger import Impossible, Ledger


@dataclass(frozen=True, slots=True)
class _Piece:
    """A copy of a slot: where it is kept, and what it says if it is one."""

    kept_in: str
    slot: Slot | None
    hash: str
    fault: str = ""

    @property
    def of_bundle(self) -> bool:
        return not self.kept_in.startswith(keys.LOG)


@dataclass(frozen=True, slots=True)
class _Tip:
    """Where the next slot has to go on. `hash` is None behind a hole."""

    hash: str | None = NO_SLOT
    time: int = 0
    slot: str = ""
    first: int = 0
    entries: str = ""


@dataclass(frozen=True, slots=True)
class Mark:
    """The log as it was when it had so many entries. What can't be told behind a hole is None."""

    root: bytes | None
    edge: Edge | None
    slot_hash: str | None


class Replay:
    """Reads a log into `ledger`. `marks` are the sizes of which `at` is to know more."""

    def __init__(
        self,
        blobs: Blobs,
        findings: Findings,
        *,
        history: str,
        pause: retry.Pause,
        marks: Iterable[int] = (),
        told: Callable[[int], None] = lambda entries: None,
    ) -> None:
        self.ledger = Ledger()
        self.slots = 0
        self.doubtful: set[str] = set()
        """Documents of which an entry was impossible: what follows of them means little."""
        self.at: dict[int, Mark] = {}
        self._blobs = blobs
        self._findings = findings
        self._history = history
        self._pause = pause
        self._marks = frozenset(marks)
        self._told = told
        self._next = 1
        self._tip = _Tip()
        self._edge: Edge | None = Edge()
        self._names: list[str] = []
        self._listed: frozenset[str] = frozenset()
        self._bundles: list[Bundle] = []
        self._copies: dict[int, list[_Piece]] = {}
        self._ahead: dict[str, bytes | None] = {}
        self._blamed: set[str] = set()
        if 0 in self._marks:
            self._remember(0)

    @property
    def sequence(self) -> int:
        """The newest entry's, as far as the log was read."""
        return self._next - 1

    @property
    def edge(self) -> Edge | None:
        """The right edge of the tree over all entries; None when some are missing."""
        return self._edge

    async def run(self) -> None:
        """Read everything that is there now; again for what came meanwhile. Raises Unavailable."""
        await self._look()
        while (first := await self._go_on()) is not None:
            pieces = await self._pieces(first)
            piece = await self._chosen(first, pieces)
            if piece is None or piece.slot is None:
                self._lose(first, await self._after(first))
                continue
            await self._check_place(piece, piece.slot)
            self._take_in(piece, piece.slot)
            self._told(self.sequence)

    # What is there.

    async def _look(self) -> None:
        """List log and bundles, and take down what does not belong there."""
        self._names = []
        async for key in self._blobs.list(keys.LOG):
            if keys.first_of(key) is None:
                self._blame(Fault.STRAY, key, f"{key} is in the log and is not the name of a slot")
            else:
                self._names.append(key)
        self._listed = frozenset(self._names)
        self._bundles = await bundles.listed(self._blobs, pause=self._pause)

    async def _go_on(self) -> int | None:
        """Where the next slot that is there begins, or None at the end. A hole before it is a finding."""
        if await self._pieces(self._next):
            return self._next
        found = await self._after(self._next)
        if found is None:
            return None
        missing = keys.slot(self._next)
        self._blame(
            Fault.SLOT_MISSING,
            missing,
            f"{_entries(self._next, found - 1)}: missing, {missing} is gone though later entries are there",
            entry=self._next,
        )
        self._lose(self._next, found)
        return found

    async def _after(self, first: int) -> int | None:
        """The beginning of the nearest slot behind that one, whatever is kept of it."""
        starts = [start for name in self._names if (start := keys.first_of(name) or 0) > first]
        for bundle in self._bundles:
            if bundle.last > first:
                await self._open_bundle(bundle)
        starts += [start for start, kept in self._copies.items() if start > first and kept]
        return min(starts, default=None)

    async def _pieces(self, first: int) -> list[_Piece]:
        """Every copy of the slot that begins there."""
        for bundle in self._bundles:
            if bundle.first <= first <= bundle.last:
                await self._open_bundle(bundle)
        key, kept = keys.slot(first), self._copies.get(first, [])
        if kept and key not in self._listed:
            return kept
        data = await self._read_ahead(key)
        return kept if data is None else [_piece(key, data), *kept]

    async def _open_bundle(self, bundle: Bundle) -> None:
        if bundle not in self._bundles:
            return
        self._bundles = [other for other in self._bundles if other != bundle]
        data = await self._read(bundle.key)
        if data is None:
            return  # its slots are there, or a hole is found
        try:
            found = bundles.decode(data, bundle, history=self._history)
        except StoreDamaged as error:
            self._blame(Fault.BUNDLE, bundle.key, f"a bundle of the log was altered after it was written: {error}")
            return
        for start, copy in found:
            if start >= self._next:
                self._copies.setdefault(start, []).append(_piece(bundle.key, copy))

    async def _read_ahead(self, key: str) -> bytes | None:
        """A slot's bytes; those of the next ones are fetched with it."""
        if key not in self._ahead:
            self._ahead = {kept: data for kept, data in self._ahead.items() if kept > self._tip.slot}
            page = [key]
            if key in self._listed:
                start = bisect_left(self._names, key)
                page = [name for name in self._names[start : start + PARALLEL] if name not in self._ahead]
            self._ahead |= zip(page, await in_parallel(self._read, page), strict=True)
        found = self._ahead[key]
        if found is None:
            del self._ahead[key]  # it may come yet
        return found

    async def _read(self, key: str) -> bytes | None:
        try:
            return await retry.read(lambda: self._blobs.get(key), pause=self._pause)
        except NotFound:
            return None
        except Integrity as error:
            return str(error).encode()  # no JSON: told as an altered object

    # Which copy is right.

    async def _chosen(self, first: int, pieces: list[_Piece]) -> _Piece | None:
        """The copy to go on with. The others are findings; all of them if none is a slot of this world."""
        usable: list[_Piece] = []
        for piece in pieces:
            if not self._reject(piece, first):
                usable.append(piece)
        if len({piece.hash for piece in usable}) < 2:
            return usable[0] if usable else None
        fitting = [piece for piece in usable if piece.slot is not None and piece.slot.prev == self._tip.hash]
        vouched = [piece for piece in fitting if await self._vouched(piece)]
        best = (vouched or fitting or usable)[0]
        if not vouched:
            names = " and ".join(piece.kept_in for piece in usable)
            self._blame(
                Fault.SLOT_ALTERED,
                best.kept_in,
                f"entries from {first} on: altered after they were written in one of {names}, which differ",
                entry=first,
            )
            return best
        for piece in usable:
            if piece.hash != best.hash:
                self._blame_copy(piece, "differs from the copy that the rest of the log fits")
        return best

    def _reject(self, piece: _Piece, first: int) -> bool:
        """Whether a copy is no slot of this world for that place, which is then a finding."""
        if piece.slot is None:
            self._blame_copy(piece, piece.fault)
        elif piece.slot.history != self._history:
            self._blame(
                Fault.FOREIGN,
                piece.kept_in,
                f"{piece.kept_in} belongs to another world (history {piece.slot.history})",
                field="history",
                entry=first,
            )
        elif piece.slot.first != first:
            self._blame_copy(
                piece,
                f"holds entries from {piece.slot.first} on where entry {first} should be: slots were swapped",
                field="first",
            )
        else:
            return False
        return True

    async def _vouched(self, piece: _Piece) -> bool | None:
        """Whether the slot behind it names its hash; None if there is none."""
        if piece.slot is None:
            return False
        following = [copy.slot for copy in await self._pieces(piece.slot.last + 1) if copy.slot is not None]
        if not following:
            return None
        return any(slot.prev == piece.hash for slot in following)

    async def _check_place(self, piece: _Piece, slot: Slot) -> None:
        """Whether the slot follows the one before; if not, which of them was altered."""
        tip = self._tip
        if tip.hash is not None and slot.prev != tip.hash:
            here = _entries(slot.first, slot.last)
            vouched = await self._vouched(piece)
            if not tip.slot:
                text = f"{here} can't begin the log: {piece.kept_in} names a slot before it"
                self._blame(Fault.SLOT_ALTERED, piece.kept_in, text, entry=slot.first, field="prev")
            elif vouched:
                text = f"{tip.entries}: altered after it was written, {tip.slot} is not what the slot behind it names"
                self._blame(Fault.SLOT_ALTERED, tip.slot, text, entry=tip.first, field="prev")
            elif vouched is False:
                text = f"{here}: altered after it was written, {piece.kept_in} fits neither of its neighbours"
                self._blame(Fault.SLOT_ALTERED, piece.kept_in, text, entry=slot.first, field="prev")
            else:
                text = f"{tip.entries} or {here}: altered after it was written, {piece.kept_in} names another slot "
                self._blame(Fault.SLOT_ALTERED, tip.slot, f"{text}before it", entry=tip.first, field="prev")
        if slot.entries[0].time < tip.time:
            text = f"entry {slot.first} is older than the one before it"
            self._blame(Fault.ENTRY_IMPOSSIBLE, piece.kept_in, text, entry=slot.first, field="time")

    # What it adds up to.

    def _take_in(self, piece: _Piece, slot: Slot) -> None:
        for entry in slot.entries:
            try:
                self.ledger.apply(entry)
            except Impossible as fault:
                if entry.path not in self.doubtful:
                    self.doubtful.add(entry.path)
                    self._findings.add(_impossible(piece.kept_in, entry, fault))
                self.ledger.force(entry)
            if self._edge is not None:
                self._edge, _ = self._edge.grown(leaf(entry))
            if entry.seq in self._marks and entry.seq < slot.last:
                self._remember(entry.seq)
        self.slots += 1
        self._next = slot.last + 1
        entries = _entries(slot.first, slot.last)
        self._tip = _Tip(piece.hash, slot.entries[-1].time, keys.slot(slot.first), slot.first, entries)
        if slot.last in self._marks:
            self._remember(slot.last, piece.hash)
        self._copies = {start: kept for start, kept in self._copies.items() if start >= self._next}

    def _remember(self, size: int, slot_hash: str | None = None) -> None:
        self.at[size] = Mark(self._edge.root if self._edge else None, self._edge, slot_hash)

    def _lose(self, first: int, following: int | None) -> None:
        """Go on behind entries that can't be had."""
        self.ledger.entries_missing = True
        self._edge = None
        self._tip = replace(self._tip, hash=None)
        self._next = following if following is not None else first + 1

    def _blame_copy(self, piece: _Piece, text: str, *, field: str | None = None) -> None:
        if piece.of_bundle:
            self._blame(Fault.BUNDLE, piece.kept_in, f"a bundle of the log was altered: a slot in it {text}")
        else:
            entry = keys.first_of(piece.kept_in)
            message = text if text.startswith(piece.kept_in) else f"{piece.kept_in} {text}"
            self._blame(
                Fault.SLOT_ALTERED, piece.kept_in, f"entries from {entry} on were altered: {message}", entry, field
            )

    def _blame(self, fault: Fault, key: str, text: str, entry: int | None = None, field: str | None = None) -> None:
        if key not in self._blamed:
            self._blamed.add(key)
            self._findings.add(Finding(fault=fault, object=key, text=text, entry=entry, field=field))


def _piece(kept_in: str, data: bytes) -> _Piece:
    hashed = slots.slot_hash(data)
    try:
        return _Piece(kept_in, slots.read(data, key=kept_in), hashed)
    except StoreDamaged as error:
        return _Piece(kept_in, None, hashed, str(error))


def _impossible(key: str, entry: Entry, fault: Impossible) -> Finding:
    return Finding(
        fault=Fault.ENTRY_IMPOSSIBLE,
        object=key,
        text=f"entry {entry.seq} {fault}: no world could have written that, the log was altered",
        entry=entry.seq,
        field=fault.field,
        path=entry.path,
        version=entry.version or None,
    )


def _entries(first: int, last: int) -> str:
    return f"entry {first}" if first == last else f"entries {first} to {last}"
