"""How late the event loop is: what runs on it too long delays everybody, and shows here first."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Awaitable, Callable

EVERY = 0.1
"""Seconds between two measurements."""


async def measure(
    observe: Callable[[float], None],
    *,
    clock: Callable[[], float] = time.monotonic,
    sleep: Callable[[float], Awaitable[None]] = asyncio.sleep,
) -> None:
    """Give `observe` the seconds by which each turn came too late; for ever."""
    while True:
        due = clock() + EVERY
        await sleep(EVERY)
        observe(max(clock() - due, 0.0))
