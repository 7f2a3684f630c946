"""Trying again what a store refused for a moment."""

from collections.abc import Awaitable, Callable
from typing import TypeVar

from demarkus_base.blobs.port import BlobError, Integrity, NotFound, Throttled, Unavailable
from demarkus_world.engine import refusals

T = TypeVar("T")

Pause = Callable[[float], Awaitable[None]]

ATTEMPTS = 6
FIRST_PAUSE = 0.05
LONGEST_PAUSE = 5.0


def pause_before(attempt: int) -> float:
    """Seconds to wait before attempt 1, 2, ... after the first."""
    return min(FIRST_PAUSE * 2.0 ** (attempt - 1), LONGEST_PAUSE)


async def read(call: Callable[[], Awaitable[T]], *, pause: Pause) -> T:
    """The result of a call that changes nothing, tried again while the store is throttled or away.

    Raises NotFound and Integrity, which are about the object; every other BlobError becomes the engine's Unavailable.
    """
    attempt = 1
    while True:
        try:
            return await call()
        except (NotFound, Integrity):
            raise
        except BlobError as error:
            if attempt == ATTEMPTS or not isinstance(error, (Throttled, Unavailable)):
                raise refusals.Unavailable(f"the store can't be read: {error}") from error
        await pause(pause_before(attempt))
        attempt += 1
