"""Trying again what a store refused for a moment: later each time, and never in step with others."""

import asyncio
import random
from collections.abc import AsyncIterator, Awaitable, Callable
from typing import TypeVar

from demarkus_base.blobs.port import BlobError, Blobs, Integrity, NotFound, Throttled, Unavailable
from demarkus_world.engine import refusals

T = TypeVar("T")

Pause = Callable[[float], Awaitable[None]]

ATTEMPTS = 12
FIRST_PAUSE = 0.1
LONGEST_PAUSE = 5.0
JITTER = 0.5
PATIENCE = 10.0
"""Seconds of pauses after which a read is given up; who asked has mostly left before."""


async def sleep(seconds: float) -> None:
    """Wait that long, or up to half as long again, so that many who were refused together do not come back together."""
    await asyncio.sleep(seconds * (1 + JITTER * random.random()))


def pause_before(attempt: int) -> float:
    """Seconds to wait before attempt 1, 2, ... after the first."""
    return min(FIRST_PAUSE * 2.0 ** min(attempt - 1, ATTEMPTS), LONGEST_PAUSE)


async def read(call: Callable[[], Awaitable[T]], *, pause: Pause) -> T:
    """The result of a call that changes nothing, tried again while the store is throttled or away.

    Raises NotFound and Integrity, which are about the object; every other BlobError becomes the engine's Unavailable.
    """
    attempt, waited = 1, 0.0
    while True:
        next_pause = pause_before(attempt)
        try:
            return await call()
        except (NotFound, Integrity):
            raise
        except BlobError as error:
            if waited + next_pause > PATIENCE or not isinstance(error, (Throttled, Unavailable)):
                raise refusals.Unavailable(f"the store can't be read: {error}") from error
        await pause(next_pause)
        waited += next_pause
        attempt += 1


async def listing(blobs: Blobs, prefix: str, after: str = "", *, pause: Pause) -> AsyncIterator[str]:
    """See `Blobs.list`; goes on behind the last key while the store is throttled or away. Raises Unavailable."""
    attempt, waited = 1, 0.0
    while True:
        next_pause = pause_before(attempt)
        try:
            async for key in blobs.list(prefix, after):
                after, attempt, waited = key, 1, 0.0
                yield key
            return
        except BlobError as error:
            if waited + next_pause > PATIENCE or not isinstance(error, (Throttled, Unavailable)):
                raise refusals.Unavailable(f"the store can't be listed: {error}") from error
        await pause(next_pause)
        waited += next_pause
        attempt += 1
