"""A place for the bytes of one document's versions between their examination and their adoption."""

from __future__ import annotations

import asyncio
import tempfile
from typing import IO

IN_MEMORY = 8 * 1024 * 1024


class Spool:
    """In memory, and in a file without a name once they are many. `close` forgets everything."""

    def __init__(self) -> None:
        self._file: IO[bytes] = tempfile.SpooledTemporaryFile(IN_MEMORY)  # noqa: SIM115 - closed by `close`
        self._places: dict[int, tuple[int, int]] = {}
        self._end = 0

    async def keep(self, number: int, data: bytes) -> None:
        """Put a version's bytes at the end."""
        await asyncio.to_thread(self._write, data)
        self._places[number] = (self._end, len(data))
        self._end += len(data)

    async def read(self, number: int) -> bytes:
        """The bytes that were kept."""
        return await asyncio.to_thread(self._read, *self._places[number])

    def close(self) -> None:
        """Forget everything."""
        self._file.close()

    def _write(self, data: bytes) -> None:
        self._file.seek(self._end)
        self._file.write(data)

    def _read(self, start: int, size: int) -> bytes:
        self._file.seek(start)
        return self._file.read(size)
