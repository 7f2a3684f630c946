"""How the catalog changes: one entry of the log at a time, refused if no engine could have committed it there."""

import json
import sqlite3
from collections.abc import Mapping

from demarkus_world.engine import keys
from demarkus_world.engine.entries import CONTENT, Entry, Op
from demarkus_world.engine.model import VersionRecord
from demarkus_world.view import trigrams
from demarkus_world.view.catalog import Described
from demarkus_world.view.paths import ROOT, ancestors, is_hidden, name_of


class InvalidEntry(ValueError):
    """An entry that can't follow what is there; says why."""


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


def apply(rows: sqlite3.Connection, entry: Entry, described: Described | None) -> None:
    """Take in an entry; `described` is what the stored bytes of a content entry say, None if that is not known.

    Raises InvalidEntry; the transaction must then be rolled back.
    """
    if entry.op in CONTENT:
        _add_version(rows, entry, described)
    elif entry.op in (Op.ARCHIVE, Op.UNARCHIVE, Op.DECIDE):
        _set_archived(rows, entry)
    elif entry.op is Op.PRUNE:
        _prune(rows, entry)


def set_described(rows: sqlite3.Connection, document: int, record: VersionRecord, described: Described) -> None:
    """Say what the stored bytes of a document's newest version hold."""
    rows.execute("UPDATE document SET metadata = ? WHERE id = ?", (metadata_text(described.metadata), document))
    title, tags = described.title.lower(), "".join(f"\n{tag.lower()}" for tag in described.tags) + "\n"
    trigrams.forget(rows, document)
    rows.execute(
        "INSERT OR REPLACE INTO catalog SELECT id, path, NOT archived, ?, ?, ?, ?, ? FROM document WHERE id = ?",
        (described.title, title, tags, described.importance, record.modified // 1000, document),
    )
    trigrams.index(rows, document, title, tags)


def metadata_text(metadata: Mapping[str, str]) -> str:
    """Metadata as the catalog keeps it: one text for one mapping."""
    return json.dumps(dict(metadata), sort_keys=True, separators=(",", ":"))


def _add_version(rows: sqlite3.Connection, entry: Entry, described: Described | None) -> None:
    record = record_of(entry)
    path, body = record.path, bytes.fromhex(record.body_hash)
    found = rows.execute(
        "SELECT d.id, d.newest, d.archived, v.modified FROM document d"
        " JOIN version v ON v.document = d.id AND v.number = d.newest WHERE d.path = ?",
        (path,),
    ).fetchone()
    document, newest, archived, modified = found or (None, 0, False, 0)
    # Only an imported document may begin later than with its first version, and then it names the one before.
    begins = document is None and entry.version > 1 and entry.predecessor is not None
    if not begins and (entry.version != newest + 1 or entry.predecessor is not None):
        raise InvalidEntry(f"version {entry.version} of {path} after {newest}")
    if archived:
        raise InvalidEntry(f"{entry.op} to {path}, which is archived")
    if not modified <= record.modified <= entry.time:
        raise InvalidEntry(f"version {entry.version} of {path} modified at {record.modified}")
    if document is None:
        document = _add_document(rows, entry, body)
    else:
        rows.execute(
            "UPDATE document SET newest = ?, body = ?, metadata = NULL WHERE id = ?", (record.version, body, document)
        )
        if described is None:
            trigrams.forget(rows, document)
            rows.execute("DELETE FROM catalog WHERE document = ?", (document,))
    rows.execute(
        "INSERT INTO version VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?)",
        (
            document,
            record.version,
            bytes.fromhex(record.etag),
            body,
            record.size,
            _blob_column(record),
            record.modified,
            record.sequence,
            _author(rows, record),
        ),
    )
    rows.execute("UPDATE tip SET bytes = bytes + ?", (record.size,))
    if described is not None:
        set_described(rows, document, record, described)


def _add_document(rows: sqlite3.Connection, entry: Entry, body: bytes) -> int:
    path = entry.path
    if rows.execute("SELECT 1 FROM directory WHERE path = ?", (path,)).fetchone() is not None:
        raise InvalidEntry(f"a document at {path}, which is a directory")
    for ancestor in ancestors(path):
        if rows.execute("SELECT 1 FROM document WHERE path = ?", (ancestor,)).fetchone() is not None:
            raise InvalidEntry(f"a document at {path}, below another document")
    predecessor = None if entry.predecessor is None else bytes.fromhex(entry.predecessor)
    document = _inserted(
        rows,
        "INSERT INTO document VALUES (NULL, ?, ?, ?, ?, 0, ?, NULL)",
        (path, entry.version, entry.version, predecessor, body),
    )
    rows.execute("UPDATE tip SET documents = documents + 1")
    child, column, target = path, "document", document
    for ancestor in ancestors(path):
        known = rows.execute("SELECT id FROM directory WHERE path = ?", (ancestor,)).fetchone()
        directory = known[0] if known else _inserted(rows, "INSERT INTO directory VALUES (NULL, ?, 0, 0)", (ancestor,))
        rows.execute(
            f"INSERT INTO child (directory, name, {column}) VALUES (?, ?, ?)", (directory, name_of(child), target)
        )
        if known:
            break
        child, column, target = ancestor, "below", directory
    _count(rows, path, live=1)
    return document


def _set_archived(rows: sqlite3.Connection, entry: Entry) -> None:
    archive = entry.op is not Op.UNARCHIVE
    document, newest, archived = _existing(rows, entry, "id, newest, archived")
    if bool(archived) == archive or entry.version != newest:
        raise InvalidEntry(f"{entry.op} of version {entry.version} of {entry.path}, which does not fit its state")
    rows.execute("UPDATE document SET archived = ? WHERE id = ?", (archive, document))
    rows.execute("UPDATE catalog SET live = ? WHERE document = ?", (not archive, document))
    _count(rows, entry.path, live=-1 if archive else 1)


def _prune(rows: sqlite3.Connection, entry: Entry) -> None:
    document, first, newest = _existing(rows, entry, "id, first, newest")
    if entry.first != first or not first <= entry.version < newest:
        raise InvalidEntry(f"prune of versions {entry.first} to {entry.version} of {first} to {newest}")
    (stored,) = rows.execute(
        "SELECT stored FROM version WHERE document = ? AND number = ?", (document, entry.version)
    ).fetchone()
    if stored.hex() != entry.stored:
        raise InvalidEntry(f"prune of {entry.path} names another hash for version {entry.version}")
    gone = (document, entry.version)
    rows.execute(
        "UPDATE tip SET bytes = bytes - (SELECT sum(size) FROM version WHERE document = ? AND number <= ?)", gone
    )
    rows.execute("DELETE FROM version WHERE document = ? AND number <= ?", gone)
    rows.execute("UPDATE document SET first = ?, predecessor = ? WHERE id = ?", (entry.version + 1, stored, document))


def _existing(rows: sqlite3.Connection, entry: Entry, columns: str) -> tuple[int, int, int]:
    found = rows.execute(f"SELECT {columns} FROM document WHERE path = ?", (entry.path,)).fetchone()
    if found is None:
        raise InvalidEntry(f"{entry.op} of {entry.path}, which does not exist")
    first, second, third = found
    return first, second, third


def _count(rows: sqlite3.Connection, path: str, *, live: int) -> None:
    """Add to the live documents of every directory from which nothing on the way hides the document."""
    name = path
    for ancestor in ancestors(path):
        if is_hidden(name_of(name)):
            return
        rows.execute("UPDATE directory SET visible = 1, live = live + ? WHERE path = ?", (live, ancestor))
        name = ancestor


def _author(rows: sqlite3.Connection, record: VersionRecord) -> int:
    who = (record.by, record.credential)
    found = rows.execute("SELECT id FROM author WHERE name IS ? AND credential IS ?", who).fetchone()
    return int(found[0]) if found else _inserted(rows, "INSERT INTO author VALUES (NULL, ?, ?)", who)


def _inserted(rows: sqlite3.Connection, statement: str, values: tuple[object, ...]) -> int:
    row = rows.execute(statement, values).lastrowid
    assert row is not None, "an INSERT has a row"
    return row


def _blob_column(record: VersionRecord) -> bytes | str:
    """See the column `version.blob`."""
    nonce = record.blob[-11:-3]
    try:
        if record.blob == keys.blob(record.path, record.version, record.etag, nonce):
            return bytes.fromhex(nonce)
    except ValueError:
        pass
    return record.blob


def begin_empty(rows: sqlite3.Connection) -> None:
    """What an empty catalog holds: the root, and a tip before the first entry."""
    rows.execute("INSERT INTO directory VALUES (NULL, ?, 0, 0)", (ROOT,))
    rows.execute("INSERT INTO tip VALUES (0, 0, zeroblob(32), 0, x'', 0, 0)")
