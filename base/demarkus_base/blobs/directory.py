"""Blobs as files below a directory, for a volume with one writer.

    <root>/lock            held with flock(2) while the store is open: the kernel drops it with the process
    <root>/tmp/<random>    objects on their way; leftovers of a crash are removed at the next start
    <root>/<key>           objects

`create` writes and fsyncs `tmp/<random>`, makes and fsyncs missing parents, link(2)s the file to its name (EEXIST =
taken), fsyncs the directory, then drops the first name. So an object is there completely or not at all, and what was
acknowledged survives the loss of power. An fsync that fails is final: the kernel may have dropped the pages and would
report success the next time, so the driver stops and only opening the store anew tells what is on the disk.

`delete` takes away folders that it leaves empty: their names are the paths of documents, which must be erasable, too.

Calls run in a pool of threads of the driver's own; the loop never waits for the disk.
"""

import asyncio
import contextlib
import errno
import fcntl
import itertools
import logging
import os
import stat
import threading
from collections.abc import AsyncIterator, Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import TypeVar

from cachetools import LRUCache

from demarkus_base.blobs.port import (
    OBJECT_LIMIT,
    BlobError,
    Exists,
    Integrity,
    NotFound,
    Permanent,
    Stopped,
    StoreFull,
    StoreLocked,
    Unavailable,
    check_key,
    check_object,
)

T = TypeVar("T")

THREADS = 16
LIST_PAGE = 1000
KNOWN_DIRECTORIES = 8192
# Names at the top that are not objects: ours, and what mkfs leaves on a fresh volume.
OWN_NAMES = frozenset({"lock", "tmp", "lost+found"})

_FULL = frozenset({errno.ENOSPC, errno.EDQUOT})
_PERMANENT = frozenset(
    {errno.EACCES, errno.EPERM, errno.EROFS, errno.EEXIST, errno.EISDIR, errno.ENOTDIR, errno.ELOOP, errno.ENAMETOOLONG}
)

logger = logging.getLogger(__name__)


