"""The index of sections follows the log: everything it lacks at the start, then what each slot touches."""

import asyncio
import logging
import sqlite3
from collections.abc import Sequence

from demarkus_world.engine.log import Log
from demarkus_world.engine.refusals import EngineError
from demarkus_world.engine.versions import Versions
from demarkus_world.view.catalog import describe
from demarkus_world.view.sections import Indexed, Sections
from mark_protocol.outline import sections
from mark_protocol.versions import StoredVersion

AT_ONCE = 64
PAUSE_AFTER_FAILURE = 30.0

logger = logging.getLogger(__name__)


class Indexer:
    """`run` is its task. While not `complete` the index may lack documents, and body search must not be answered."""

    def __init__(self, log: Log, versions: Versions, index: Sections) -> None:
        self.complete = False
        self._log = log
        self._versions = versions
        self._index = index

    async def run(self) -> None:
        """Follow the log, for ever. The owner cancels it."""
        while True:
            try:
                await self._fill()
                self.complete = True
                await self._follow()
            except (EngineError, sqlite3.Error, OSError) as error:
                logger.warning("sections can't be indexed, trying again in %g s: %s", PAUSE_AFTER_FAILURE, error)
                await asyncio.sleep(PAUSE_AFTER_FAILURE)
            self.complete = False

    async def _fill(self) -> None:
        """Bring in all that is missing and take out what is too much. What can't be read stays out."""
        self._log.touched.forget()
        while surplus := await asyncio.to_thread(self._index.surplus):
            await asyncio.to_thread(self._index.replace, surplus, ())
        last = ""
        while page := await asyncio.to_thread(self._index.behind, last):
            last = page[-1]
            await self._take_in(page)

    async def _follow(self) -> None:
        """Returns when more was touched than could be remembered."""
        while not self._log.touched.too_many:
            await self._log.touched.some.wait()
            await self._take_in(self._log.touched.take())

    async def _take_in(self, paths: Sequence[str]) -> None:
        for start in range(0, len(paths), AT_ONCE):
            part = paths[start : start + AT_ONCE]
            heads = {path: self._log.view.head(path) for path in part}
            there = {path: head.record for path, head in heads.items() if head is not None and not head.archived}
            read = await self._versions.read(there.values())
            found = [(path, record.etag, read[record.blob]) for path, record in there.items() if record.blob in read]
            await asyncio.to_thread(self._replace, [path for path in part if path not in there], found)

    def _replace(self, gone: Sequence[str], found: Sequence[tuple[str, str, StoredVersion]]) -> None:
        self._index.replace(
            gone,
            [Indexed(path, etag, describe(path, version), sections(version.body)) for path, etag, version in found],
        )
