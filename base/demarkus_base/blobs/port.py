"""The four calls a store is made of, and how they fail.

Keys are relative POSIX paths in UTF-8: at most 1024 bytes, segments of 1 to 255 bytes, none of them `.` or `..`;
no key goes on below another one (`a` and `a/b`), because a directory can't hold both.
Objects are immutable and at most `OBJECT_LIMIT` bytes. `create` is the only way to make one and never overwrites:
of several creators of one key exactly one wins, and an acknowledged object survives the loss of power.
"""

from collections.abc import AsyncIterator
from typing import Protocol

KEY_LIMIT = 1024
SEGMENT_LIMIT = 255
OBJECT_LIMIT = 4 * 1024 * 1024


class BlobError(Exception):
    """A call failed. With `ambiguous` a mutation may have happened, or may still happen, all the same."""

    def __init__(self, message: str, *, ambiguous: bool = False) -> None:
        super().__init__(message)
        self.ambiguous = ambiguous


class NotFound(BlobError):
    """There is no object of that key."""


class Exists(BlobError):
    """The key is taken; never ambiguous about whose bytes are there: read them."""


class Throttled(BlobError):
    """Too many calls; try later."""


class Unavailable(BlobError):
    """The store can't be reached or did not answer in time; try later."""


class Integrity(BlobError):
    """An object is not what was written: size or checksum differ."""


class Permanent(BlobError):
    """Somebody must change something first: permissions, a read-only file system, a broken disk."""


class StoreFull(BlobError):
    """Out of space, inodes or quota."""


class Stopped(Permanent):
    """The driver gave up for good, as after a failed fsync; only opening the store anew can tell what is there."""


class StoreLocked(Permanent):
    """Another process holds the store for writing."""


class Blobs(Protocol):
    """A store. `exclusive` says that nobody else can write while it is open."""

    @property
    def exclusive(self) -> bool: ...

    async def get(self, key: str) -> bytes:
        """The object's bytes. Raises NotFound, Integrity, Throttled, Unavailable, Permanent."""
        ...

    async def create(self, key: str, data: bytes) -> None:
        """Make the object durable under a key that must be free. Raises Exists and every BlobError but NotFound."""
        ...

    async def delete(self, key: str) -> None:
        """Remove the object durably. Raises NotFound and every BlobError but Exists."""
        ...

    def list(self, prefix: str, after: str = "") -> AsyncIterator[str]:
        """Keys that begin with `prefix` and are greater than `after`, ascending by their UTF-8 bytes."""
        ...

    async def close(self) -> None:
        """Finish running calls and let go of the store."""
        ...


def check_key(key: str) -> None:
    """Raise ValueError for a key no driver can hold."""
    raw = key.encode()
    segments = raw.split(b"/")
    if len(raw) > KEY_LIMIT or any(not 0 < len(segment) <= SEGMENT_LIMIT for segment in segments):
        raise ValueError(f"key {key!r}: at most {KEY_LIMIT} bytes, in segments of 1 to {SEGMENT_LIMIT}")
    if any(segment in (b".", b"..") for segment in segments) or any(byte in raw for byte in b"\0\r\n"):
        raise ValueError(f"key {key!r}: no dot segments, NUL or line ends")


def check_object(key: str, data: bytes) -> None:
    """Raise ValueError for what `create` can't take."""
    check_key(key)
    if len(data) > OBJECT_LIMIT:
        raise ValueError(f"object {key!r} has {len(data)} bytes, at most {OBJECT_LIMIT} are allowed")
