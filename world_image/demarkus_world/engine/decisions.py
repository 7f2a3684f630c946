"""What decisions rest on and what they come to: values (`preconditions.py` makes the decisions)."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Protocol

from demarkus_world.engine.judgement import Standard
from demarkus_world.engine.model import Outcome
from demarkus_world.engine.rules import Rules


@dataclass(frozen=True, slots=True, kw_only=True)
class Document:
    """A document as far as decisions depend on it: `version` is the newest, `first` the oldest retained one.

    `metadata` is None when the newest version's bytes could not be read.
    """

    version: int
    first: int
    stored: str
    body: str
    archived: bool
    metadata: Mapping[str, str] | None


@dataclass(frozen=True, slots=True, kw_only=True)
class Retained:
    """A retained version: hash and size of its stored bytes, and its time (ms; None = it is about to be written)."""

    stored: str
    size: int
    modified: int | None


@dataclass(frozen=True, slots=True, kw_only=True)
class Ground:
    """What a decision rests on besides documents: the rules, by what content is judged, the time (ms), whether no
    space is left for content.
    """

    rules: Rules = field(default_factory=Rules)
    standard: Standard = field(default_factory=Standard)
    now: int = 0
    full: bool = False


NOTHING_MORE = Ground()


class Tip(Protocol):
    """What a write would follow."""

    @property
    def documents(self) -> int: ...

    @property
    def stored_bytes(self) -> int:
        """The size of all retained versions."""
        ...

    @property
    def open_proposals(self) -> int: ...

    def document(self, path: str) -> Document | None: ...

    def is_directory(self, path: str) -> bool: ...

    def retained(self, path: str, version: int) -> Retained: ...


@dataclass(frozen=True, slots=True, kw_only=True)
class Content:
    """A new version: its exact bytes, their hashes, and the metadata a reader of the bytes will find.

    An adopted one brings its time (ms), and as the first one here the hash of the version before it elsewhere.
    """

    data: bytes
    stored: str
    body: str
    metadata: Mapping[str, str]
    modified: int | None = None
    predecessor: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Pruned:
    """Versions `first` to `last` leave the retained ones; `stored` is the hash of the last, `size` that of them all."""

    first: int
    last: int
    stored: str
    size: int
    erase: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class Decision:
    """What to commit: a new version, perhaps with a prune, or an archive transition, or (`changes` False) nothing.

    `after` is the document as the next write would find it (None: it is not about one); `new` says that it was not
    there before. `also` is what happens to another document in the same slot: the proposal that is accepted.
    """

    outcome: Outcome
    version: int
    after: Document | None
    changes: bool
    content: Content | None = None
    pruned: Pruned | None = None
    new: bool = False
    warnings: tuple[str, ...] = ()
    also: "tuple[str, Decision] | None" = None

    @property
    def growth(self) -> int:
        """Bytes that are retained more than before."""
        return (len(self.content.data) if self.content else 0) - (self.pruned.size if self.pruned else 0)
