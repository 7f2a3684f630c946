"""Blobs in a dictionary: for tests and throw-away worlds. Several engines may share one, so it is not exclusive."""

import asyncio
from bisect import bisect_left, bisect_right, insort
from collections.abc import AsyncIterator

from demarkus_base.blobs.port import Exists, NotFound, check_key, check_object


class MemoryBlobs:
    """A store that lives as long as the object. Every call yields to the loop once, as a real one would."""

    exclusive = False

    def __init__(self) -> None:
        self._objects: dict[str, bytes] = {}
        self._keys: list[str] = []

    async def get(self, key: str) -> bytes:
        check_key(key)
        await asyncio.sleep(0)
        try:
            return self._objects[key]
        except KeyError:
            raise NotFound(f"no object {key}") from None

    async def create(self, key: str, data: bytes) -> None:
        check_object(key, data)
        await asyncio.sleep(0)
        if key in self._objects:
            raise Exists(f"{key} is taken")
        self._objects[key] = bytes(data)
        insort(self._keys, key)

    async def delete(self, key: str) -> None:
        check_key(key)
        await asyncio.sleep(0)
        if self._objects.pop(key, None) is None:
            raise NotFound(f"no object {key}")
        self._keys.remove(key)

    async def list(self, prefix: str, after: str = "") -> AsyncIterator[str]:
        last = after
        while True:
            await asyncio.sleep(0)
            position = bisect_left(self._keys, prefix) if last < prefix else bisect_right(self._keys, last)
            if position == len(self._keys) or not self._keys[position].startswith(prefix):
                return
            last = self._keys[position]
            yield last

    async def close(self) -> None:
        """Nothing to let go of."""
