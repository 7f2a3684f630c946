"""Many calls at once, but not too many."""

import asyncio
from collections.abc import Awaitable, Callable, Iterable
from typing import TypeVar

A = TypeVar("A")
T = TypeVar("T")

PARALLEL = 16


async def in_parallel(call: Callable[[A], Awaitable[T]], arguments: Iterable[A], *, limit: int = PARALLEL) -> list[T]:
    """The results in the order of the arguments, at most `limit` calls at a time.

    The first failure ends the others and is raised as it is.
    """
    waiting = list(enumerate(arguments))
    results: dict[int, T] = {}
    queue = iter(waiting)

    async def work() -> None:
        for index, argument in queue:
            results[index] = await call(argument)

    try:
        async with asyncio.TaskGroup() as group:
            for _ in range(min(limit, len(waiting))):
                group.create_task(work())
    except ExceptionGroup as failures:
        raise failures.exceptions[0] from None
    return [results[index] for index, _ in waiting]
