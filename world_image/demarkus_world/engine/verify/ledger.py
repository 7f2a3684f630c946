"""What the entries of a log add up to, held small, and whether each entry could have been committed where it stands.

It shares no code with the view on purpose: a verification that made the view's mistakes would not see them.
"""

import re
import struct
from collections.abc import Iterator
from dataclasses import dataclass

from demarkus_world.engine import keys
from demarkus_world.engine.entries import CONTENT, Entry, Op
from mark_protocol import limits
from mark_protocol.paths import clean, has_parent_segment, unstorable

NO_DOCUMENT = frozenset({Op.SWEEP, Op.RESTORE})
"""They change no document."""

_VERSION = struct.Struct(">32s32s4sIQ")
_NONCE = re.compile("[0-9a-f]{8}")


class Impossible(Exception):
    """An entry that can't stand where it stands; `field` is what gives it away."""

    def __init__(self, field: str, text: str) -> None:
        super().__init__(text)
        self.field = field


@dataclass(frozen=True, slots=True, kw_only=True)
class Retained:
    """A retained version as the log recorded it. `previous` is the hash of the version before it, None for the first.

    `oldest` and `newest` say where it stands among the retained versions of its document, `follows` whether what it
    follows is known: it is not when that part of the log is missing.
    """

    path: str
    version: int
    stored: str
    body: str
    size: int
    blob: str
    entry: int
    previous: str | None
    follows: bool
    oldest: bool
    newest: bool


class _Document:
    __slots__ = ("archived", "first", "modified", "predecessor", "versions")

    def __init__(self, first: int) -> None:
        self.first = first
        self.archived = False
        self.modified = 0
        self.predecessor: str | None = None
        # All retained versions, packed: a store has millions.
        self.versions = bytearray()

    @property
    def newest(self) -> int:
        return self.first + len(self.versions) // _VERSION.size - 1

    def stored(self, version: int) -> str:
        """The hash of a retained version's bytes."""
        start = (version - self.first) * _VERSION.size
        return bytes(self.versions[start : start + 32]).hex()


