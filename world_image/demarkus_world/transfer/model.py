"""What sources offer and what is found here: values, and the two interfaces between them and the import.

Numbers are those of versions; times are ms since 1970; hashes are 64 lower hex digits.
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Protocol


class SourceError(Exception):
    """The source can't be read at all, or not any further; the text says what is in the way."""


class Refused(Exception):
    """A document does not come over; the text says why."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Version:
    """A version that a source has. `fault` says why it can't come over; then the hashes may be empty.

    `archived` is what its own header says, which older servers go by.
    """

    number: int
    etag: str = ""
    previous: str | None = None
    modified: int = 0
    size: int = 0
    archived: bool = False
    fault: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class History:
    """The versions of one document, ascending, and its state.

    `current` is the number that the source holds for the newest (None = the highest it has); `archived` is None where
    the newest version's own header decides. `read` gives the bytes of a version without fault; `close` lets go of
    what it needs for that.
    """

    versions: Sequence[Version]
    read: Callable[[int], Awaitable[bytes]]
    current: int | None = None
    archived: bool | None = None
    close: Callable[[], None] = lambda: None


@dataclass(frozen=True, slots=True, kw_only=True)
class Here:
    """A document as this store has it: its newest version, and the hashes of all that are retained."""

    number: int
    archived: bool
    hashes: Mapping[int, str]

    @property
    def first(self) -> int:
        """The oldest retained version."""
        return min(self.hashes)


class Candidate(Protocol):
    """A path of the source under which there may be a document."""

    @property
    def path(self) -> str: ...

    async def history(self, here: Here | None) -> History | None:
        """Its versions, or None if there is no document. Those before `here.number` need not be among them.

        Raises Refused, SourceError.
        """
        ...


class Source(Protocol):
    """Where documents come from. `counted` says whether all candidates are known before the first is looked at."""

    name: str
    counted: bool

    def candidates(self) -> AsyncIterator[Candidate]:
        """Every path, in an order that is the same each time. Raises SourceError."""
        ...
