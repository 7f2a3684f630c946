"""The work queue: a few workers that take keys from a `Schedule`, and the clock that it lacks.

Handlers of events only `add`; errors live here, in the backoff of a key. One key is never worked on twice at once,
so whoever works on it needs no lock.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Awaitable, Callable
from typing import Generic, Protocol, TypeVar

from demarkus_operator.reconcile.schedule import Key, Schedule

SOON = 0.5
"""Seconds in which what is added soon is gathered."""
SHARE = 4.0
"""How many times as long as its work took a key that is added soon rests, at least."""

WorkedOn = TypeVar("WorkedOn", contravariant=True)


class Work(Protocol[WorkedOn]):
    """What is done for a key. `attempt` counts the times in a row, from 1.

    Returns the seconds after which the key wants to be looked at again, or None. Raises `WorkFailed` to be tried again
    with growing delays.
    """

    def __call__(self, key: WorkedOn, *, attempt: int) -> Awaitable[float | None]: ...


class WorkFailed(Exception):
    """The work on a key did not succeed. `delay` is the least number of seconds to wait, or None.

    `got_further`: something was done before it failed, so the next try need not wait longer than the one before.
    """

    def __init__(self, message: str, *, delay: float | None = None, got_further: bool = False) -> None:
        super().__init__(message)
        self.delay = delay
        self.got_further = got_further


class Queue(Generic[Key]):
    """Keys to be worked on. All calls belong to one event loop."""

    def __init__(
        self,
        work: Work[Key],
        *,
        workers: int,
        schedule: Schedule[Key],
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self._work = work
        self._workers = workers
        self._schedule = schedule
        self._clock = clock
        self._news = asyncio.Event()
        self._taken = asyncio.Event()
        self._stopping = False
        self._took: dict[Key, float] = {}  # seconds, of what takes longer than most

    def add(self, key: Key) -> bool:
        """Have the key worked on soon. False when there are too many keys: a resync has to find it again."""
        self._news.set()
        return self._schedule.add(key, self._clock())

    def add_after(self, key: Key, seconds: float) -> bool:
        """Have the key worked on after so many seconds; an earlier time that is set already stays."""
        self._news.set()
        return self._schedule.add_at(key, self._clock() + seconds)

    def add_soon(self, key: Key) -> bool:
        """Have the key worked on before long, with all that is added until then: the longer its work takes, the rarer.

        For what many others ask for, one after the other. Whoever is asked for by `add` does not wait.
        """
        return self.add_after(key, max(SOON, SHARE * self._took.get(key, 0.0)))

    async def shorter_than(self, length: int) -> None:
        """Waits until fewer keys are in line."""
        while self._schedule.waiting >= length:
            self._taken.clear()
            await self._taken.wait()

    @property
    def waiting(self) -> int:
        """How many keys are in line."""
        return self._schedule.waiting

    @property
    def oldest(self) -> float:
        """For how many seconds the first key in line has waited."""
        return self._schedule.oldest(self._clock())

    @property
    def idle(self) -> bool:
        """Whether no key is in line or being worked on."""
        return not self._schedule.waiting and not self._schedule.running

    def stop(self) -> None:
        """Start no more work; `run` returns when what was begun is done."""
        self._stopping = True
        self._news.set()

    async def run(self) -> None:
        """Works until `stop`. Whatever the work raises, but for `WorkFailed`, ends it."""
        async with asyncio.TaskGroup() as group:
            for number in range(self._workers):
                group.create_task(self._worker(), name=f"worker {number}")

    async def _worker(self) -> None:
        while not self._stopping:
            key = self._schedule.take(self._clock())
            if key is None:
                await self._wait()
                continue
            self._taken.set()
            started = self._clock()
            try:
                again_in = await self._work(key, attempt=self._schedule.failures(key) + 1)
            except WorkFailed as failure:
                delay = failure.delay or 0.0
                self._schedule.failed(key, self._clock(), not_before=delay, got_further=failure.got_further)
            else:
                self._schedule.succeeded(key, self._clock(), again_in=again_in)
            self._note(key, self._clock() - started)
            self._news.set()  # the times have changed

    def _note(self, key: Key, seconds: float) -> None:
        if seconds * SHARE > SOON:
            self._took[key] = seconds
        else:
            self._took.pop(key, None)

    async def _wait(self) -> None:
        """Until something is added or the next time has come."""
        # Between the `take` that found nothing and this line nobody else runs, so no news is lost.
        self._news.clear()
        next_time = self._schedule.next_time()
        delay = None if next_time is None else max(0.0, next_time - self._clock())
        try:
            async with asyncio.timeout(delay):
                await self._news.wait()
        except TimeoutError:
            return
