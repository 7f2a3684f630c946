"""A store whose n-th call fails, in every way a store can fail."""

import asyncio
import contextlib
from collections.abc import AsyncIterator
from enum import StrEnum

from demarkus_base.blobs.memory import MemoryBlobs
from demarkus_base.blobs.port import Exists, NotFound, Permanent, Stopped, StoreFull
from demarkus_base.blobs.port import Unavailable as BlobsUnavailable


class Failure(StrEnum):
    """What happens at the chosen call."""

    ERROR = "an error, nothing done"
    OPEN_NOT_DONE = "an answer that leaves it open, nothing done"
    OPEN_DONE = "an answer that leaves it open, done"
    OPEN_LATE = "an answer that leaves it open, done a moment later"
    FULL = "no space"
    REFUSED = "no permission"
    STOPPED_NOT_DONE = "a failed fsync of the file: the driver stops"
    STOPPED_DONE = "a failed fsync of the name: the driver stops"
    DEATH_BEFORE = "the process dies before the call"
    DEATH_AFTER = "the process dies after the call"
    DEATH_LATE = "the process dies, and its call lands when the next one has started"


_DONE = frozenset({Failure.OPEN_DONE, Failure.STOPPED_DONE, Failure.DEATH_AFTER})
_LATE = frozenset({Failure.OPEN_LATE, Failure.DEATH_LATE})
_DEATHS = frozenset({Failure.DEATH_BEFORE, Failure.DEATH_AFTER, Failure.DEATH_LATE})


class Failing:
    """A store whose call number `at` fails (0: none); counts gets, creates, deletes and lists.

    For a call that changes nothing every failure but death is an error.
    """

    exclusive = False

    def __init__(self, blobs: MemoryBlobs, failure: Failure, at: int) -> None:
        self._blobs = blobs
        self._failure = failure
        self._at = at
        self._late: tuple[str, bytes | None] | None = None
        self.calls = 0
        self.dead = asyncio.Event()
        self._stopped = False

    async def get(self, key: str) -> bytes:
        await self._enter()
        if self._now():
            await self._fail(key, None, changes=False)
        return await self._blobs.get(key)

    async def create(self, key: str, data: bytes) -> None:
        await self._change(key, data)

    async def delete(self, key: str) -> None:
        await self._change(key, None)

    async def list(self, prefix: str, after: str = "") -> AsyncIterator[str]:
        await self._enter()
        if self._now():
            await self._fail(prefix, None, changes=False)
        async for key in self._blobs.list(prefix, after):
            yield key

    async def close(self) -> None:
        pass

    def fail_in(self, calls: int) -> None:
        """Let the call fail that comes after that many others, counted from now; 1 is the next one."""
        self._at = self.calls + calls

    @property
    def failed(self) -> bool:
        """Whether the chosen call has come."""
        return self.calls >= self._at

    async def settle(self) -> None:
        """Let what was on its way arrive."""
        if self._late is not None:
            (key, data), self._late = self._late, None
            with contextlib.suppress(Exists, NotFound):
                await self._do(key, data)

    async def _change(self, key: str, data: bytes | None) -> None:
        await self._enter()
        if self._stopped:
            raise Stopped("must be opened anew")
        if self._now():
            await self._fail(key, data, changes=True)
        await self._do(key, data)

    async def _do(self, key: str, data: bytes | None) -> None:
        if data is None:
            await self._blobs.delete(key)
        else:
            await self._blobs.create(key, data)

    async def _enter(self) -> None:
        if self.dead.is_set():
            await asyncio.Event().wait()
        self.calls += 1
        if self.calls == self._at + 1:
            await self.settle()

    def _now(self) -> bool:
        return self.calls == self._at

    async def _fail(self, key: str, data: bytes | None, *, changes: bool) -> None:
        failure = self._failure
        if changes and failure in _DONE:
            await self._do(key, data)
        if changes and failure in _LATE:
            self._late = key, data
        if failure in _DEATHS:
            self.dead.set()
            await asyncio.Event().wait()
        if not changes or failure is Failure.ERROR:
            raise BlobsUnavailable("failed")
        if failure in (Failure.STOPPED_NOT_DONE, Failure.STOPPED_DONE):
            self._stopped = True
            raise Stopped("fsync failed", ambiguous=failure is Failure.STOPPED_DONE)
        if failure is Failure.FULL:
            raise StoreFull("full")
        if failure is Failure.REFUSED:
            raise Permanent("no permission")
        raise BlobsUnavailable("left open", ambiguous=True)
