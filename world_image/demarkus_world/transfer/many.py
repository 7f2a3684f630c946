"""Work on many things at once, on so many and no more."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterable, Awaitable, Callable
from typing import TypeVar

T = TypeVar("T")


async def for_each(things: AsyncIterable[T], work: Callable[[T], Awaitable[None]], *, at_once: int) -> None:
    """Do the work for every thing. The first failure ends it all and is raised."""
    free = asyncio.Semaphore(at_once)

    async def one(thing: T) -> None:
        try:
            await work(thing)
        finally:
            free.release()

    try:
        async with asyncio.TaskGroup() as group:
            async for thing in things:
                await free.acquire()
                group.create_task(one(thing))
    except BaseExceptionGroup as failures:
        raise failures.exceptions[0] from None
