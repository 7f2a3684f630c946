"""The stored bytes behind the log's records: read, checked against their hash, kept in memory while there is room."""

import hashlib
import logging
from collections.abc import Iterable, Mapping

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

    async def stored(self, record: VersionRecord) -> bytes:
        """The exact bytes. Raises StoreDamaged, Unavailable."""
        cached = self._cache.get(record.blob)
        if cached is not None:
            return cached
        data = await self.fetch(record)
        if hashlib.sha256(data).hexdigest() != record.etag:
            raise StoreDamaged(f"{record.blob}: its bytes do not hash to what the log says of {_name(record)}")
        self.keep(record.blob, data)
        return data

    def keep(self, blob: str, data: bytes) -> None:
        """Remember bytes that are right."""
        if len(data) <= CACHE_BYTES:
            self._cache[blob] = data

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

    async def metadata(self, records: Iterable[VersionRecord]) -> dict[str, Mapping[str, str]]:
        """Publisher metadata by blob. Damaged blobs are logged and left out: their documents fail, no others."""
        found = await in_parallel(self._metadata, records)
        return {blob: metadata for blob, metadata in found if metadata is not None}

    async def _metadata(self, record: VersionRecord) -> tuple[str, Mapping[str, str] | None]:
        try:
            return record.blob, (await self.parsed(record)).metadata
        except StoreDamaged as error:
            logger.error("store damaged: %s", error)
            return record.blob, None


def _name(record: VersionRecord) -> str:
    return f"{record.path} version {record.version}"
