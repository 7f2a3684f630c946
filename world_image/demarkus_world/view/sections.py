"""The index of sections: a database of its own beside the catalog, because it may lag behind and be missing."""

import sqlite3
import threading
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from importlib.resources import files
from pathlib import Path

from demarkus_world.engine.model import Identity
from demarkus_world.view.catalog import Described
from demarkus_world.view.search import Query, Readable, search_sections
from demarkus_world.view.words import held
from mark_protocol.lookups import Match
from mark_protocol.outline import Section

SCHEMA = 1
SECTIONS = "sections.db"
CACHE_KIB = 8 * 1024
PAGE = 256


@dataclass(frozen=True, slots=True)
class Indexed:
    """A document as the index takes it in: the hash of its newest version, what it says of itself, its sections."""

    path: str
    stored: str
    described: Described
    sections: Sequence[Section]


class Sections:
    """The index. Any thread may call, one at a time."""

    def __init__(self, directory: Path, catalog: Path, identity: Identity, *, boot: str) -> None:
        """Open it, made anew unless it is of this store and this boot of the machine. Raises sqlite3.Error, OSError."""
        self.file = directory / SECTIONS
        # A thread may still be at work when its caller has gone.
        self._turn = threading.Lock()
        self._catalog = catalog
        origin = (identity.history, identity.incarnation, boot)
        try:
            self._rows = self._connect()
            if not boot or self._rows.execute("SELECT * FROM origin").fetchall() != [origin]:
                raise sqlite3.DatabaseError("of another store")
            if self._rows.execute("PRAGMA user_version").fetchone() != (SCHEMA,):
                raise sqlite3.DatabaseError("of another form")
        except sqlite3.DatabaseError:
            self._remove()
            self._rows = self._connect()
            self._rows.executescript(f"BEGIN; {files(__package__).joinpath('sections.sql').read_text()}; COMMIT;")
            self._rows.execute(f"PRAGMA user_version = {SCHEMA}")
            self._rows.execute("INSERT INTO origin VALUES (?, ?, ?)", origin)

    def behind(self, after: str) -> list[str]:
        """Some paths, ascending and greater than `after`, of which the index lacks the newest version."""
        return self._paths(
            "SELECT d.path FROM view.document d"
            " JOIN view.version v ON v.document = d.id AND v.number = d.newest"
            " LEFT JOIN indexed i ON i.path = d.path"
            " WHERE d.path > ? AND NOT d.archived AND d.metadata IS NOT NULL AND i.stored IS NOT v.stored"
            f" ORDER BY d.path LIMIT {PAGE}",
            after,
        )

    def surplus(self) -> list[str]:
        """Some paths that the index has and should not have."""
        return self._paths(
            "SELECT i.path FROM indexed i LEFT JOIN view.document d ON d.path = i.path"
            f" WHERE d.path IS NULL OR d.archived LIMIT {PAGE}"
        )

    def replace(self, gone: Iterable[str], found: Iterable[Indexed]) -> None:
        """Take documents out, and others in in place of what is there of them, all at once."""
        with self._turn:
            self._rows.execute("BEGIN IMMEDIATE")
            try:
                for path in gone:
                    self._remove_document(path)
                for document in found:
                    self._remove_document(document.path)
                    self._add_document(document)
                self._rows.execute("COMMIT")
            except BaseException:
                self._rows.execute("ROLLBACK")
                raise

    def search(self, query: Query, readable: Readable) -> list[Match]:
        """See `search_sections`; any number of threads at once."""
        rows = self._connect()
        try:
            return search_sections(rows, query, readable)
        finally:
            rows.close()

    def close(self) -> None:
        """Let go of the file."""
        with self._turn:
            self._rows.close()

    def _paths(self, query: str, *values: str) -> list[str]:
        with self._turn:
            return [row[0] for row in self._rows.execute(query, values)]

    def _add_document(self, document: Indexed) -> None:
        about = held(" ".join((document.described.title, *document.described.tags)))
        number = self._rows.execute(
            "INSERT INTO indexed VALUES (NULL, ?, ?, ?)", (document.path, bytes.fromhex(document.stored), about)
        ).lastrowid
        self._add_section(number, -1, Section("", "", (), ""), about)
        for place, section in enumerate(document.sections):
            self._add_section(number, place, section, about)

    def _add_section(self, document: int | None, place: int, section: Section, about: str) -> None:
        trail = held(" ".join(section.trail))
        number = self._rows.execute(
            "INSERT INTO section VALUES (NULL, ?, ?, ?, ?, ?, ?)",
            (document, place, section.anchor, section.heading, trail, section.text),
        ).lastrowid
        self._rows.execute(
            "INSERT INTO words (rowid, text, trail, about) VALUES (?, ?, ?, ?)",
            (number, held(section.text), trail, about),
        )

    def _remove_document(self, path: str) -> None:
        row = self._rows.execute("SELECT id, about FROM indexed WHERE path = ?", (path,)).fetchone()
        if row is None:
            return
        document, about = row
        for number, trail, text in self._rows.execute(
            "SELECT id, trail, text FROM section WHERE indexed = ?", (document,)
        ).fetchall():
            self._rows.execute(
                "INSERT INTO words (words, rowid, text, trail, about) VALUES ('delete', ?, ?, ?, ?)",
                (number, held(text), trail, about),
            )
        self._rows.execute("DELETE FROM section WHERE indexed = ?", (document,))
        self._rows.execute("DELETE FROM indexed WHERE id = ?", (document,))

    def _connect(self) -> sqlite3.Connection:
        rows = sqlite3.connect(self.file, isolation_level=None, check_same_thread=False)
        try:
            rows.execute("PRAGMA journal_mode = WAL")
            rows.execute("PRAGMA synchronous = OFF")
            rows.execute(f"PRAGMA cache_size = -{CACHE_KIB}")
            rows.execute("ATTACH ? AS view", (str(self._catalog),))
        except sqlite3.Error:
            rows.close()
            raise
        return rows

    def _remove(self) -> None:
        for suffix in ("", "-wal", "-shm"):
            self.file.with_name(self.file.name + suffix).unlink(missing_ok=True)
