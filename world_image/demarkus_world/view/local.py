"""The view of one world on this machine: opened or thrown away, fed slot by slot, copied, compared.

It is disposable. Nothing is synced to the disk; what a crash of the process leaves is whole all the same, because the
write-ahead log is in the hands of the system. After a crash of the machine, told by its boot id, it is thrown away; so
is one of another store, another form, or one that SQLite finds damaged.
"""

import fcntl
import logging
import os
import sqlite3
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from importlib.resources import files
from pathlib import Path

from cachetools import LRUCache

from demarkus_world.engine.entries import Entry
from demarkus_world.engine.model import Head, Identity, VersionRecord
from demarkus_world.view import apply
from demarkus_world.view.apply import InvalidEntry
from demarkus_world.view.catalog import Described
from demarkus_world.view.digest import digest
from demarkus_world.view.reads import Reads, Tip

SCHEMA = 2
CATALOG = "catalog.db"
CACHE_KIB = 16 * 1024
HEADS = 2048
"""Paths of which the newest version, or that there is none, is kept at hand; each takes 1 or 2 KiB."""
IDLE = 2
"""Connections for reading that are kept open while nobody uses them."""

_BOOT = Path("/proc/sys/kernel/random/boot_id")

logger = logging.getLogger(__name__)


class ViewLocked(Exception):
    """Another process uses the folder."""


class ViewUseless(Exception):
    """A file that is no view of this store."""


def boot_id() -> str:
    """What this boot of the machine is called; "" where that is not told, and then no view outlives its process."""
    try:
        return _BOOT.read_text().strip()
    except OSError:
        return ""


