"""Stores in memory whose engines, sweepers and rules a test makes as it needs them, with a clock that it moves."""

import asyncio
import contextlib
import hashlib
import json
from collections.abc import AsyncIterator, Callable
from typing import Any

import pytest

from demarkus_base.blobs.memory import MemoryBlobs
from demarkus_base.blobs.port import Blobs
from demarkus_world.engine.engine import Engine, Identity, Rules, Write, Written
from demarkus_world.engine.model import Prune
from demarkus_world.engine.sweep import Sweeper

HISTORY = "a" * 32
START = 1_790_000_000_000
HOUR = 3_600_000
DAY = 24 * HOUR


class Clock:
    """Milliseconds that move only when a test says so."""

    def __init__(self) -> None:
        self.now = START

    def __call__(self) -> int:
        return self.now


async def no_pause(seconds: float) -> None:
    """Waiting for a store costs no time, but lets everybody else go on."""
    for _ in range(10):
        await asyncio.sleep(0)


class Process:
    """An engine and its sweeper on a store, as one process of a world has them."""

    def __init__(self, engine: Engine, sweeper: Sweeper) -> None:
        self.engine = engine
        self.sweeper = sweeper

    async def publish(self, path: str = "/a.md", body: bytes = b"text\n", **given: Any) -> Written:
        write = Write(op="publish", path=path, body=body, by="kettle", credential="token", **given)
        return await self.engine.write(write)

    async def prune(self, path: str = "/a.md", **given: Any) -> Written:
        return await self.engine.write(Prune(path=path, by="local:ann", **given))

    async def kill(self) -> None:
        """End as the death of a process does: at once, whatever it is doing."""
        closing = asyncio.create_task(self.engine.close())
        await asyncio.sleep(0)
        closing.cancel()
        with contextlib.suppress(asyncio.CancelledError):
            await closing


@pytest.fixture
def clock() -> Clock:
    return Clock()


@pytest.fixture
async def start(clock: Clock) -> AsyncIterator[Callable[..., Any]]:
    """Starts processes on a store (a new one unless given) and ends them after the test."""
    processes: list[Process] = []

    async def begin(blobs: Blobs | None = None, *, rules: Rules | None = None, grace: int = DAY) -> Process:
        seed, calls = str(len(processes)), iter(range(1_000_000))

        def random(size: int) -> bytes:
            return hashlib.sha256(f"{seed} {next(calls)}".encode()).digest()[:size]

        store = blobs if blobs is not None else MemoryBlobs()
        laws = rules or Rules()
        engine = await Engine.open(
            store, Identity(HISTORY, "b" * 32), now=clock, random=random, pause=no_pause, rules=lambda: laws
        )
        sweeper = Sweeper(store, engine, now=clock, grace=lambda: grace, rules=lambda: laws, pause=no_pause)
        processes.append(Process(engine, sweeper))
        return processes[-1]

    yield begin
    for process in processes:
        await process.kill()


@pytest.fixture
def entries() -> Callable[[Blobs], Any]:
    """All entries of a store's log, read from its slots."""

    async def read(blobs: Blobs) -> list[dict[str, Any]]:
        found: list[dict[str, Any]] = []
        async for key in blobs.list("log/"):
            found += json.loads(await blobs.get(key))["entries"]
        return found

    return read


@pytest.fixture
def bodies() -> Callable[[Blobs], Any]:
    """The keys of all blobs of documents in a store."""

    async def read(blobs: Blobs) -> list[str]:
        return [key async for key in blobs.list("docs/")]

    return read
