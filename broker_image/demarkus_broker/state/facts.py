"""Facts over the four blob calls: told once, read, listed, forgotten.

A create whose outcome is unknown is settled here: the same bytes are offered again, and what stands there then is
compared. Every fact carries its teller's random mark, so equal bytes mean that it was ours.
"""

from __future__ import annotations

import json
import secrets
from collections.abc import Callable, Mapping
from typing import Any

from demarkus_base.blobs.port import BlobError, Blobs, Exists, Integrity, NotFound

ATTEMPTS = 3
"""How often a create with an unknown outcome is offered."""

_MARK = "mark"


class Facts:
    """Facts in a store. Raises BlobError where the store does not answer."""

    def __init__(self, blobs: Blobs, *, entropy: Callable[[int], bytes] = secrets.token_bytes) -> None:
        self._blobs = blobs
        self._entropy = entropy

    async def tell(self, key: str, body: Mapping[str, Any]) -> bool:
        """Make a fact. False if there is one of this key already, by somebody else."""
        data = json.dumps(
            {**body, _MARK: self._entropy(16).hex()}, ensure_ascii=True, sort_keys=True, separators=(",", ":")
        ).encode()
        for attempt in range(1, ATTEMPTS + 1):
            try:
                await self._blobs.create(key, data)
            except Exists:
                return attempt > 1 and await self._blobs.get(key) == data
            except BlobError as error:
                if not error.ambiguous or attempt == ATTEMPTS:
                    raise
            else:
                return True
        raise AssertionError("unreachable")

    async def read(self, key: str) -> Mapping[str, Any] | None:
        """A fact; None if nobody told it."""
        try:
            data = await self._blobs.get(key)
        except NotFound:
            return None
        try:
            body = json.loads(data)
        except ValueError:
            body = None
        if not isinstance(body, dict):
            raise Integrity(f"{key} is not a JSON object")
        return {name: value for name, value in body.items() if name != _MARK}

    async def keys(self, prefix: str) -> list[str]:
        """The keys that begin with a prefix, ascending."""
        return [key async for key in self._blobs.list(prefix)]

    async def forget(self, key: str) -> None:
        """Delete a fact, if it is there."""
        try:
            await self._blobs.delete(key)
        except NotFound:
            return
