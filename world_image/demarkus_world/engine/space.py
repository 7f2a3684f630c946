"""What happens when the store is full: content waits, and what makes room goes on.

Content is taken while a volume has more than `SPARE` left beside it: the log and the local view need some, too. And a
volume keeps a reserve (`demarkus_base.reserve`). When the last free byte or inode is gone all the same and something
has to be committed that brings no content, an archive, a prune, a sweep, the reserve is let go for it. From then on
content is refused until the reserve could be made anew, which is tried whenever content comes, at most once in `RETRY`
seconds.
"""

import asyncio
import logging
import time
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from typing import Protocol

from demarkus_base.blobs.port import StoreFull

logger = logging.getLogger(__name__)

RETRY = 1.0
SPARE = 1024 * 1024
SPARE_FILES = 16


class Reserve(Protocol):
    """Space put by."""

    @property
    def held(self) -> bool: ...

    async def room(self, size: int, files: int) -> bool:
        """Whether so many bytes and files are left. Raises OSError."""
        ...

    async def release(self) -> None:
        """Let go of it. Raises OSError."""
        ...

    async def remake(self) -> bool:
        """Put it by again, as far as it is missing; whether it is complete. Raises OSError."""
        ...


class Space:
    """Whether there is room. Without a reserve (a bucket) there always is, as far as this process knows.

    `refused` says whether the newest content that came was refused for want of space.
    """

    def __init__(self, reserve: Reserve | None, *, clock: Callable[[], float] = time.monotonic) -> None:
        self._reserve = reserve
        self._clock = clock
        self._tried = -RETRY
        self._claimed = 0
        self.refused = False
        self._trying = asyncio.Lock()

    @property
    def full(self) -> bool:
        """Whether content is refused."""
        return self._reserve is not None and not self._reserve.held

    @asynccontextmanager
    async def claim(self, size: int) -> AsyncIterator[None]:
        """Hold so many bytes for content while it is written. Raises the store's StoreFull."""
        self._claimed += size
        try:
            if self._reserve is not None and not await self._has_room(self._reserve):
                raise StoreFull(f"no more than the {SPARE} bytes and {SPARE_FILES} files left that are not for content")
            yield
        finally:
            self._claimed -= size

    async def _has_room(self, reserve: Reserve) -> bool:
        try:
            return await reserve.room(SPARE + self._claimed, SPARE_FILES)
        except OSError:
            return True  # what is wrong with the volume shows where content is written

    async def release(self) -> bool:
        """Make room for what frees some; False if there was nothing to let go of."""
        if self._reserve is None or not self._reserve.held:
            return False
        logger.error("store is full: the reserve is let go, content is refused until there is space")
        try:
            await self._reserve.release()
        except OSError as error:
            logger.error("the reserve can't be let go: %s", error)
            return False
        return True

    async def recover(self) -> None:
        """Look whether there is space again."""
        async with self._trying:
            if self._reserve is None or self._reserve.held or self._clock() < self._tried + RETRY:
                return
            self._tried = self._clock()
            try:
                whole = await self._reserve.remake()
            except OSError as error:
                logger.error("the reserve can't be made: %s", error)
                return
            if whole:
                logger.info("there is space again: the reserve is whole, content is accepted")
