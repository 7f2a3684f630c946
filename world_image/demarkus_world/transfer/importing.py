"""The import: every candidate of a source is looked at, planned, and its versions adopted, many documents at a time.

Nothing is remembered between two runs but what is in the store: a document is taken up where it stands, so an import
that was killed goes on, and one that ended adds nothing when it is run again.
"""

from __future__ import annotations

import asyncio
import itertools
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator, Sequence
from contextlib import asynccontextmanager

from demarkus_world.engine.engine import (
    Adopt,
    DocumentArchived,
    Engine,
    OutcomeUnknown,
    Unavailable,
    VersionConflict,
    Write,
    WriteRefused,
    Written,
)
from demarkus_world.transfer.many import for_each
from demarkus_world.transfer.model import Candidate, Here, History, Refused, Source, Version
from demarkus_world.transfer.report import Report
from demarkus_world.transfer.runs import Plan, plan
from mark_protocol.paths import has_parent_segment, unstorable

DOCUMENTS = 64
"""Documents under way at once: enough of them for full slots when each has one version."""
BATCH = 32
BATCH_BYTES = 4 * 1024 * 1024
BYTES = 32 * 1024 * 1024
WAITING = 512
"""Bytes and number of versions that wait for the log at once; the engine takes 64 MiB and 1024."""
TIMEOUT = 120.0
TRIES = 6


class Import:
    """One import into an open store. `by` is who does it, as the log names them."""

    def __init__(
        self,
        engine: Engine,
        source: Source,
        report: Report,
        *,
        by: str,
        into: str = "/",
        compatible: bool = False,
        pause: Callable[[float], Awaitable[None]] = asyncio.sleep,
    ) -> None:
        self.looked_at = 0
        self.total: int | None = None
        self._engine = engine
        self._source = source
        self._report = report
        self._by = by
        self._into = into.rstrip("/")
        self._compatible = compatible
        self._pause = pause
        self._room = _Room(BYTES)

    async def run(self) -> None:
        """Take everything over; what does not come over is in the report. Raises SourceError, EngineError."""
        candidates = self._source.candidates()
        if self._source.counted:
            known = [candidate async for candidate in candidates]
            self.total = len(known)
            candidates = _each(known)
        await for_each(candidates, self._take, at_once=DOCUMENTS)

    async def _take(self, candidate: Candidate) -> None:
        path = f"{self._into}{candidate.path}"
        try:
            self._check(path, candidate.path)
            for attempt in itertools.count(1):
                try:
                    await self._bring(path, candidate)
                    break
                except (OutcomeUnknown, Unavailable, VersionConflict, DocumentArchived):
                    # Whatever became of it, or whoever came between: a look at the store tells where to go on.
                    if attempt == TRIES:
                        raise
                    await self._pause(min(0.25 * 2**attempt, 8.0))
        except (Refused, WriteRefused) as refusal:
            self._report.refuse(path, str(refusal))
        finally:
            self.looked_at += 1

    def _check(self, path: str, given: str) -> None:
        rule = unstorable(path, versions_segment=self._compatible)
        if rule is not None:
            raise Refused(f"its path can't be stored: {rule}")
        if has_parent_segment(given) or "//" in given or "/./" in given:
            raise Refused("its path is not canonical")
        if not path.endswith(".md"):
            raise Refused("its path does not end in .md")
        if any((character < " " and character != "\t") or character == "\x7f" for character in path):
            raise Refused("its path has control characters, which no request can name")

    async def _bring(self, path: str, candidate: Candidate) -> None:
        here = await self._here(path)
        history = await candidate.history(here)
        if history is None:
            return
        try:
            planned = plan(history, here)
            if planned.adopt or planned.archived is not None:
                await self._carry_out(path, planned, history, here)
            else:
                self._report.present += 1
            for left in planned.left_behind:
                self._report.refuse(path, left.reason, (left.first, left.last))
        finally:
            history.close()

    async def _here(self, path: str) -> Here | None:
        view = await self._engine.view(exact=True)
        head = view.head(path)
        if head is None:
            return None
        hashes = {record.version: record.etag for record in view.versions(path)}
        return Here(number=head.record.version, archived=head.archived, hashes=hashes)

    async def _carry_out(self, path: str, planned: Plan, history: History, here: Here | None) -> None:
        archived_here = here is not None and here.archived
        if archived_here and (planned.adopt or planned.archived is False):
            await self._set_archived(path, archived=False)
            self._report.unarchived += planned.archived is False
        if not planned.adopt:
            if planned.archived:
                await self._set_archived(path, archived=True)
                self._report.archived += 1
            return
        newest = planned.adopt[-1]
        for batch in _batches(planned.adopt):
            async with self._room.taken(sum(max(version.size, BYTES // WAITING) for version in batch)):
                data = [await history.read(version.number) for version in batch]
                changes = [
                    Adopt(
                        path=path,
                        number=version.number,
                        stored=stored,
                        modified=version.modified,
                        archived=planned.archived is True and version is newest,
                        # If the first one can't be written, none behind it may pass for the first.
                        follows=here is not None or version is not planned.adopt[0],
                        by=self._by,
                    )
                    for version, stored in zip(batch, data, strict=True)
                ]
                results = await self._engine.write_all(changes, timeout=TIMEOUT)
            for stored, result in zip(data, results, strict=True):
                if isinstance(result, Written) and result.outcome == "created":
                    self._report.add_version(path, len(stored))
            _or_raise(results)
        self._report.archived += planned.archived is True

    async def _set_archived(self, path: str, *, archived: bool) -> None:
        write = Write(op="archive" if archived else "unarchive", path=path, by=self._by, credential="local")
        await self._engine.write(write, timeout=TIMEOUT)


class _Room:
    """What may be under way at once; a batch that is larger alone goes when nothing else does."""

    def __init__(self, size: int) -> None:
        self._size = size
        self._used = 0
        self._changed = asyncio.Condition()

    @asynccontextmanager
    async def taken(self, count: int) -> AsyncIterator[None]:
        async with self._changed:
            await self._changed.wait_for(lambda: self._used == 0 or self._used + count <= self._size)
            self._used += count
        try:
            yield
        finally:
            async with self._changed:
                self._used -= count
                self._changed.notify_all()


def _batches(versions: Sequence[Version]) -> Iterator[Sequence[Version]]:
    """Versions that are offered together, in order."""
    batch: list[Version] = []
    size = 0
    for version in versions:
        if batch and (len(batch) == BATCH or size + version.size > BATCH_BYTES):
            yield batch
            batch, size = [], 0
        batch.append(version)
        size += version.size
    yield batch


async def _each(candidates: Sequence[Candidate]) -> AsyncIterator[Candidate]:
    for candidate in candidates:
        yield candidate


def _or_raise(results: Sequence[Written | BaseException]) -> None:
    """The first thing that went wrong is the reason for the rest."""
    for result in results:
        if isinstance(result, BaseException):
            raise result
