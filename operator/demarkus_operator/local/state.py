"""The state folder of a local universe: what lies where, who holds it, and how its files are written.

    lock            held (flock) by the running `demarkus up`, with its process id inside; never stale
    objects/        every object the plan made, one JSON file each; Secrets in folders of their own
    volumes/        what the PersistentVolumeClaims hold: the worlds' stores
    pods/           one folder a process: the files a pod would have mounted, and a lock as long as it lives
    logs/           one file a process, `up.log`, and what a detached `up` printed
    ports.json      the loopback ports, chosen once
    status.json     what `demarkus status` shows, written by the running `up`
    bearer          a signed bearer for the gateway
    ca.crt          whose certificates `mark` may trust

Everything is made readable to its owner alone.
"""

from __future__ import annotations

import contextlib
import fcntl
import os
import secrets
from dataclasses import dataclass
from pathlib import Path

DEFAULT = Path(".demarkus")

LOG_BYTES = 8 << 20
"""A log file larger than this is moved aside (one generation) when it is opened anew."""


class StateInUse(Exception):
    """Another `demarkus up` runs on this state folder; `pid` is its process, where it is known."""

    def __init__(self, root: Path, pid: int | None) -> None:
        self.pid = pid
        by = f" (process {pid})" if pid else ""
        super().__init__(f"a universe already runs in {root}{by}; end it with: demarkus down --state {root}")


@dataclass(frozen=True, slots=True)
class StateFolder:
    """The names in a state folder; `root` is absolute, because processes get these paths."""

    root: Path

    @classmethod
    def at(cls, path: Path) -> StateFolder:
        """The folder at this path, which need not exist yet."""
        return cls(path.absolute())

    @property
    def lock(self) -> Path:
        return self.root / "lock"

    @property
    def objects(self) -> Path:
        return self.root / "objects"

    @property
    def ports(self) -> Path:
        return self.root / "ports.json"

    @property
    def status(self) -> Path:
        return self.root / "status.json"

    @property
    def bearer(self) -> Path:
        return self.root / "bearer"

    @property
    def trust(self) -> Path:
        return self.root / "ca.crt"

    @property
    def logs(self) -> Path:
        return self.root / "logs"

    @property
    def own_log(self) -> Path:
        return self.logs / "up.log"

    @property
    def output(self) -> Path:
        return self.logs / "up.out"

    @property
    def pods(self) -> Path:
        return self.root / "pods"

    def volume(self, namespace: str, claim: str) -> Path:
        """What the PersistentVolumeClaim of this name holds."""
        return self.root / "volumes" / namespace / claim

    def pod(self, namespace: str, name: str) -> Path:
        """The file system a process sees: mount paths are below this folder."""
        return self.pods / namespace / name

    def process_lock(self, namespace: str, name: str) -> Path:
        """Held by a process for as long as it lives."""
        return self.pods / namespace / f"{name}.lock"

    def log(self, namespace: str, name: str) -> Path:
        """Where a process writes."""
        return self.logs / namespace / f"{name}.log"

    def make(self) -> None:
        """Create the folder, closed to others."""
        make_folder(self.logs)
        self.root.chmod(0o700)

    def hold(self) -> None:
        """Hold the folder until this process has ended, however it ends. Raises StateInUse."""
        descriptor = os.open(self.lock, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
        try:
            fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            os.close(descriptor)
            raise StateInUse(self.root, _read_pid(self.lock)) from None
        os.ftruncate(descriptor, 0)
        os.pwrite(descriptor, f"{os.getpid()}\n".encode(), 0)

    def holder(self) -> int | None:
        """The process that holds the folder: its id, 0 if it can't be told yet, None if nobody does."""
        return (_read_pid(self.lock) or 0) if _is_held(self.lock) else None

    def has_living_processes(self) -> bool:
        """Whether a World or gateway of this folder runs, or is still on its way out."""
        return any(_is_held(lock) for lock in self.pods.glob("*/*.lock"))


def make_folder(folder: Path) -> None:
    """Make a folder, and what is missing above it, each closed to others. Blocks."""
    for missing in reversed([part for part in (folder, *folder.parents) if not part.exists()]):
        missing.mkdir(mode=0o700, exist_ok=True)


def write_durably(path: Path, data: bytes) -> None:
    """Replace a file at once: readers see the old bytes or the new, and after a power cut as well. Blocks.

    The file is 0600, folders made on the way 0700.
    """
    make_folder(path.parent)
    temporary = path.with_name(f".{path.name}.{secrets.token_hex(6)}")
    descriptor = os.open(temporary, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o600)
    try:
        with os.fdopen(descriptor, "wb") as stream:
            stream.write(data)
            stream.flush()
            os.fsync(stream.fileno())
        temporary.replace(path)
    except BaseException:
        temporary.unlink(missing_ok=True)
        raise
    sync_folder(path.parent)


def keep(path: Path, data: bytes) -> None:
    """Make a file say this, without writing if it does already. Blocks."""
    with contextlib.suppress(FileNotFoundError):
        if path.read_bytes() == data:
            return
    write_durably(path, data)


def sync_folder(folder: Path) -> None:
    """Make the names in a folder durable. Blocks."""
    descriptor = os.open(folder, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


def open_log(path: Path) -> int:
    """A log file to append to, as a descriptor; what has grown too large is moved aside. Blocks."""
    make_folder(path.parent)
    with contextlib.suppress(FileNotFoundError):
        if path.stat().st_size > LOG_BYTES:
            path.replace(path.with_name(path.name + ".1"))
    return os.open(path, os.O_WRONLY | os.O_CREAT | os.O_APPEND | os.O_CLOEXEC, 0o600)


def _is_held(lock: Path) -> bool:
    try:
        descriptor = os.open(lock, os.O_RDONLY | os.O_CLOEXEC)
    except FileNotFoundError:
        return False
    try:
        fcntl.flock(descriptor, fcntl.LOCK_SH | fcntl.LOCK_NB)
    except BlockingIOError:
        return True
    finally:
        os.close(descriptor)
    return False


def _read_pid(lock: Path) -> int | None:
    with contextlib.suppress(OSError, ValueError):
        return int(lock.read_text())
    return None
