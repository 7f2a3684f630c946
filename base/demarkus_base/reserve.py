"""Space put by on a volume, so that a full one can still be emptied.

    <directory>/<number>    pieces of the reserve, allocated and never read

The pieces are files of their own so that they also hold inodes.
"""

import asyncio
import contextlib
import errno
import os
from pathlib import Path

SIZE = 16 * 1024 * 1024
PIECES = 16
SHARE = 4
"""At most the fourth part of a volume is put by: on a small one the reserve is smaller."""

_FULL = frozenset({errno.ENOSPC, errno.EDQUOT})


class Reserve:
    """The reserve of a volume. Made by `open`; one process has it, the one that has the store."""

    def __init__(self, directory: Path, size: int) -> None:
        self._directory = directory
        self._piece = size // PIECES
        self._held = False

    @classmethod
    async def open(cls, directory: Path, *, size: int = SIZE) -> "Reserve":
        """Put it by, as far as it is missing; on a full volume it is not `held` afterwards. Raises OSError."""
        reserve = await asyncio.to_thread(cls._open, directory, size)
        await reserve.remake()
        return reserve

    @classmethod
    def _open(cls, directory: Path, size: int) -> "Reserve":
        with contextlib.suppress(FileExistsError):
            try:
                directory.mkdir(0o700)
            except OSError as error:
                if error.errno not in _FULL:
                    raise
        volume = os.statvfs(directory if directory.exists() else directory.parent)
        return cls(directory, min(size, volume.f_blocks * volume.f_frsize // SHARE))

    @property
    def held(self) -> bool:
        """Whether all of it is put by."""
        return self._held

    async def release(self) -> None:
        """Let go of it: space and inodes are free at once. Raises OSError."""
        self._held = False
        await asyncio.to_thread(self._drop, self._pieces())

    async def remake(self) -> bool:
        """Put by what is missing; whether all of it is there. If it can't be, nothing more is put by than before."""
        self._held = await asyncio.to_thread(self._make)
        return self._held

    async def room(self, size: int, files: int) -> bool:
        """Whether the volume has so many bytes and files left beside the reserve. Raises OSError."""
        return await asyncio.to_thread(self._room, size, files)

    def _pieces(self) -> list[Path]:
        return [self._directory / str(number) for number in range(PIECES)]

    def _drop(self, pieces: list[Path]) -> None:
        for piece in pieces:
            piece.unlink(missing_ok=True)

    def _make(self) -> bool:
        missing = [piece for piece in self._pieces() if not _is_whole(piece, self._piece)]
        try:
            self._drop(missing)
            # An attempt takes for a moment what others need.
            if missing and not self._room(len(missing) * self._piece, len(missing) + 1):
                return False
            self._directory.mkdir(0o700, exist_ok=True)
            for piece in missing:
                file = os.open(piece, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
                try:
                    os.posix_fallocate(file, 0, self._piece)
                finally:
                    os.close(file)
        except OSError as error:
            with contextlib.suppress(OSError):
                self._drop(missing)
            if error.errno not in _FULL:
                raise
            return False
        return True

    def _room(self, size: int, files: int) -> bool:
        volume = os.statvfs(self._directory if self._directory.exists() else self._directory.parent)
        counted = volume.f_files > 0  # some file systems have no limit of inodes
        return volume.f_bavail * volume.f_frsize >= size and (not counted or volume.f_favail >= files)


def _is_whole(piece: Path, size: int) -> bool:
    try:
        found = piece.stat()
    except FileNotFoundError:
        return False
    return found.st_size == size and found.st_blocks * 512 >= size
