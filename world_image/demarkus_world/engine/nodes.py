"""The table of the Merkle tree's complete nodes, from which proofs are made: SQLite, disposable.

It only grows, by whole batches of leaves, and can always be made anew from the log. What was altered in it makes
proofs that don't verify, nothing worse: whoever makes a proof from it checks it before it goes out.
"""

import logging
import sqlite3
import threading
from collections.abc import Iterable
from pathlib import Path

from demarkus_base.tlog.tree import Edge, complete_nodes

logger = logging.getLogger(__name__)

_SCHEMA = """
CREATE TABLE IF NOT EXISTS nodes (level INTEGER, place INTEGER, hash BLOB NOT NULL, PRIMARY KEY (level, place))
  WITHOUT ROWID;
CREATE TABLE IF NOT EXISTS state (of TEXT NOT NULL, size INTEGER NOT NULL);
"""


class NodeTable:
    """Nodes of the first `size` leaves of the log named `log`; calls may come from any thread, one at a time each."""

    def __init__(self, file: Path | None, *, log: str) -> None:
        """Open or create the file (None = in memory); one of another log, or a damaged one, is emptied.

        Raises sqlite3.Error.
        """
        self._guard = threading.Lock()
        self._log = log
        try:
            self._rows, self._size = _opened(file, log)
        except sqlite3.DatabaseError:
            if file is None:
                raise
            logger.warning("%s is damaged and made anew", file)
            file.unlink(missing_ok=True)
            self._rows, self._size = _opened(file, log)
        if not self._size:
            self.forget()

    @property
    def size(self) -> int:
        """Of how many leaves all complete nodes are here."""
        return self._size

    def node(self, level: int, index: int) -> bytes:
        """See `Nodes.node`."""
        with self._guard:
            row = self._rows.execute("SELECT hash FROM nodes WHERE level = ? AND place = ?", (level, index)).fetchone()
        if row is None:
            raise LookupError(f"node {index} of level {level} is not known")
        return bytes(row[0])

    def edge(self) -> Edge:
        """The right edge of the tree over all leaves that are here. Raises LookupError, ValueError if it is damaged."""
        return Edge(self._size, tuple(self.node(level, index) for level, index in complete_nodes(0, self._size)))

    def add(self, edge: Edge, leaves: Iterable[bytes]) -> Edge:
        """Put leaf hashes behind `edge`, which must be that of this table; the new edge."""
        completed: list[tuple[int, int, bytes]] = []
        for leaf in leaves:
            edge, grown = edge.grown(leaf)
            completed += grown
        with self._guard:
            self._rows.execute("BEGIN")
            try:
                self._rows.executemany("INSERT OR REPLACE INTO nodes VALUES (?, ?, ?)", completed)
                self._rows.execute("UPDATE state SET size = ?", (edge.size,))
            except BaseException:
                self._rows.execute("ROLLBACK")
                raise
            self._rows.execute("COMMIT")
            self._size = edge.size
        return edge

    def forget(self) -> None:
        """Begin again with nothing."""
        with self._guard:
            self._rows.executescript("BEGIN; DELETE FROM nodes; DELETE FROM state;")
            self._rows.execute("INSERT INTO state VALUES (?, 0)", (self._log,))
            self._rows.execute("COMMIT")
            self._size = 0

    def close(self) -> None:
        """Let go of the file."""
        with self._guard:
            self._rows.close()


def _opened(file: Path | None, log: str) -> tuple[sqlite3.Connection, int]:
    """The database and the number of leaves of this log in it."""
    rows = sqlite3.connect(":memory:" if file is None else file, check_same_thread=False, isolation_level=None)
    try:
        rows.execute("PRAGMA journal_mode = MEMORY")
        # What a power loss leaves behind is found out by `edge` and by the check of every proof, and made anew.
        rows.execute("PRAGMA synchronous = OFF")
        rows.executescript(_SCHEMA)
        found = rows.execute("SELECT of, size FROM state").fetchall()
    except sqlite3.Error:
        rows.close()
        raise
    return rows, found[0][1] if len(found) == 1 and found[0][0] == log else 0
