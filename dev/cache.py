"""Where programs for tests are kept once they are built or unpacked: outside the work tree, shared by all checkouts."""

from __future__ import annotations

import contextlib
import fcntl
import os
from collections.abc import Callable, Iterator
from pathlib import Path


def folder(name: str) -> Path:
    """The folder of one program."""
    root = os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache"
    return Path(root) / "demarkus" / name


@contextlib.contextmanager
def only_one(place: Path, *, waiting: Callable[[], object]) -> Iterator[None]:
    """Holds the lock of a folder; whoever comes second is told, waits, and then finds the work done."""
    place.mkdir(parents=True, exist_ok=True)
    with (place / "lock").open("w") as lock:
        try:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            waiting()
            fcntl.flock(lock, fcntl.LOCK_EX)
        yield