class Ledger:
    """The documents of a world. `entries_missing` is set once a part of the log could not be read.

    From then on an entry that does not fit is taken as it is: what it builds on may be in the missing part.
    """

    def __init__(self) -> None:
        self.entries_missing = False
        self._documents: dict[str, _Document] = {}
        self._directories: set[str] = {"/"}

    @property
    def documents(self) -> int:
        """How many documents there are, archived ones included."""
        return len(self._documents)

    def paths(self) -> list[str]:
        """The documents, sorted."""
        return sorted(self._documents)

    def retains(self, path: str, version: int) -> bool:
        """Whether a version is still to be there."""
        document = self._documents.get(path)
        return document is not None and document.first <= version <= document.newest

    def retained(self, path: str) -> Iterator[Retained]:
        """The retained versions of a document, oldest first."""
        document = self._documents[path]
        previous = document.predecessor
        for version, packed in enumerate(_VERSION.iter_unpack(document.versions), document.first):
            stored, nonce = packed[0].hex(), packed[2].hex()
            yield Retained(
                path=path,
                version=version,
                stored=stored,
                body=packed[1].hex(),
                size=packed[3],
                blob=keys.blob(path, version, stored, nonce),
                entry=packed[4],
                previous=previous,
                follows=previous is not None or version == 1,
                oldest=version == document.first,
                newest=version == document.newest,
            )
            previous = stored

    def apply(self, entry: Entry) -> None:
        """Take an entry in. Raises Impossible, with nothing changed, unless part of the log is missing."""
        try:
            self._check(entry)
        except Impossible:
            if not self.entries_missing:
                raise
            self.force(entry)
        else:
            self._change(entry)

    def force(self, entry: Entry) -> None:
        """Go on behind an entry that does not fit: what was known of its document is forgotten."""
        self._documents.pop(entry.path, None)
        if entry.op in CONTENT:
            self._change(entry)

    def _check(self, entry: Entry) -> None:
        if entry.op in NO_DOCUMENT:
            return
        document = self._documents.get(entry.path)
        if entry.op in CONTENT:
            self._check_content(entry, document)
        elif document is None:
            raise Impossible("path", f"{_doing(entry)} {entry.path}, a document that did not exist")
        elif entry.op is Op.PRUNE:
            _check_prune(entry, document)
        elif document.archived == (entry.op is not Op.UNARCHIVE):
            state = "archived already" if document.archived else "not archived"
            raise Impossible("op", f"{_doing(entry)} {entry.path}, which was {state}")
        elif entry.version != document.newest:
            raise Impossible(
                "version", f"{_doing(entry)} version {entry.version} of {entry.path}, the newest was {document.newest}"
            )

    def _check_content(self, entry: Entry, document: _Document | None) -> None:
        newest = document.newest if document else 0
        # What was imported may begin behind versions that its old store had pruned; it names the last of these.
        begins = document is None and entry.version > 1 and entry.predecessor is not None
        if not begins and entry.predecessor is not None:
            raise Impossible("predecessor", f"names a version before version {entry.version} of {entry.path}")
        if not begins and entry.version != newest + 1:
            before = f"version {newest}" if newest else "nothing"
            raise Impossible("version", f"writes version {entry.version} of {entry.path} after {before}")
        if document is not None and document.archived:
            raise Impossible("op", f"writes to {entry.path}, which was archived")
        if document is None:
            self._check_place(entry.path)
        # Only of what was imported: everything else is of its entry's time, and these never go back.
        modified = entry.modified
        if modified is not None and not (document.modified if document else 0) <= modified <= entry.time:
            raise Impossible("modified", f"says that version {entry.version} of {entry.path} is of {modified} ms")
        if entry.stored is None or entry.blob is None or entry.size is None:
            raise Impossible("stored", "records no bytes")
        if not 0 < entry.size <= limits.STORED_VERSION:
            raise Impossible("size", f"records {entry.size} bytes, more than a version can have")
        beginning = keys.blob(entry.path, entry.version, entry.stored, "")[:-3]
        nonce = entry.blob.removeprefix(beginning).removesuffix(".md")
        if entry.blob != f"{beginning}{nonce}.md" or not _NONCE.fullmatch(nonce):
            raise Impossible("blob", f"says that version {entry.version} of {entry.path} is kept in {entry.blob}")

    def _check_place(self, path: str) -> None:
        rule = unstorable(path, versions_segment=True)
        if rule is None and (has_parent_segment(path) or clean(path) != path):
            rule = "it is not in its canonical form"
        if rule is not None:
            raise Impossible("path", f"makes a document at {path!r}, which can't be stored: {rule}")
        if path in self._directories:
            raise Impossible("path", f"makes a document at {path}, which was a directory")
        for ancestor in _ancestors(path):
            if ancestor in self._documents:
                raise Impossible("path", f"makes a document at {path}, below the document {ancestor}")

    def _change(self, entry: Entry) -> None:
        if entry.op in CONTENT:
            if entry.stored is None or entry.body is None or entry.size is None or entry.blob is None:
                return
            document = self._documents.get(entry.path)
            if document is None:
                document = self._documents[entry.path] = _Document(entry.version)
                document.predecessor = entry.predecessor
                self._directories.update(_ancestors(entry.path))
            document.modified = _modified(entry)
            nonce = entry.blob.removesuffix(".md")[-8:]
            document.versions += _VERSION.pack(
                bytes.fromhex(entry.stored), bytes.fromhex(entry.body), _nonce(nonce), entry.size, entry.seq
            )
        elif entry.op is Op.PRUNE:
            document = self._documents[entry.path]
            document.predecessor = entry.stored
            del document.versions[: (entry.version - document.first + 1) * _VERSION.size]
            document.first = entry.version + 1
        elif entry.op not in NO_DOCUMENT:
            self._documents[entry.path].archived = entry.op is not Op.UNARCHIVE


def _check_prune(entry: Entry, document: _Document) -> None:
    if entry.first != document.first:
        raise Impossible("first", f"prunes {entry.path} from version {entry.first} on, the oldest was {document.first}")
    if not document.first <= entry.version < document.newest:
        raise Impossible("version", f"prunes {entry.path} up to version {entry.version} of {document.newest}")
    if document.stored(entry.version) != entry.stored:
        raise Impossible("stored", f"names another hash for version {entry.version} of {entry.path} than was recorded")


def _modified(entry: Entry) -> int:
    return entry.time if entry.modified is None else entry.modified


def _doing(entry: Entry) -> str:
    return {
        Op.ARCHIVE: "archives",
        Op.UNARCHIVE: "takes out of the archive",
        Op.PRUNE: "prunes",
        Op.DECIDE: "decides",
    }[entry.op]


def _nonce(text: str) -> bytes:
    return bytes.fromhex(text) if _NONCE.fullmatch(text) else bytes(4)


def _ancestors(path: str) -> Iterator[str]:
    end = path.rfind("/")
    while end > 0:
        yield path[:end]
        end = path.rfind("/", 0, end)
