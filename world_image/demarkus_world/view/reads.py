"""What the catalog answers: documents, versions, directories, bodies. Each call reads what is there at that moment."""

import json
import sqlite3
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from demarkus_base.tlog.tree import HASH_BYTES, Edge
from demarkus_world.engine import keys
from demarkus_world.engine.model import Child, Head, VersionRecord
from demarkus_world.view.paths import is_hidden

PAGE = 256
UNREAD = 64

_VERSION = "v.number, v.stored, v.body, v.size, v.blob, v.modified, v.sequence, a.name, a.credential"
_HEAD = f"d.path, d.archived, d.metadata, {_VERSION}"
_NEWEST = "JOIN version v ON v.document = d.id AND v.number = d.newest JOIN author a ON a.id = v.author"
_VERSIONS = "FROM document d JOIN version v ON v.document = d.id JOIN author a ON a.id = v.author"


@dataclass(frozen=True, slots=True, kw_only=True)
class Tip:
    """How far the log is taken in: the newest entry and its time, the slot (hash, first entry) it is in, the tree."""

    sequence: int
    first: int
    slot: str
    time: int
    edge: Edge


class Reads:
    """See `View` for the calls of the verbs. Not to be shared between threads."""

    def __init__(self, rows: sqlite3.Connection) -> None:
        self._rows = rows

    @property
    def tip(self) -> Tip:
        """How far the log is taken in."""
        sequence, first, slot, time, edge = self._one("SELECT sequence, first, slot, time, edge FROM tip")
        hashes = tuple(edge[at : at + HASH_BYTES] for at in range(0, len(edge), HASH_BYTES))
        return Tip(sequence=sequence, first=first, slot=slot.hex(), time=time, edge=Edge(sequence, hashes))

    @property
    def documents(self) -> int:
        """How many documents there are, archived ones too."""
        return int(self._one("SELECT documents FROM tip")[0])

    @property
    def stored_bytes(self) -> int:
        """What all retained versions come to."""
        return int(self._one("SELECT bytes FROM tip")[0])

    def head(self, path: str) -> Head | None:
        """The newest version of a document."""
        row = self._one(f"SELECT {_HEAD} FROM document d {_NEWEST} WHERE d.path = ?", path)
        return _head(row) if row else None

    def heads(self, *, after: str = "") -> Iterator[Head]:
        """Every document's newest version, by path, from behind `after` on."""
        while True:
            page = self._all(
                f"SELECT {_HEAD} FROM document d {_NEWEST} WHERE d.path > ? ORDER BY d.path LIMIT {PAGE}", after
            )
            yield from map(_head, page)
            if len(page) < PAGE:
                return
            after = page[-1][0]

    def unread(self, *, after: int = 0) -> Sequence[tuple[int, VersionRecord]]:
        """Some of the documents, by id, whose newest version has not been read, from behind `after` on."""
        rows = self._all(
            f"SELECT d.id, d.path, {_VERSION} FROM document d {_NEWEST}"
            f" WHERE d.metadata IS NULL AND d.id > ? ORDER BY d.id LIMIT {UNREAD}",
            after,
        )
        return [(row[0], _record(row[1], row[2:])) for row in rows]

    def version(self, path: str, number: int) -> VersionRecord | None:
        """The record of a retained version."""
        row = self._one(f"SELECT {_VERSION} {_VERSIONS} WHERE d.path = ? AND v.number = ?", path, number)
        return _record(path, row) if row else None

    def versions(self, path: str) -> Sequence[VersionRecord]:
        """All retained versions, ascending."""
        rows = self._all(f"SELECT {_VERSION} {_VERSIONS} WHERE d.path = ? ORDER BY v.number", path)
        return tuple(_record(path, row) for row in rows)

    def metadata(self, path: str) -> Mapping[str, str] | None:
        """The newest version's publisher metadata; None where it is not known."""
        row = self._one("SELECT metadata FROM document WHERE path = ?", path)
        return json.loads(row[0]) if row and row[0] is not None else None

    def first_retained(self, path: str) -> int:
        """The number of the oldest retained version of a document that is there."""
        return int(self._one("SELECT first FROM document WHERE path = ?", path)[0])

    def predecessor(self, path: str) -> str | None:
        """The hash of the version before the oldest retained one, if older ones were pruned."""
        row = self._one("SELECT predecessor FROM document WHERE path = ?", path)
        return row[0].hex() if row and row[0] is not None else None

    def is_directory(self, path: str) -> bool:
        """Whether a document in any state lies below; the root always is one."""
        return self._one("SELECT 1 FROM directory WHERE path = ?", path) is not None

    def live_below(self, path: str) -> int:
        """How many documents below a directory are not archived and not hidden from it."""
        found = self._one("SELECT live FROM directory WHERE path = ?", path)
        return int(found[0]) if found else 0

    def children(self, path: str, *, after: str = "", heads: bool = True) -> Iterator[Child]:
        """The names directly below that are greater than `after`, ascending, unfiltered; files without their `heads`
        if nobody needs them.
        """
        found = self._one("SELECT id FROM directory WHERE path = ?", path)
        if found is None:
            return
        of_heads = f", {_HEAD}" if heads else ""
        joined = (
            "LEFT JOIN version v ON v.document = d.id AND v.number = d.newest LEFT JOIN author a ON a.id = v.author"
            if heads
            else ""
        )
        while True:
            page = self._all(
                f"SELECT c.name, x.visible, x.live, d.archived {of_heads} FROM child c"
                " LEFT JOIN directory x ON x.id = c.below LEFT JOIN document d ON d.id = c.document"
                f" {joined} WHERE c.directory = ? AND c.name > ? ORDER BY c.name LIMIT {PAGE}",
                found[0],
                after,
            )
            for name, visible, live, archived, *of_head in page:
                if visible is None:
                    head, shown = _head(of_head) if heads else None, not is_hidden(name)
                    yield Child(name, "file", head, shown, shown and not archived)
                else:
                    yield Child(name, "directory", None, bool(visible), live > 0)
            if len(page) < PAGE:
                return
            after = page[-1][0]

    def by_body(self, body_hash: str) -> Sequence[str]:
        """Paths of the current, not archived documents with that body, byte-sorted."""
        try:
            body = bytes.fromhex(body_hash)
        except ValueError:
            return ()
        rows = self._all("SELECT path FROM document WHERE body = ? AND NOT archived ORDER BY path", body)
        return tuple(row[0] for row in rows)

    def _one(self, query: str, *values: object) -> Any:
        found = self._all(query, *values)
        return found[0] if found else None

    def _all(self, query: str, *values: object) -> list[Any]:
        try:
            return self._rows.execute(query, values).fetchall()
        except UnicodeEncodeError:
            # Text that is not UTF-8 is no path of ours.
            return []


def _head(row: Sequence[Any]) -> Head:
    path, archived, metadata = row[:3]
    return Head(_record(path, row[3:]), bool(archived), json.loads(metadata) if metadata else {})


def _record(path: str, row: Sequence[Any]) -> VersionRecord:
    number, stored, body, size, blob, modified, sequence, by, credential = row
    etag = stored.hex()
    return VersionRecord(
        path=path,
        version=number,
        etag=etag,
        body_hash=body.hex(),
        size=size,
        blob=keys.blob(path, number, etag, blob.hex()) if isinstance(blob, bytes) else blob,
        modified=modified,
        sequence=sequence,
        by=by,
        credential=credential,
    )
