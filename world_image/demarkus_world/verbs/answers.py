"""Answers that need no work any more: what FETCH says of a version never changes, so its bytes may be kept."""

from __future__ import annotations

from typing import NamedTuple, Self

from cachetools import LRUCache

from demarkus_world.engine.engine import VersionRecord
from mark_protocol.response import Response, encode_head

CACHE_BYTES = 16 * 1024 * 1024
_AROUND = 1024
"""What an answer takes in memory beside its bytes, about."""


class Ready(NamedTuple):
    """A response with its encoded head."""

    response: Response
    head: bytes

    @classmethod
    def of(cls, response: Response) -> Self:
        """A response, encoded."""
        return cls(response, encode_head(response))


class Answers:
    """Answers to FETCH by the version that they tell of, those used last, within a bound of memory."""

    def __init__(self) -> None:
        self._kept: LRUCache[VersionRecord, Ready] = LRUCache(CACHE_BYTES, getsizeof=_size)

    def get(self, record: VersionRecord) -> Ready | None:
        """The answer that was kept for a version."""
        return self._kept.get(record)

    def keep(self, record: VersionRecord, ready: Ready) -> None:
        """Remember the answer for a version."""
        if _size(ready) <= CACHE_BYTES:
            self._kept[record] = ready


def _size(ready: Ready) -> int:
    return len(ready.response.body) + len(ready.head) + _AROUND