class LocalView(Reads):
    """See `View`. Changed only inside `slot`, on the thread that opened it; `digest` and `copy` may run in others."""

    def __init__(self, directory: Path | None, identity: Identity, *, boot: str) -> None:
        """Open the view in a folder, made if need be (None: in memory). Raises OSError, sqlite3.Error, ViewLocked."""
        self._directory = directory
        self.identity = identity
        self.boot = boot
        self._lock: int | None = None
        self._idle: list[sqlite3.Connection] = []
        self._open_for_reading = True
        self._sequence = 0
        self._heads: LRUCache[str, Head | None] = LRUCache(HEADS)
        if directory is not None:
            directory.mkdir(parents=True, exist_ok=True)
            self._lock = _locked(directory)
        try:
            self._open()
        except BaseException:
            self._unlock()
            raise

    @property
    def sequence(self) -> int:
        """The newest entry's."""
        return self._sequence

    @property
    def directory(self) -> Path | None:
        """Where it is; None in memory."""
        return self._directory

    def head(self, path: str) -> Head | None:
        """See `View`. Nearly every request asks for one, most of them for a few documents."""
        try:
            return self._heads[path]
        except KeyError:
            found = self._heads[path] = super().head(path)
            return found

    # How it changes.

    @contextmanager
    def slot(self) -> Iterator[None]:
        """What is done inside becomes part of the view as a whole, or, after an exception, not at all."""
        self._rows.execute("BEGIN IMMEDIATE")
        sequence = self._sequence
        try:
            yield
            self._rows.execute("COMMIT")
        except BaseException:
            self._sequence = sequence
            self._heads.clear()
            with suppress(sqlite3.Error):
                self._rows.execute("ROLLBACK")
            raise

    def apply(self, entry: Entry, described: Described | None) -> None:
        """Take in the next entry; `described` is what the stored bytes of a content entry say.

        Raises InvalidEntry for an entry that no engine could have committed here.
        """
        if entry.seq != self._sequence + 1:
            raise InvalidEntry(f"seq is {entry.seq} after {self._sequence}")
        apply.apply(self._rows, entry, described)
        self._heads.pop(entry.path, None)
        self._sequence = entry.seq

    def move_tip(self, tip: Tip) -> None:
        """Say where the log is now."""
        self._rows.execute(
            "UPDATE tip SET sequence = ?, first = ?, slot = ?, time = ?, edge = ?",
            (tip.sequence, tip.first, bytes.fromhex(tip.slot), tip.time, b"".join(tip.edge.hashes)),
        )

    def set_described(self, document: int, record: VersionRecord, described: Described) -> None:
        """Say what the stored bytes of a document's newest version hold, when the log was read before them."""
        apply.set_described(self._rows, document, record, described)
        self._heads.pop(record.path, None)

    def forget(self) -> None:
        """Throw everything away and begin with nothing."""
        self._rows.close()
        self._remove()
        self._open()

    def adopt(self, catalog: Path) -> None:
        """Take over a whole catalog from a file, which is moved.

        Raises ViewUseless, sqlite3.Error, OSError; then only `forget` and `close` are left.
        """
        self._rows.close()
        self._heads.clear()
        self._remove()
        if self._directory is None:
            self._rows = _connect(None)
            source = sqlite3.connect(catalog)
            try:
                source.backup(self._rows)
            finally:
                source.close()
            catalog.unlink()
        else:
            catalog.rename(self._directory / CATALOG)
            self._rows = _connect(self._directory / CATALOG)
        self._check()
        self._rows.execute("UPDATE origin SET boot = ?", (self.boot,))

    # What is done with all of it.

    def copy(self, target: Path) -> None:
        """Write a consistent copy of the catalog to a new file. In a folder this may run in any thread."""
        with self.reader() as rows:
            rows.execute("VACUUM INTO ?", (str(target),))

    def digest(self) -> str:
        """A hash of everything the log adds up to, equal for equal logs however the view came about."""
        with self.reader() as rows:
            return digest(rows)

    @contextmanager
    def reader(self) -> Iterator[sqlite3.Connection]:
        """A connection for one long read beside the changes, in any thread; in memory there is only the one."""
        if self._directory is None:
            yield self._rows
            return
        try:
            rows = self._idle.pop()
        except IndexError:
            rows = sqlite3.connect(self._directory / CATALOG, isolation_level=None, check_same_thread=False)
            rows.execute(f"PRAGMA cache_size = -{CACHE_KIB}")
        try:
            yield rows
        except BaseException:
            rows.close()
            raise
        # Kept with what it has read: a search goes over all of the catalog, each time.
        self._idle.append(rows)
        self._let_go(IDLE if self._open_for_reading else 0)

    def close(self) -> None:
        """Let go of the folder; twice is once."""
        self._open_for_reading = False
        self._let_go(0)
        self._rows.close()
        self._unlock()

    def _open(self) -> None:
        self._heads.clear()
        file = None if self._directory is None else self._directory / CATALOG
        if file is not None and file.exists():
            try:
                self._reopen(file)
                return
            except (sqlite3.Error, ViewUseless) as error:
                logger.info("the local view is made anew: %s", error)
                self._remove()
        self._rows = _connect(file)
        self._rows.executescript(f"BEGIN; {files(__package__).joinpath('schema.sql').read_text()}; COMMIT;")
        with self.slot():
            self._rows.execute(f"PRAGMA user_version = {SCHEMA}")
            self._rows.execute(
                "INSERT INTO origin VALUES (?, ?, ?)", (self.identity.history, self.identity.incarnation, self.boot)
            )
            apply.begin_empty(self._rows)
        self._sequence = 0

    def _reopen(self, file: Path) -> None:
        self._rows = _connect(file)
        try:
            self._check()
            if not self.boot or self._one("SELECT boot FROM origin") != (self.boot,):
                raise ViewUseless("it is from before the machine started")
        except BaseException:
            self._rows.close()
            raise

    def _check(self) -> None:
        if self._one("PRAGMA user_version") != (SCHEMA,):
            raise ViewUseless("it has another form")
        expected = (self.identity.history, self.identity.incarnation)
        if self._all("SELECT history, incarnation FROM origin") != [expected]:
            raise ViewUseless("it is of another store")
        try:
            self._sequence = self.tip.sequence
        except (TypeError, ValueError, AttributeError) as error:
            raise ViewUseless(f"its tip can't be read: {error}") from error

    def _let_go(self, rest: int) -> None:
        """Close readers that nobody uses, but for so many."""
        while len(self._idle) > rest:
            try:
                self._idle.pop().close()
            except IndexError:  # another thread was faster
                return

    def _remove(self) -> None:
        if self._directory is not None:
            self._let_go(0)
            for name in (CATALOG, f"{CATALOG}-wal", f"{CATALOG}-shm"):
                (self._directory / name).unlink(missing_ok=True)

    def _unlock(self) -> None:
        if self._lock is not None:
            os.close(self._lock)
            self._lock = None


def tip_of(catalog: Path) -> Tip:
    """How far the copy of a catalog goes."""
    rows = sqlite3.connect(catalog)
    try:
        return Reads(rows).tip
    finally:
        rows.close()


def _connect(file: Path | None) -> sqlite3.Connection:
    rows = sqlite3.connect(":memory:" if file is None else file, isolation_level=None)
    try:
        rows.execute("PRAGMA journal_mode = WAL")
        rows.execute("PRAGMA synchronous = OFF")
        rows.execute(f"PRAGMA cache_size = -{CACHE_KIB}")
    except sqlite3.Error:
        rows.close()
        raise
    return rows


def _locked(directory: Path) -> int:
    lock = os.open(directory / "lock", os.O_CREAT | os.O_RDWR | os.O_CLOEXEC, 0o600)
    try:
        fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except OSError as error:
        os.close(lock)
        raise ViewLocked(f"{directory} is in use by another process") from error
    return lock
