"""What the verbs and the engine say to each other: records, the view, a write and its result.

Values only. Times are integer milliseconds since 1970 (UTC); hashes are 64 lower hex digits, ids 32.
"""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Literal, Protocol

WriteOperation = Literal["publish", "append", "archive", "unarchive", "prune", "sweep", "seed", "propose", "decide"]
Credential = Literal["token", "grant", "local"]
Outcome = Literal["created", "unchanged", "archived", "unarchived", "pruned", "swept", "settled"]
Verdict = Literal["accept", "reject", "expire"]
ChildKind = Literal["file", "directory"]
ChainState = Literal["intact", "pruned", "broken"]


@dataclass(frozen=True, slots=True)
class Identity:
    """Which world a store holds: `history` never changes, `incarnation` is drawn at its creation and at each restore.

    `parent` is the incarnation that it was restored from.
    """

    history: str
    incarnation: str
    parent: str | None = None


@dataclass(frozen=True, slots=True)
class Expected:
    """The store that has to be there: of this history, with at least so many entries in its log."""

    history: str
    size: int


@dataclass(frozen=True, slots=True)
class VersionRecord:
    """One retained version as the log knows it. `etag` is the SHA-256 of the stored bytes, `blob` their key."""

    path: str
    version: int
    etag: str
    body_hash: str
    size: int
    blob: str
    modified: int
    sequence: int
    by: str | None
    credential: str | None


@dataclass(frozen=True, slots=True)
class Head:
    """The newest version of a document, whether it is archived, and its publisher metadata in stored form."""

    record: VersionRecord
    archived: bool
    metadata: Mapping[str, str]


@dataclass(frozen=True, slots=True)
class Child:
    """One name in a directory.

    A file carries its `head`, if that was asked for. A directory says whether a document is below it that no dot name
    and no `versions` segment hides: any (`has_visible`), and one that is not archived (`has_live`). For a file both
    speak of itself.
    """

    name: str
    kind: ChildKind
    head: Head | None
    has_visible: bool
    has_live: bool


class View(Protocol):
    """The state of the world at `sequence`, kept by this process: no call here asks the store or waits.

    It is the live state. What is read without an await in between is consistent; a caller that awaits keeps the
    records it has, which never change. Paths are canonical: a leading slash and no trailing one, the root is `/`.
    """

    @property
    def sequence(self) -> int: ...

    @property
    def documents(self) -> int:
        """How many documents there are, archived ones included."""
        ...

    @property
    def stored_bytes(self) -> int:
        """The size of all retained versions."""
        ...

    def head(self, path: str) -> Head | None: ...

    def version(self, path: str, number: int) -> VersionRecord | None:
        """The record of a retained version."""
        ...

    def versions(self, path: str) -> Sequence[VersionRecord]:
        """All retained versions, ascending; empty when there is no such document."""
        ...

    def predecessor(self, path: str) -> str | None:
        """The hash of the version before the oldest retained one, if there was one."""
        ...

    def is_directory(self, path: str) -> bool:
        """Whether a document in any state lies below; the root always is one."""
        ...

    def children(self, path: str, *, after: str = "", heads: bool = True) -> Iterable[Child]:
        """The names directly below that are greater than `after`, unfiltered, in ascending byte order.

        Without `heads` they cost a fifth.
        """
        ...

    def by_body(self, body_hash: str) -> Sequence[str]:
        """Paths of the current, not archived documents with that body (SHA-256, hex), byte-sorted."""
        ...


@dataclass(frozen=True, slots=True, kw_only=True)
class Settle:
    """Closes the proposal at `path`, once: its document is archived. Only one that waited too long expires."""

    path: str
    verdict: Verdict
    by: str | None = None
    credential: Credential | None = None
    op: WriteOperation = field(default="decide", init=False)


@dataclass(frozen=True, slots=True, kw_only=True)
class Write:
    """A change somebody asks for.

    `metadata` is publisher metadata, already valid by Mark protocol 6.2 (for `append` only the overlay).
    `expected` is the version it builds on: None = whatever is there, 0 = nothing may be there.
    `retention_acts` says whether a key `retention` prunes or is only stored.
    `accepts` is the proposal that this write was: it is closed in the same slot, or neither happens.
    """

    op: WriteOperation
    path: str
    body: bytes = b""
    metadata: Mapping[str, str] = field(default_factory=dict)
    expected: int | None = None
    by: str
    credential: Credential
    retention_acts: bool = True
    accepts: Settle | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Adopt:
    """A version that is brought from elsewhere, byte for byte: its etag and its place in the chain stay.

    `number` has to be the next one; a document that is not there may begin with any, because the store it comes from
    may have pruned the ones before. With `follows` it may not: the version before is on its way, too. `stored` has to
    be well-formed to the letter and to link to the version before.
    `modified` is its time there; `archived` says whether the document is archived with it.
    """

    path: str
    number: int
    stored: bytes
    modified: int
    archived: bool = False
    follows: bool = False
    by: str
    credential: Credential = "local"
    op: WriteOperation = field(default="publish", init=False)


@dataclass(frozen=True, slots=True, kw_only=True)
class Prune:
    """Takes the oldest versions of a document out of the retained ones; never the newest.

    Those below version `before`, those written before `older_than` (ms), all but the newest `keep`: what every given
    one of the three allows. `erase` says that their bytes are to go at once.
    """

    path: str
    before: int | None = None
    older_than: int | None = None
    keep: int | None = None
    erase: bool = False
    by: str
    credential: Credential = "local"
    op: WriteOperation = field(default="prune", init=False)


@dataclass(frozen=True, slots=True, kw_only=True)
class Sweep:
    """Says that `blobs` blobs below `path` were found that nothing refers to, and will be deleted from `due` (ms) on.

    From then on nobody may refer to what was staged before. The world's own sweeps are by nobody.
    """

    path: str
    blobs: int
    due: int
    by: str | None = None
    credential: Credential | None = None
    op: WriteOperation = field(default="sweep", init=False)


Change = Write | Adopt | Prune | Sweep | Settle


@dataclass(frozen=True, slots=True)
class Written:
    """What became of a write that was not refused. `modified` is the time of that version.

    `pruned` are the first and the last version that it took away; `sequence` is that of its last entry, if it made one.
    `warnings` are the lines that the policy has to say about it.
    """

    outcome: Outcome
    version: int
    modified: int
    pruned: tuple[int, int] | None = None
    sequence: int | None = field(default=None, compare=False)
    warnings: tuple[str, ...] = field(default=(), compare=False)


@dataclass(frozen=True, slots=True, kw_only=True)
class ChainReport:
    """The check of a document's retained versions, oldest to newest (Mark protocol 7.3, and the log's own hashes).

    `fault` names version and defect when the chain is broken, for logs. `predecessor_hash` is the recorded hash of
    the version before `first_retained` when older ones were pruned.
    """

    state: ChainState
    first_retained: int
    predecessor_hash: str | None = None
    fault: str | None = None

    @property
    def valid(self) -> bool:
        return self.state != "broken"