class DirectoryBlobs:
    """A store in a directory that this process alone writes. Made by `open`, or by `reading` to only look at it."""

    def __init__(self, root: Path, lock: int, fsync: Callable[[int], None]) -> None:
        self.exclusive = lock >= 0
        self._root = root
        self._lock = lock
        self._fsync_call = fsync
        self._threads = ThreadPoolExecutor(THREADS, thread_name_prefix="blobs")
        self._stopped: str | None = None
        self._names = itertools.count()
        self._run_id = os.urandom(8).hex()
        self._directories: LRUCache[Path, None] = LRUCache(KNOWN_DIRECTORIES)
        self._directories_guard = threading.Lock()
        self._removals = 0

    @classmethod
    async def open(cls, root: Path, *, fsync: Callable[[int], None] = os.fsync) -> "DirectoryBlobs":
        """Take the lock, clean up and try out what the driver relies on.

        Raises StoreLocked when another process has the store, Permanent when the file system can't hold one.
        """
        return await asyncio.to_thread(cls._open, root, fsync)

    @classmethod
    def reading(cls, root: Path) -> "DirectoryBlobs":
        """A store that is read beside its writer, without the lock: nothing is created, deleted or synced here."""
        blobs = cls(root, -1, lambda file: None)
        blobs._stopped = f"{root} was opened for reading only"
        return blobs

    @classmethod
    def _open(cls, root: Path, fsync: Callable[[int], None]) -> "DirectoryBlobs":
        try:
            root.mkdir(parents=True, exist_ok=True)
            (root / "tmp").mkdir(exist_ok=True)
            lock = _take_lock(root)
        except OSError as error:
            raise _refusal(error, f"{root} can't hold a store") from error
        try:
            for leftover in (root / "tmp").iterdir():
                leftover.unlink()
            blobs = cls(root, lock, fsync)
            with contextlib.suppress(PermissionError), _opened(root.parent) as parent:
                blobs._fsync(parent, root.parent)
            blobs._try_out()
        except OSError as error:
            os.close(lock)
            raise _refusal(error, f"{root} can't hold a store") from error
        except BlobError:
            os.close(lock)
            raise
        return blobs

    async def get(self, key: str) -> bytes:
        return await self._in_thread(self._get, self._path(key))

    async def create(self, key: str, data: bytes) -> None:
        check_object(key, data)
        await self._in_thread(self._create, self._path(key), data)

    async def delete(self, key: str) -> None:
        await self._in_thread(self._delete, self._path(key))

    async def list(self, prefix: str, after: str = "") -> AsyncIterator[str]:
        parent = prefix[: prefix.rfind("/") + 1]
        if parent:
            self._path(parent[:-1])
        keys = self._walk(parent, prefix, after)
        while page := await self._in_thread(_page, keys):
            for key in page:
                yield key

    async def close(self) -> None:
        """Wait for running calls, then let go of the lock."""
        await asyncio.to_thread(self._threads.shutdown)
        if self._lock >= 0:
            os.close(self._lock)
            self._lock = -1

    async def _in_thread(self, call: Callable[..., T], *arguments: object) -> T:
        try:
            return await asyncio.get_running_loop().run_in_executor(self._threads, call, *arguments)
        except OSError as error:
            raise _refusal(error, f"{self._root}") from error

    def _path(self, key: str) -> Path:
        check_key(key)
        if key.split("/", 1)[0] in OWN_NAMES:
            raise ValueError(f"key {key!r} begins with a name the directory driver uses itself")
        return self._root / key

    # From here on: in a thread.

    def _get(self, path: Path) -> bytes:
        try:
            file = os.open(path, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK)
        except (FileNotFoundError, NotADirectoryError):
            raise NotFound(f"no object {path}") from None
        except OSError as error:
            if error.errno == errno.ELOOP:
                raise Integrity(f"{path} is a symbolic link") from None
            raise
        try:
            found = os.fstat(file)
            if stat.S_ISDIR(found.st_mode):
                raise NotFound(f"no object {path}")
            if not stat.S_ISREG(found.st_mode) or found.st_size > OBJECT_LIMIT:
                raise Integrity(f"{path} is not a file of at most {OBJECT_LIMIT} bytes")
            with open(file, "rb", closefd=False) as source:
                data = source.read(found.st_size + 1)
        finally:
            os.close(file)
        if len(data) != found.st_size:
            raise Integrity(f"{path} has {len(data)} bytes where its size says {found.st_size}")
        return data

    def _create(self, target: Path, data: bytes) -> None:
        self._check_running()
        staged = self._root / "tmp" / f"{self._run_id}-{next(self._names)}"
        try:
            self._write(staged, data)
            while not self._link(staged, target):
                pass
        finally:
            with contextlib.suppress(OSError):
                staged.unlink()

    def _link(self, staged: Path, target: Path) -> bool:
        """Give the object its name; False if its folder was taken away in this moment, because it was empty."""
        removals, taken = self._removals, False
        try:
            self._make_durable(target.parent)
            with _opened(target.parent) as directory:
                try:
                    # Into the folder that is open: there may be another one of its name by now.
                    os.link(staged, target.name, dst_dir_fd=directory)
                except FileExistsError:
                    taken = True
                # Whoever reads the name next relies on it, also when its creator could not finish.
                self._fsync(directory, target.parent, ambiguous=not taken)
        except FileNotFoundError:
            staged.stat()  # it is not this one that is gone
            self._forget(target.parent)
            return False
        if self._removals != removals:
            # The folder may be one that another call made anew and has not synced yet.
            self._forget(target.parent)
            self._make_durable(target.parent, ambiguous=not taken)
        if taken:
            raise Exists(f"{target} is taken")
        return True

    def _delete(self, target: Path) -> None:
        self._check_running()
        try:
            with _opened(target.parent) as directory:
                target.unlink()
                self._fsync(directory, target.parent, ambiguous=True)
            self._tidy(target.parent)
        except (FileNotFoundError, NotADirectoryError, IsADirectoryError):
            raise NotFound(f"no object {target}") from None

    def _write(self, path: Path, data: bytes) -> None:
        file = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o644)
        try:
            rest = memoryview(data)
            while rest:
                rest = rest[os.write(file, rest) :]
            self._fsync_call(file)
        except OSError as error:
            # Without space this file is given up and nothing else is in doubt; any other failure may hide more.
            if error.errno in _FULL:
                raise
            raise self._stop(f"writing {path}", error, ambiguous=False) from error
        finally:
            os.close(file)

    def _make_durable(self, directory: Path, *, ambiguous: bool = False) -> None:
        """Make the directory and its parents, and see to it that their names are on the disk.

        The first time this process meets a directory it fsyncs the one above even if nothing had to be made: an
        earlier process may have died between the two steps.
        """
        if directory == self._root:
            return
        with self._directories_guard:
            if directory in self._directories:
                return
        self._make_durable(directory.parent, ambiguous=ambiguous)
        directory.mkdir(exist_ok=True)
        with _opened(directory.parent) as parent:
            self._fsync(parent, directory.parent, ambiguous=ambiguous)
        with self._directories_guard:
            self._directories[directory] = None

    def _tidy(self, directory: Path) -> None:
        """Take away the directory and those above it while they are empty. One that stays after a crash is no harm."""
        while directory != self._root:
            with self._directories_guard:
                self._directories.pop(directory, None)
                try:
                    directory.rmdir()
                except OSError:  # not empty, mostly
                    return
                self._removals += 1
            directory = directory.parent

    def _forget(self, directory: Path) -> None:
        """Look again whether the directory and those above it are there."""
        with self._directories_guard:
            while directory != self._root:
                self._directories.pop(directory, None)
                directory = directory.parent

    def _fsync(self, directory: int, name: Path, *, ambiguous: bool = False) -> None:
        """Put the directory's names on the disk; `ambiguous` when one was just given or removed."""
        try:
            self._fsync_call(directory)
        except OSError as error:
            raise self._stop(f"fsync of {name}", error, ambiguous=ambiguous) from error

    def _stop(self, what: str, error: OSError, *, ambiguous: bool) -> Stopped:
        self._stopped = f"{what} failed ({error.strerror}); the store {self._root} must be opened anew"
        return Stopped(self._stopped, ambiguous=ambiguous)

    def _check_running(self) -> None:
        if self._stopped is not None:
            raise Stopped(self._stopped)

    def _walk(self, parent: str, prefix: str, after: str) -> Iterator[str]:
        """Keys in order below one directory; those that can't hold a match are not opened."""
        try:
            with _opened(self._root / parent) as directory:
                # What a listing shows is relied on, so it has to be on the disk: its creator may have died too early.
                self._fsync(directory, self._root / parent)
                with os.scandir(self._root / parent) as found:
                    # A directory sorts with its slash: that is the order of the keys below it.
                    names = sorted(
                        f"{parent}{entry.name}/" if entry.is_dir(follow_symlinks=False) else f"{parent}{entry.name}"
                        for entry in found
                        if (parent or entry.name not in OWN_NAMES) and _is_text(entry.name)
                    )
        except (FileNotFoundError, NotADirectoryError):
            return
        for name in names:
            if name.endswith("/"):
                if name.startswith(prefix) and (name > after or after.startswith(name)):
                    yield from self._walk(name, prefix, after)
            elif name.startswith(prefix) and name > after:
                yield name

    def _try_out(self) -> None:
        """The start-up test: link, its refusal of a taken name, fsync, and the lock, on this very file system."""
        first, second = (self._root / "tmp" / f"{self._run_id}-try-{part}" for part in ("a", "b"))
        try:
            self._write(first, b"demarkus")
            os.link(first, second)
            with contextlib.suppress(FileExistsError):
                os.link(first, second)
                raise Permanent(f"{self._root} can't hold a store: link(2) replaces an existing name here")
            with _opened(self._root / "tmp") as directory:
                self._fsync(directory, self._root / "tmp")
        except OSError as error:
            if error.errno not in _FULL:
                raise
            logger.warning("%s is full: reads are served, link and fsync could not be tried", self._root)
        finally:
            first.unlink(missing_ok=True)
            second.unlink(missing_ok=True)
        again = os.open(self._root / "lock", os.O_RDWR)
        try:
            with contextlib.suppress(BlockingIOError):
                fcntl.flock(again, fcntl.LOCK_EX | fcntl.LOCK_NB)
                raise Permanent(f"{self._root} can't hold a store: flock(2) does not keep a second writer out here")
        finally:
            os.close(again)


