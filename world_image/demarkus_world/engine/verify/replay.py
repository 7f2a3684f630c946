"""The log read from its first entry to its newest, slot by slot, from the log's own objects and from bundles.

Every slot has to be well formed, to begin where the one before ended and to name its hash. Where two do not fit each
other, the slot after both tells which one was altered; where a bundle has a copy, the copy that fits goes on.
"""

from collections.abc import Callable, Iterable
from dataclasses import dataclass, replace

from demarkus_base.blobs.port import Blobs
from demarkus_base.tlog.notes import claimed
from demarkus_base.tlog.tree import HASH_BYTES, Edge
from demarkus_world.engine import keys, retry
from demarkus_world.engine.entries import Entry, Op
from demarkus_world.engine.lineage import Lineage, Misplaced
from demarkus_world.engine.proof import leaf
from demarkus_world.engine.slots import NO_SLOT, Slot
from demarkus_world.engine.verify.findings import Fault, Finding, Findings
from demarkus_world.engine.verify.ledger import Impossible, Ledger
from demarkus_world.engine.verify.pieces import Piece, Pieces


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
    """Reads a log into `ledger`. `marks` are the sizes of which `at` is to know more.

    With `restored` the notes in restore entries are compared with what is before them; that takes 32 bytes an entry.
    """

    def __init__(
        self,
        blobs: Blobs,
        findings: Findings,
        *,
        history: str,
        pause: retry.Pause,
        marks: Iterable[int] = (),
        restored: bool = False,
        told: Callable[[int], None] = lambda entries: None,
    ) -> None:
        self.ledger = Ledger()
        self.slots = 0
        self.doubtful: set[str] = set()
        """Documents of which an entry was impossible: what follows of them means little."""
        self.at: dict[int, Mark] = {}
        self.lineage = Lineage(history)
        self._pieces = Pieces(
            blobs, history=history, pause=pause, stray=self._blame_stray, unreadable=self._blame_bundle
        )
        self._findings = findings
        self._history = history
        self._marks = frozenset(marks)
        self._told = told
        self._next = 1
        self._tip = _Tip()
        self._edge: Edge | None = Edge()
        self._blamed: set[str] = set()
        self._ended: Piece | None = None
        self._leaves: bytearray | None = bytearray() if restored else None
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

    @property
    def ended(self) -> Piece | None:
        """The slot of the newest restore entry, unless something was found about it."""
        return None if self._ended is None or self._ended.kept_in in self._blamed else self._ended

    async def run(self) -> None:
        """Read everything that is there now; again for what came meanwhile. Raises Unavailable, BlobError."""
        await self._pieces.look()
        # What comes meanwhile is not waited for: a busy world would never let this end.
        until = self._pieces.newest
        while self._next <= until and (pieces := await self._pieces_behind()):
            first = self._next
            piece = await self._chosen(first, pieces)
            if piece is None or piece.slot is None:
                self._lose(await self._pieces.after(first) or first + 1)
                continue
            await self._check_place(piece, piece.slot)
            self._take_in(piece, piece.slot)
            self._pieces.drop(first, piece.slot.last)
            self._told(self.sequence)

    async def _pieces_behind(self) -> list[Piece]:
        """The copies of the next slot that is there, none at the end. A hole before it is a finding."""
        pieces = await self._pieces.at(self._next)
        if not pieces:
            # A running world may have copied slots into a bundle and dropped them since they were listed.
            await self._pieces.look()
            pieces = await self._pieces.at(self._next)
        if pieces:
            return pieces
        found = await self._pieces.after(self._next)
        if found is None:
            return []
        missing = keys.slot(self._next)
        self._blame(
            Fault.SLOT_MISSING,
            missing,
            f"{_entries(self._next, found - 1)}: missing, {missing} is gone though later entries are there",
            entry=self._next,
        )
        self._lose(found)
        return await self._pieces.at(found)

    # Which copy is right.

    async def _chosen(self, first: int, pieces: list[Piece]) -> Piece | None:
        """The copy to go on with. The others are findings; all of them if none is a slot of this world."""
        usable: list[Piece] = []
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

    def _reject(self, piece: Piece, first: int) -> bool:
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

    async def _vouched(self, piece: Piece) -> bool | None:
        """Whether the slot behind it names its hash; None if there is none."""
        if piece.slot is None:
            return False
        following = [copy.slot for copy in await self._pieces.at(piece.slot.last + 1) if copy.slot is not None]
        if not following:
            return None
        return any(slot.prev == piece.hash for slot in following)

    async def _check_place(self, piece: Piece, slot: Slot) -> None:
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

    def _take_in(self, piece: Piece, slot: Slot) -> None:
        for entry in slot.entries:
            if entry.op is Op.RESTORE:
                self._take_restore(entry, piece, slot)
            try:
                self.ledger.apply(entry)
            except Impossible as fault:
                if entry.path not in self.doubtful:
                    self.doubtful.add(entry.path)
                    self._findings.add(_impossible(piece.kept_in, entry, fault))
                self.ledger.force(entry)
            if self._edge is not None:
                hashed = leaf(entry)
                self._edge, _ = self._edge.grown(hashed)
                if self._leaves is not None:
                    self._leaves += hashed
            if entry.seq in self._marks and entry.seq < slot.last:
                self._remember(entry.seq)
        self.slots += 1
        self._next = slot.last + 1
        entries = _entries(slot.first, slot.last)
        self._tip = _Tip(piece.hash, slot.entries[-1].time, keys.slot(slot.first), slot.first, entries)
        if slot.last in self._marks:
            self._remember(slot.last, piece.hash)

    def _take_restore(self, entry: Entry, piece: Piece, slot: Slot) -> None:
        self._ended = None
        try:
            self.lineage.take(entry, self._edge.root if self._edge else None)
            if len(slot.entries) > 1:
                raise Misplaced("op", "says that the world was restored, among entries that came of something else")
            self._check_witness(entry)
        except Misplaced as fault:
            self._findings.add(_impossible(piece.kept_in, entry, fault))
        else:
            self._ended = piece

    def _check_witness(self, entry: Entry) -> None:
        """Whether the note in a restore entry vouches for what is before it. Raises Misplaced."""
        if entry.note is None or self._leaves is None or self._edge is None:
            return
        note = claimed(entry.note)
        end = self.lineage.end(note.origin.partition("/")[2])
        if end is None or note.size > end.size:
            return  # about what was lost
        edge = Edge()
        for start in range(0, note.size * HASH_BYTES, HASH_BYTES):
            edge, _ = edge.grown(bytes(self._leaves[start : start + HASH_BYTES]))
        if edge.root != note.root:
            raise Misplaced("note", f"has a witnessed note of which the first {note.size} entries are not those here")

    def _remember(self, size: int, slot_hash: str | None = None) -> None:
        self.at[size] = Mark(self._edge.root if self._edge else None, self._edge, slot_hash)

    def _lose(self, following: int) -> None:
        """Go on with that entry, behind some that can't be had."""
        self.ledger.entries_missing = True
        self._edge = None
        self._tip = replace(self._tip, hash=None)
        self._next = following

    def _blame_stray(self, key: str) -> None:
        self._blame(Fault.STRAY, key, f"{key} is in the log and is not the name of a slot")

    def _blame_bundle(self, key: str, fault: str) -> None:
        self._blame(Fault.BUNDLE, key, f"a bundle of the log was altered after it was written: {fault}")

    def _blame_copy(self, piece: Piece, text: str, *, field: str | None = None) -> None:
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


def _impossible(key: str, entry: Entry, fault: Impossible | Misplaced) -> Finding:
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
