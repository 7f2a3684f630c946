"""Staging: the bytes of decided writes on their way into the store, side by side and ahead of their slots.

Each goes under a name that was never used before, so whether an earlier attempt landed does not matter.
"""

import asyncio
from collections.abc import Callable

from demarkus_base.blobs.port import BlobError, Blobs, Permanent, StoreFull
from demarkus_world.engine import keys, retry
from demarkus_world.engine.decisions import Content
from demarkus_world.engine.members import Member
from demarkus_world.engine.space import Space


class Staging:
    """`sweeps` tells how many sweeps are in the log; `ended` is called whenever bytes are there, or can't be."""

    def __init__(
        self,
        blobs: Blobs,
        *,
        random: Callable[[int], bytes],
        pause: retry.Pause,
        space: Space,
        sweeps: Callable[[], int],
        ended: Callable[[], None],
    ) -> None:
        self._blobs = blobs
        self._random = random
        self._pause = pause
        self._space = space
        self._sweeps = sweeps
        self._ended = ended
        self._tasks: set[asyncio.Task[str]] = set()

    def begin(self, member: Member) -> None:
        """Stage what was decided for a member, unless just that is there or on its way."""
        content = member.decision.content if member.decision else None
        stored, sweeps = content.stored if content else None, self._sweeps()
        if stored == member.staged and (stored is None or member.sweeps == sweeps):
            return
        if member.staging is not None:
            member.staging.cancel()
        # What is staged before a sweep may be gone once that is in the log: then it is staged anew.
        member.staged, member.staging, member.sweeps = stored, None, sweeps
        if content is not None and member.decision is not None:
            member.staging = asyncio.create_task(
                self._create(member.write.path, member.decision.version, content), name="stage a version"
            )
            self._tasks.add(member.staging)
            member.staging.add_done_callback(self._done)

    async def close(self) -> None:
        """End what is under way."""
        for task in self._tasks:
            task.cancel()
        if self._tasks:
            await asyncio.wait(self._tasks)

    async def _create(self, path: str, version: int, content: Content) -> str:
        """The key under which the bytes are."""
        attempt = 1
        while True:
            key = keys.blob(path, version, content.stored, self._random(4).hex())
            try:
                async with self._space.claim(len(content.data)):
                    await self._blobs.create(key, content.data)
                return key
            except BlobError as error:
                if attempt == retry.ATTEMPTS or isinstance(error, (Permanent, StoreFull)):
                    raise
            await self._pause(retry.pause_before(attempt))
            attempt += 1

    def _done(self, task: asyncio.Task[str]) -> None:
        self._tasks.discard(task)
        if not task.cancelled():
            task.exception()  # looked at, whoever else will
        self._ended()
