"""Files below one folder, reached without ever following a symbolic link.

Every directory on the way is opened from the one above with O_NOFOLLOW, so a link planted in the tree, or put there
while it is read, leads nowhere. Names that are no UTF-8 come as surrogate escapes.
"""

from __future__ import annotations

import errno
import os
import stat
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from enum import StrEnum
from pathlib import Path

_DIRECTORY = os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC

Parts = tuple[str, ...]


class Kind(StrEnum):
    """What a name stands for."""

    FILE = "file"
    DIRECTORY = "directory"
    LINK = "symbolic link"
    OTHER = "device, pipe or socket"


@dataclass(frozen=True, slots=True)
class Name:
    """A name in a folder."""

    name: str
    kind: Kind


@dataclass(frozen=True, slots=True)
class File:
    """A regular file's content, and its modification time in ms."""

    data: bytes
    modified: int


class NotRegular(Exception):
    """The name is a link, a directory, a device, or too large; the text says which."""


class Rooted:
    """A folder. `close` lets go of it."""

    def __init__(self, root: Path) -> None:
        """Raises OSError. The root itself may be a link: whoever names it means where it leads."""
        self._root = os.open(root, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)

    def close(self) -> None:
        """Let go of the folder."""
        os.close(self._root)

    def names(self, parts: Parts) -> list[Name]:
        """The names in a folder, sorted. Raises OSError, also for a link on the way."""
        with self.opened(parts) as directory, os.scandir(directory) as found:
            return sorted((Name(entry.name, _kind(entry)) for entry in found), key=lambda name: os.fsencode(name.name))

    def read(self, parts: Parts, *, limit: int) -> File:
        """A regular file of at most `limit` bytes. Raises NotRegular, OSError."""
        with self.opened(parts[:-1]) as directory:
            try:
                flags = os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC
                file = os.open(parts[-1], flags, dir_fd=directory)
            except OSError as error:
                if error.errno == errno.ELOOP:
                    raise NotRegular("it is a symbolic link") from None
                raise
        try:
            found = os.fstat(file)
            if not stat.S_ISREG(found.st_mode):
                raise NotRegular("it is no regular file")
            if found.st_size > limit:
                raise NotRegular(f"it has {found.st_size} bytes, at most {limit} are allowed")
            with open(file, "rb", closefd=False) as source:
                data = source.read(found.st_size + 1)
        finally:
            os.close(file)
        if len(data) != found.st_size:
            raise NotRegular("it changed while it was read")
        return File(data, max(found.st_mtime_ns // 1_000_000, 0))

    def link(self, parts: Parts) -> str:
        """Where a symbolic link points, as text. Raises OSError."""
        with self.opened(parts[:-1]) as directory:
            return os.readlink(parts[-1], dir_fd=directory)

    @contextmanager
    def opened(self, parts: Parts, *, create: bool = False) -> Iterator[int]:
        """A descriptor of a folder; with `create` it and those above it are made. Raises OSError."""
        directory = os.dup(self._root)
        try:
            for part in parts:
                if create:
                    with suppress(FileExistsError):
                        os.mkdir(part, dir_fd=directory)
                below = os.open(part, _DIRECTORY, dir_fd=directory)
                os.close(directory)
                directory = below
            yield directory
        finally:
            os.close(directory)


def _kind(entry: os.DirEntry[str]) -> Kind:
    if entry.is_symlink():
        return Kind.LINK
    if entry.is_dir(follow_symlinks=False):
        return Kind.DIRECTORY
    return Kind.FILE if entry.is_file(follow_symlinks=False) else Kind.OTHER
