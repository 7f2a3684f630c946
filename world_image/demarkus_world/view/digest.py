"""One hash over everything the log adds up to, so that views can be compared however they came about."""

import hashlib
import sqlite3

# Ids of rows are left out: they tell how a view came about, not what is in it.
_CONTENT = (
    "SELECT sequence, first, slot, time, edge, documents, bytes FROM tip",
    "SELECT path, visible, live FROM directory ORDER BY path",
    "SELECT d.path, c.name, c.document IS NULL FROM child c JOIN directory d ON d.id = c.directory ORDER BY 1, 2",
    "SELECT path, first, newest, predecessor, archived, body, metadata FROM document ORDER BY path",
    "SELECT d.path, v.number, v.stored, v.body, v.size, v.blob, v.modified, v.sequence, a.name, a.credential"
    " FROM document d JOIN version v ON v.document = d.id JOIN author a ON a.id = v.author ORDER BY 1, 2",
    "SELECT path, live, heading, title, tags, importance, modified FROM catalog ORDER BY path",
)


def digest(rows: sqlite3.Connection) -> str:
    """SHA-256 (hex) of the content in one transaction."""
    hashed = hashlib.sha256()
    rows.execute("BEGIN")
    try:
        for query in _CONTENT:
            for row in rows.execute(query):
                hashed.update(repr(row).encode())
            hashed.update(b"\n")
    finally:
        rows.execute("ROLLBACK")
    return hashed.hexdigest()
