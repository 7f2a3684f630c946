"""The stored bytes behind the log's records: read, checked against their hash, kept in memory while there is room."""

import hashlib
import logging
from collections.abc import Iterable

from cachetools import LRUCache

from demarkus_base.blobs.port import Blobs, Integrity, NotFound
from demarkus_world.engine import retry
from demarkus_world.engine.model import VersionRecord
from demarkus_world.engine.parallel import in_parallel
from demarkus_world.engine.refusals import StoreDamaged
from mark_protocol.versions import StoredVersion, VersionError, parse_version

CACHE_BYTES = 64 * 1024 * 1024

logger = logging.getLogger(__name__)


class Versions:
    """Reads stored versions. Bytes are immutable and checked when they come in, so what is cached stays right."""

    def __init__(self, blobs: Blobs, *, pause: retry.Pause) -> None:
        self._blobs = blobs
        self._pause = pause
        self._cache: LRUCache[str, bytes] = LRUCache(CACHE_BYTES, getsizeof=len)

    def at_hand(self, record: VersionRecord) -> bytes | None:
        """The exact bytes, if they are in memory."""
        return self._cache.get(record.blob)

    async def stored(self, record: VersionRecord) -> bytes:
        """The exact bytes. Raises StoreDamaged, Unavailable."""
        cached = self.at_hand(record)
        if cached is not None:
            return cached
        data = self._checked(record, await self.fetch(record))
        self.keep(record.blob, data)
        return data

    def keep(self, blob: str, data: bytes) -> None:
        """Remember bytes that are right."""
        if len(data) <= CACHE_BYTES:
            self._cache[blob] = data

    def forget(self, blob: str) -> None:
        """Drop what is remembered of a blob."""
        self._cache.pop(blob, None)

    async def fetch(self, record: VersionRecord) -> bytes:
        """What the store has now, past the cache and unchecked. Raises StoreDamaged, Unavailable."""
        try:
            return await retry.read(lambda: self._blobs.get(record.blob), pause=self._pause)
        except NotFound:
            raise StoreDamaged(f"{record.blob}: missing, though the log has {_name(record)}") from None
        except Integrity as error:
            raise StoreDamaged(str(error)) from error

    async def parsed(self, record: VersionRecord) -> StoredVersion:
        """The version behind the bytes. Raises StoreDamaged, Unavailable."""
        try:
            return parse_version(await self.stored(record))
        except VersionError as error:
            raise StoreDamaged(f"{record.blob}: {error}") from error

    async def read(self, records: Iterable[VersionRecord]) -> dict[str, StoredVersion]:
        """Versions by blob, none of them kept. Damaged ones are told and left out: their documents fail, no others."""
        found = await in_parallel(self._read, records)
        return {blob: version for blob, version in found if version is not None}

    async def _read(self, record: VersionRecord) -> tuple[str, StoredVersion | None]:
        try:
            data = self._cache.get(record.blob)
            return record.blob, parse_version(data or self._checked(record, await self.fetch(record)))
        except (StoreDamaged, VersionError) as error:
            logger.error("store damaged: %s: %s", record.blob, error)
            return record.blob, None

    def _checked(self, record: VersionRecord, data: bytes) -> bytes:
        if hashlib.sha256(data).hexdigest() != record.etag:
            raise StoreDamaged(f"{record.blob}: its bytes do not hash to what the log says of {_name(record)}")
        return data


def _name(record: VersionRecord) -> str:
    return f"{record.path} version {record.version}"
