"""The lives of a history, as its restore entries tell of them: which incarnation wrote which part of a log (pure).

    entry 1 to size     restore     ...                         restore     ...
    the parent's        from here on the next entry's parent's              the marker's incarnation's

What an incarnation wrote behind `size` was not brought over. The restore entry says how many entries are known to have
been there, so that a note about them is neither believed of this log nor held against it.
"""

from collections.abc import Iterator
from dataclasses import dataclass

from demarkus_base.tlog.notes import NoteError, claimed
from demarkus_world.engine.entries import Entry


class Misplaced(Exception):
    """A restore entry that can't stand where it stands; `field` is what gives it away."""

    def __init__(self, field: str, text: str) -> None:
        super().__init__(text)
        self.field = field


@dataclass(frozen=True, slots=True)
class End:
    """Where the log of an incarnation ended: `size` of its entries were kept, `known` are known to have been."""

    size: int
    known: int


def check_place(entry: Entry, root: bytes | None) -> None:
    """Whether a restore entry tells of the entries before it, of that root (None: not known). Raises Misplaced."""
    if entry.size != entry.seq - 1:
        raise Misplaced("size", f"says that {entry.size} entries were restored, before it are {entry.seq - 1}")
    if root is not None and entry.root != root.hex():
        raise Misplaced(
            "root", f"says that entries of the root {entry.root} were restored, those before it have another"
        )


class Lineage:
    """The incarnations that a log knows of. `restores` are its restore entries, oldest first."""

    def __init__(self, history: str) -> None:
        self.restores: list[Entry] = []
        self._history = history
        self._ends: dict[str, End] = {}

    @property
    def newest(self) -> Entry | None:
        """The newest restore entry."""
        return self.restores[-1] if self.restores else None

    def end(self, incarnation: str) -> End | None:
        """Where that incarnation ended; None if no restore entry names it."""
        return self._ends.get(incarnation)

    def cut(self, size: int) -> tuple[tuple[str, ...], int]:
        """What a log that is cut behind so many entries would not tell of itself any more.

        The incarnations that only later restore entries name, newest first, and how many entries these know of.
        """
        gone = [entry for entry in self.restores if entry.seq > size]
        lives = tuple(life for entry in reversed(gone) for life in _lives(entry))
        return lives, max((_end(entry).known for entry in gone), default=0)

    def take(self, entry: Entry, root: bytes | None) -> None:
        """Take in a restore entry, behind entries of this root (None: not known).

        Raises Misplaced for one that no restore makes; it is taken in all the same.
        """
        before = set(self._ends)
        lives = tuple(_lives(entry))
        self.restores.append(entry)
        self._ends |= {life: _end(entry) for life in lives if life not in before}
        check_place(entry, root)
        if before & set(lives) or len(set(lives)) < len(lives):
            raise Misplaced("parent", "names an incarnation that an earlier restore ended")
        if entry.note is not None:
            self._check_note(entry, entry.note)

    def _check_note(self, entry: Entry, text: str) -> None:
        try:
            note = claimed(text)
        except NoteError as error:
            raise Misplaced("note", f"has a witnessed note that is none: {error}") from None
        history, _, incarnation = note.origin.partition("/")
        if history != self._history or incarnation not in self._ends:
            raise Misplaced("note", f"has a witnessed note about {note.origin}, which was not restored")
        if note.size > _end(entry).known:
            raise Misplaced("lost", f"says that {entry.lost} entries were lost, its note knows of {note.size}")


def _lives(entry: Entry) -> Iterator[str]:
    if entry.parent is not None:
        yield entry.parent
    yield from entry.ancestors or ()


def _end(entry: Entry) -> End:
    size = entry.size or 0
    return End(size, size + (entry.lost or 0))
