"""Workers around the schedule. Times are real here and short; the rules are tested in test_schedule."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager

import pytest

from demarkus_operator.reconcile.queue import SHARE, SOON, Queue, WorkFailed
from demarkus_operator.reconcile.schedule import Schedule

BUDGET = 10.0

Do = Callable[[str, int], Awaitable[float | None]]


@asynccontextmanager
async def running(do: Do, *, workers: int = 2) -> AsyncIterator[Queue[str]]:
    """A queue at work, with retries after a moment."""

    async def work(key: str, *, attempt: int) -> float | None:
        return await do(key, attempt)

    queue = Queue(work, workers=workers, schedule=Schedule[str](chance=lambda: 0.0, first_retry=0.001))
    task = asyncio.create_task(queue.run())
    try:
        async with asyncio.timeout(BUDGET):
            yield queue
            queue.stop()
            await task
    finally:
        task.cancel()


async def test_work_on_one_key_never_overlaps_and_work_on_two_does() -> None:
    inside: dict[str, int] = {"a": 0, "b": 0}
    together = asyncio.Event()

    async def do(key: str, attempt: int) -> None:
        inside[key] += 1
        assert inside[key] == 1
        if all(inside.values()):
            together.set()
        await together.wait()
        await asyncio.sleep(0)
        inside[key] -= 1

    async with running(do) as queue:
        for _ in range(5):
            queue.add("a")
            queue.add("b")
            await asyncio.sleep(0)
        await together.wait()


async def test_news_wake_an_idle_worker() -> None:
    done = asyncio.Queue[str]()

    async def do(key: str, attempt: int) -> None:
        await done.put(key)

    async with running(do) as queue:
        await asyncio.sleep(0)
        assert queue.idle
        queue.add("a")
        assert await done.get() == "a"
        queue.add_after("b", 0.001)
        assert await done.get() == "b"


async def test_failed_work_is_tried_again_and_told_which_attempt_it_is() -> None:
    attempts: list[int] = []
    done = asyncio.Event()

    async def do(key: str, attempt: int) -> None:
        attempts.append(attempt)
        if attempt < 4:
            raise WorkFailed("not yet")
        done.set()

    async with running(do) as queue:
        queue.add("a")
        await done.wait()
    assert attempts == [1, 2, 3, 4]


async def test_work_that_asks_for_another_turn_gets_it() -> None:
    count = 0
    done = asyncio.Event()

    async def do(key: str, attempt: int) -> float | None:
        nonlocal count
        count += 1
        if count == 3:
            done.set()
            return None
        return 0.001

    async with running(do) as queue:
        queue.add("a")
        await done.wait()


async def test_stop_ends_what_was_begun_and_begins_nothing_new() -> None:
    began, may_end = asyncio.Event(), asyncio.Event()
    done: list[str] = []

    async def do(key: str, attempt: int) -> None:
        began.set()
        await may_end.wait()
        done.append(key)

    async with running(do, workers=1) as queue:
        queue.add("a")
        queue.add("b")
        await began.wait()
        queue.stop()
        may_end.set()
    assert done == ["a"]


async def test_a_bug_in_the_work_ends_the_queue() -> None:
    """`Reconciler` turns every error of a reconcile into WorkFailed; whatever else comes out must not be hidden."""

    async def work(key: str, *, attempt: int) -> None:
        raise RuntimeError("bug")

    queue: Queue[str] = Queue(work, workers=1, schedule=Schedule(chance=lambda: 0.0))
    queue.add("a")
    with pytest.raises(ExceptionGroup) as raised:
        await asyncio.wait_for(queue.run(), BUDGET)
    assert raised.group_contains(RuntimeError, match="bug")


async def test_what_many_ask_for_soon_is_done_once_for_all() -> None:
    done: list[str] = []
    second = asyncio.Event()

    async def do(key: str, attempt: int) -> None:
        done.append(key)
        if key == "b":
            second.set()

    async with running(do) as queue:
        for _ in range(20):
            queue.add_soon("a")
            await asyncio.sleep(0)
        queue.add_after("b", 2 * SOON)
        await second.wait()
    assert done == ["a", "b"]


async def test_what_takes_long_is_done_the_more_seldom() -> None:
    now = 0.0
    done = asyncio.Event()

    async def work(key: str, *, attempt: int) -> float | None:
        nonlocal now
        now += 10.0
        done.set()
        return None

    schedule = Schedule[str](chance=lambda: 0.0)
    queue: Queue[str] = Queue(work, workers=1, schedule=schedule, clock=lambda: now)
    queue.add("a")
    task = asyncio.create_task(queue.run())
    await done.wait()
    queue.stop()
    await task
    queue.add_soon("a")
    assert schedule.next_time() == 10.0 + SHARE * 10.0


async def test_who_adds_many_can_wait_for_room() -> None:
    gate = asyncio.Event()

    async def do(key: str, attempt: int) -> None:
        await gate.wait()

    async with running(do, workers=1) as queue:
        for key in "abcd":
            queue.add(key)
        waiting = asyncio.create_task(queue.shorter_than(2))
        await asyncio.sleep(0)
        assert not waiting.done()
        gate.set()
        await waiting
        assert queue.waiting < 2
