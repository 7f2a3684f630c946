"""Engines over stores that can be made to fail, with a clock and randomness that repeat."""

import asyncio
import contextlib
import hashlib
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping
from typing import Any, Protocol

import pytest

from demarkus_base.blobs.memory import MemoryBlobs
from demarkus_base.blobs.port import Blobs
from demarkus_world.engine.engine import Engine, Identity, Write
from demarkus_world.engine.notes import WorldKey

HISTORY = "a" * 32
INCARNATION = "b" * 32
START = 1_790_000_000_000


class Clock:
    """Milliseconds that move only when a test says so."""

    def __init__(self) -> None:
        self.now = START

    def __call__(self) -> int:
        return self.now


class Repeated:
    """Random bytes that are the same in every run, and different for every seed and call."""

    def __init__(self, seed: str) -> None:
        self._seed = seed
        self._calls = 0

    def __call__(self, size: int) -> bytes:
        self._calls += 1
        return hashlib.sha256(f"{self._seed} {self._calls}".encode()).digest()[:size]


class Start(Protocol):
    def __call__(
        self,
        blobs: Blobs | None = None,
        *,
        seed: str = "",
        history: str = HISTORY,
        incarnation: str = INCARNATION,
        compatible: bool = False,
        key: WorldKey | None = None,
    ) -> Awaitable[Engine]: ...


async def no_pause(seconds: float) -> None:
    """Waiting for a store costs no time in tests, but lets everybody else go on."""
    for _ in range(10):
        await asyncio.sleep(0)


async def kill(engine: Engine) -> None:
    """End an engine as the death of its process does: at once, whatever it is doing."""
    closing = asyncio.create_task(engine.close())
    await asyncio.sleep(0)
    closing.cancel()
    with contextlib.suppress(asyncio.CancelledError):
        await closing


@pytest.fixture
def clock() -> Clock:
    return Clock()


@pytest.fixture
async def start(clock: Clock) -> AsyncIterator[Start]:
    """Opens engines on a store (a new one in memory unless given) and ends them after the test."""
    engines: list[Engine] = []

    async def open_engine(
        blobs: Blobs | None = None,
        *,
        seed: str = "",
        history: str = HISTORY,
        incarnation: str = INCARNATION,
        compatible: bool = False,
        key: WorldKey | None = None,
    ) -> Engine:
        engine = await Engine.open(
            blobs or MemoryBlobs(),
            Identity(history, incarnation),
            now=clock,
            random=Repeated(seed or f"engine {len(engines)}"),
            compatible=compatible,
            pause=no_pause,
            key=key,
        )
        engines.append(engine)
        return engine

    yield open_engine
    for engine in engines:
        await kill(engine)


@pytest.fixture
def pause() -> Callable[[float], Awaitable[None]]:
    return no_pause


@pytest.fixture
def killed() -> Callable[[Engine], Awaitable[None]]:
    return kill


@pytest.fixture
def a_write() -> Callable[..., Write]:
    """A publish of one small document, unless a test says otherwise."""

    def build(op: str = "publish", path: str = "/a.md", body: bytes = b"text\n", **given: Any) -> Write:
        if op in ("archive", "unarchive"):
            body = b""
        return Write(**{"op": op, "path": path, "body": body, "by": "kettle", "credential": "token", **given})

    return build


@pytest.fixture
def state() -> Callable[[Engine], Awaitable[Mapping[str, Any]]]:
    """Everything a reader can tell, sequence included, so that two engines can be compared."""

    async def describe(engine: Engine) -> Mapping[str, Any]:
        view = await engine.view(exact=True)
        found: dict[str, Any] = {"sequence": view.sequence}
        directories = ["/"]
        while directories:
            directory = directories.pop()
            base = "" if directory == "/" else directory
            for child in view.children(directory):
                path = f"{base}/{child.name}"
                if child.head is None:
                    directories.append(path)
                    found[path + "/"] = (child.has_visible, child.has_live)
                    continue
                chain = await engine.check_chain(path)
                found[path] = (
                    child.head.archived,
                    dict(child.head.metadata),
                    [(record.version, record.etag, record.by, record.modified) for record in view.versions(path)],
                    path in view.by_body(child.head.record.body_hash),
                    (await engine.stored(child.head.record)),
                    chain,
                )
        return found

    return describe
