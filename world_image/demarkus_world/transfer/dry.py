"""A store that only seems to be written: reads go through, what is created stays in memory and is forgotten.

The engine on top takes every decision as it would for real. Contents of versions are not kept, so a rehearsal of a
large import needs memory for its log alone.
"""

from __future__ import annotations

from collections.abc import AsyncIterator

from demarkus_base.blobs.port import Blobs, Exists, NotFound, check_object

CONTENTS = "docs/"


class DryBlobs:
    """See `Blobs`. Nothing is ever created or deleted below."""

    def __init__(self, below: Blobs) -> None:
        self.exclusive = below.exclusive
        self._below = below
        self._created: dict[str, bytes] = {}

    async def get(self, key: str) -> bytes:
        """What seems to be there."""
        created = self._created.get(key)
        return await self._below.get(key) if created is None else created

    async def create(self, key: str, data: bytes) -> None:
        """Seem to create an object."""
        check_object(key, data)
        if key.startswith(CONTENTS):
            return
        if key in self._created:
            raise Exists(f"{key} is taken")
        try:
            await self._below.get(key)
        except NotFound:
            self._created[key] = data
            return
        raise Exists(f"{key} is taken")

    async def delete(self, key: str) -> None:
        """Nothing is deleted in a rehearsal."""
        raise NotFound(f"no object {key} that could be deleted in a rehearsal")

    async def list(self, prefix: str, after: str = "") -> AsyncIterator[str]:
        """What seems to be there, in order."""
        below = {key async for key in self._below.list(prefix, after)}
        created = {key for key in self._created if key.startswith(prefix) and key > after}
        for key in sorted(below | created, key=str.encode):
            yield key

    async def close(self) -> None:
        """The store below is the caller's to close."""
