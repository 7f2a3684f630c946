"""The view in memory: documents, directories and bodies, fed entry by entry from the log.

Touched on the loop only, and never across an await, so readers need no lock. Lists of names and paths stay sorted by
insertion, so a page of a directory of any size costs what the page costs.
"""

from bisect import bisect_left, bisect_right, insort
from collections.abc import Iterator, Mapping, Sequence

from demarkus_world.engine.entries import CONTENT, Entry, Op
from demarkus_world.engine.model import Child, Head, VersionRecord

ROOT = "/"


class InvalidEntry(ValueError):
    """An entry that can't follow what is there; says why."""


class _Document:
    __slots__ = ("head", "known", "predecessor", "versions")

    def __init__(self) -> None:
        self.versions: list[VersionRecord] = []
        # The hash of the version before the oldest retained one, once any was pruned.
        self.predecessor: str | None = None
        self.head: Head
        # Whether the head's metadata is known: False while, or because, its stored bytes could not be read.
        self.known = False


class _Directory:
    __slots__ = ("live", "names", "visible")

    def __init__(self) -> None:
        self.names: list[str] = []
        # Whether a document is below that no name on the way hides, and how many of them are not archived.
        self.visible = False
        self.live = 0


class MemoryView:
    """See `View`. `apply` is the only way to change it."""

    def __init__(self) -> None:
        self._sequence = 0
        self._documents: dict[str, _Document] = {}
        self._directories: dict[str, _Directory] = {ROOT: _Directory()}
        self._bodies: dict[str, list[str]] = {}
        self._stored_bytes = 0

    # What is there.

    @property
    def sequence(self) -> int:
        """The newest entry's."""
        return self._sequence

    @property
    def documents(self) -> int:
        """How many documents there are, archived ones included."""
        return len(self._documents)

    @property
    def stored_bytes(self) -> int:
        """The size of all retained versions."""
        return self._stored_bytes

    def head(self, path: str) -> Head | None:
        """The newest version of a document."""
        document = self._documents.get(path)
        return document.head if document else None

    def version(self, path: str, number: int) -> VersionRecord | None:
        """The record of a retained version."""
        document = self._documents.get(path)
        if document is None:
            return None
        index = number - document.versions[0].version
        return document.versions[index] if 0 <= index < len(document.versions) else None

    def versions(self, path: str) -> Sequence[VersionRecord]:
        """All retained versions, ascending."""
        document = self._documents.get(path)
        return tuple(document.versions) if document else ()

    def metadata(self, path: str) -> Mapping[str, str] | None:
        """The newest version's publisher metadata; None where it is not known."""
        document = self._documents.get(path)
        return document.head.metadata if document and document.known else None

    def first_retained(self, path: str) -> int:
        """The number of the oldest retained version of a document that is there."""
        return self._documents[path].versions[0].version

    def predecessor(self, path: str) -> str | None:
        """The hash of the version before the oldest retained one, if older ones were pruned."""
        document = self._documents.get(path)
        return document.predecessor if document else None

    def is_directory(self, path: str) -> bool:
        """Whether a document in any state lies below; the root always is one."""
        return path in self._directories

    def children(self, path: str, *, after: str = "") -> Iterator[Child]:
        """The names directly below that are greater than `after`, ascending, unfiltered."""
        directory = self._directories.get(path)
        if directory is None:
            return
        base = "" if path == ROOT else path
        for name in directory.names[bisect_right(directory.names, after) :]:
            document = self._documents.get(f"{base}/{name}")
            if document is not None:
                shown = not is_hidden(name)
                yield Child(name, "file", document.head, shown, shown and not document.head.archived)
            else:
                below = self._directories[f"{base}/{name}"]
                yield Child(name, "directory", None, below.visible, below.live > 0)

    def by_body(self, body_hash: str) -> Sequence[str]:
        """Paths of the current, not archived documents with that body, byte-sorted."""
        return tuple(self._bodies.get(body_hash, ()))

    def heads(self) -> Iterator[Head]:
        """Every document's newest version, in no order."""
        return (document.head for document in self._documents.values())

    # How it becomes so.

    def apply(self, entry: Entry, metadata: Mapping[str, str] | None = None) -> None:
        """Take in the next entry; `metadata` is what the stored bytes of a content entry say.

        Raises InvalidEntry, with nothing changed, for an entry that no engine could have committed here.
        """
        if entry.seq != self._sequence + 1:
            raise InvalidEntry(f"seq is {entry.seq} after {self._sequence}")
        if entry.op in CONTENT:
            self._add_version(entry, metadata)
        elif entry.op is not Op.SWEEP:
            document = self._documents.get(entry.path)
            if document is None:
                raise InvalidEntry(f"{entry.op} of {entry.path}, which does not exist")
            if entry.op is Op.PRUNE:
                self._prune(document, entry)
            else:
                self._set_archived(document, entry)
        self._sequence = entry.seq

    def set_metadata(self, record: VersionRecord, metadata: Mapping[str, str]) -> None:
        """Say what the stored bytes of a head hold, when the log was read before them."""
        document = self._documents[record.path]
        if document.head.record is record:
            document.head = Head(record, document.head.archived, metadata)
            document.known = True

    def _add_version(self, entry: Entry, metadata: Mapping[str, str] | None) -> None:
        document = self._documents.get(entry.path)
        record = record_of(entry)
        newest = document.head.record.version if document else 0
        # Only an imported document may begin later than with its first version, and then it names the one before.
        begins = document is None and entry.version > 1 and entry.predecessor is not None
        if not begins and (entry.version != newest + 1 or entry.predecessor is not None):
            raise InvalidEntry(f"version {entry.version} of {entry.path} after {newest}")
        if not (document.head.record.modified if document else 0) <= record.modified <= entry.time:
            raise InvalidEntry(f"version {entry.version} of {entry.path} modified at {record.modified}")
        if document is not None and document.head.archived:
            raise InvalidEntry(f"{entry.op} to {entry.path}, which is archived")
        if document is None:
            document = self._add_document(entry.path)
            document.predecessor = entry.predecessor
        else:
            self._forget_body(document.head)
        document.versions.append(record)
        self._stored_bytes += record.size
        document.head = Head(record, False, metadata or {})
        document.known = metadata is not None
        insort(self._bodies.setdefault(record.body_hash, []), entry.path)

    def _add_document(self, path: str) -> _Document:
        if path in self._directories:
            raise InvalidEntry(f"a document at {path}, which is a directory")
        if any(ancestor in self._documents for ancestor in ancestors(path)):
            raise InvalidEntry(f"a document at {path}, below another document")
        document = self._documents[path] = _Document()
        child = path
        for ancestor in ancestors(path):
            known = ancestor in self._directories
            directory = self._directories.setdefault(ancestor, _Directory())
            insort_new(directory.names, child.rpartition("/")[2])
            if known:
                break
            child = ancestor
        self._count(path, live=1)
        return document

    def _set_archived(self, document: _Document, entry: Entry) -> None:
        head, archived = document.head, entry.op is Op.ARCHIVE
        if head.archived == archived or entry.version != head.record.version:
            raise InvalidEntry(f"{entry.op} of version {entry.version} of {entry.path}, which does not fit its state")
        if archived:
            self._forget_body(head)
        else:
            insort(self._bodies.setdefault(head.record.body_hash, []), entry.path)
        document.head = Head(head.record, archived, head.metadata)
        self._count(entry.path, live=-1 if archived else 1)

    def _prune(self, document: _Document, entry: Entry) -> None:
        first, newest = document.versions[0].version, document.versions[-1].version
        if entry.first != first or not first <= entry.version < newest:
            raise InvalidEntry(f"prune of versions {entry.first} to {entry.version} of {first} to {newest}")
        removed = entry.version - first + 1
        if document.versions[removed - 1].etag != entry.stored:
            raise InvalidEntry(f"prune of {entry.path} names another hash for version {entry.version}")
        document.predecessor = entry.stored
        self._stored_bytes -= sum(record.size for record in document.versions[:removed])
        del document.versions[:removed]

    def _count(self, path: str, *, live: int) -> None:
        """Add to the live documents of every directory from which nothing on the way hides the document."""
        name = path
        for ancestor in ancestors(path):
            if is_hidden(name.rpartition("/")[2]):
                return
            directory = self._directories[ancestor]
            directory.visible = True
            directory.live += live
            name = ancestor

    def _forget_body(self, head: Head) -> None:
        paths = self._bodies[head.record.body_hash]
        del paths[bisect_left(paths, head.record.path)]
        if not paths:
            del self._bodies[head.record.body_hash]


def record_of(entry: Entry) -> VersionRecord:
    """The record of the version that a content entry made."""
    if entry.stored is None or entry.body is None or entry.size is None or entry.blob is None:
        raise InvalidEntry(f"{entry.op} of {entry.path} without its hashes")
    return VersionRecord(
        path=entry.path,
        version=entry.version,
        etag=entry.stored,
        body_hash=entry.body,
        size=entry.size,
        blob=entry.blob,
        modified=entry.time if entry.modified is None else entry.modified,
        sequence=entry.seq,
        by=entry.by,
        credential=entry.credential,
    )


def ancestors(path: str) -> Iterator[str]:
    """The directories a path lies in, nearest first, the root last."""
    end = path.rfind("/")
    while end > 0:
        yield path[:end]
        end = path.rfind("/", 0, end)
    yield ROOT


def is_hidden(name: str) -> bool:
    """Whether listings leave a name out (Mark protocol, LIST)."""
    return name.startswith(".") or name == "versions"


def insort_new(names: list[str], name: str) -> None:
    """Insert a name that may be there already."""
    position = bisect_left(names, name)
    if position == len(names) or names[position] != name:
        names.insert(position, name)