@contextlib.contextmanager
def _opened(directory: Path) -> Iterator[int]:
    file = os.open(directory, os.O_RDONLY | os.O_DIRECTORY)
    try:
        yield file
    finally:
        os.close(file)


def _take_lock(root: Path) -> int:
    lock = os.open(root / "lock", os.O_RDWR | os.O_CREAT, 0o644)
    try:
        fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except OSError as error:
        holder = os.read(lock, 32).decode("ascii", "replace").strip()
        os.close(lock)
        if not isinstance(error, BlockingIOError):
            raise
        raise StoreLocked(
            f"the store {root} is held by another process (pid {holder or 'unknown'}): a store on a volume has one "
            "writer; stop that process first"
        ) from error
    # Only for the message above: the lock is the kernel's, the file's content decides nothing.
    with contextlib.suppress(OSError):
        os.ftruncate(lock, 0)
        os.pwrite(lock, f"{os.getpid()}\n".encode(), 0)
    return lock


def _page(keys: Iterator[str]) -> list[str]:
    return list(itertools.islice(keys, LIST_PAGE))


def _is_text(name: str) -> bool:
    """File names that are not UTF-8 come as surrogates and can't be keys."""
    try:
        name.encode()
    except UnicodeEncodeError:
        return False
    return True


def _refusal(error: OSError, where: str) -> BlobError:
    """Our class for what the operating system says; no name is given away by these failures, so none is ambiguous."""
    text = f"{where}: {error.strerror or error}"
    if error.errno in _FULL:
        return StoreFull(f"{where}: store is full ({error.strerror})")
    if error.errno in _PERMANENT:
        return Permanent(text)
    return Unavailable(text)
