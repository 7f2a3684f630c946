"""Hedged reads: a second request for the slow ones, within a budget.

A read that has taken longer than most (the 95th percentile of recent ones) is asked for a second time, and the first
answer wins. That cuts the slow tail of an object store without much load: at most one read in ten is hedged, with a
few saved up for a burst. Only reads are hedged: a doubled create could meet its own twin.
"""

import asyncio
from collections import deque
from collections.abc import AsyncIterator, Callable

from demarkus_base.blobs.port import BlobError, Blobs, NotFound

WINDOW = 256
"""Reads whose latency counts."""
REVIEW = 32
"""Reads between two looks at the window."""
PERCENTILE = 0.95
FIRST_DELAY = 0.1
SHORTEST, LONGEST = 0.025, 1.0
SHARE = 0.1
BANK = 10.0


class Patience:
    """How long to wait before a second request (seconds), learned from the latencies of recent reads."""

    def __init__(self) -> None:
        self._recent: deque[float] = deque(maxlen=WINDOW)
        self._until_review = REVIEW
        self.delay = FIRST_DELAY

    def learn(self, seconds: float) -> None:
        """Count one read."""
        self._recent.append(seconds)
        self._until_review -= 1
        if self._until_review == 0:
            self._until_review = REVIEW
            ordered = sorted(self._recent)
            self.delay = min(LONGEST, max(SHORTEST, ordered[int(len(ordered) * PERCENTILE)]))


class Budget:
    """How many second requests are affordable: a share of all reads, and some in the bank."""

    def __init__(self) -> None:
        self._saved = BANK

    def earn(self) -> None:
        """Count one read."""
        self._saved = min(BANK, self._saved + SHARE)

    def spend(self) -> bool:
        """Whether one more is affordable; if so it is paid."""
        if self._saved < 1:
            return False
        self._saved -= 1
        return True


class HedgedBlobs:
    """A store whose reads are hedged; everything else is passed on. Belongs to one loop.

    `count` is told of second requests: `sent`, and `won` when it answered first.
    """

    def __init__(self, blobs: Blobs, *, clock: Callable[[], float], count: Callable[[str], None]) -> None:
        self._blobs = blobs
        self._clock = clock
        self._count = count
        self._patience = Patience()
        self._budget = Budget()

    @property
    def exclusive(self) -> bool:
        """See `Blobs`."""
        return self._blobs.exclusive

    async def get(self, key: str) -> bytes:
        """See `Blobs.get`. An error but NotFound is no answer while the other request still may give one."""
        self._budget.earn()
        started = self._clock()
        first = asyncio.create_task(self._blobs.get(key))
        try:
            done, _ = await asyncio.wait({first}, timeout=self._patience.delay)
            if done or not self._budget.spend():
                return await first
            self._count("sent")
            return await self._either(first, asyncio.create_task(self._blobs.get(key)))
        finally:
            self._patience.learn(self._clock() - started)
            await _ended(first)

    async def _either(self, first: asyncio.Task[bytes], second: asyncio.Task[bytes]) -> bytes:
        try:
            waiting = {first, second}
            while True:
                done, waiting = await asyncio.wait(waiting, return_when=asyncio.FIRST_COMPLETED)
                for task in done:
                    error = task.exception()
                    if not waiting or error is None or isinstance(error, NotFound):
                        if task is second:
                            self._count("won")
                        return task.result()
        finally:
            await _ended(second)

    async def create(self, key: str, data: bytes) -> None:
        """See `Blobs.create`."""
        await self._blobs.create(key, data)

    async def delete(self, key: str) -> None:
        """See `Blobs.delete`."""
        await self._blobs.delete(key)

    def list(self, prefix: str, after: str = "") -> AsyncIterator[str]:
        """See `Blobs.list`."""
        return self._blobs.list(prefix, after)

    async def close(self) -> None:
        """See `Blobs.close`."""
        await self._blobs.close()


async def _ended(task: asyncio.Task[bytes]) -> None:
    """Cancel a request that nobody waits for, and see it end."""
    task.cancel()
    try:
        await task
    except (asyncio.CancelledError, BlobError):
        if (current := asyncio.current_task()) is not None and current.cancelling() and not task.cancelled():
            raise
