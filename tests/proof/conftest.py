"""Stores with a history, the world key, and a verification that never waits."""

import asyncio
import hashlib
from collections.abc import AsyncIterator, Awaitable, Callable
from typing import Any

import pytest
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey

from demarkus_base.blobs.memory import MemoryBlobs
from demarkus_base.blobs.port import Blobs
from demarkus_world.engine.engine import Engine, Identity, Write
from demarkus_world.engine.notes import WorldKey

HISTORY = "a" * 32
INCARNATION = "b" * 32
START = 1_790_000_000_000
KEY = WorldKey(Ed25519PrivateKey.from_private_bytes(bytes(range(32))))


class Repeated:
    """Random bytes that are the same in every run, and different for every seed and call."""

    def __init__(self, seed: str) -> None:
        self._seed = seed
        self._calls = 0

    def __call__(self, size: int) -> bytes:
        self._calls += 1
        return hashlib.sha256(f"{self._seed} {self._calls}".encode()).digest()[:size]


async def no_pause(seconds: float) -> None:
    """Waiting for a store costs no time in tests, but lets everybody else go on."""
    await asyncio.sleep(0)


@pytest.fixture
async def start() -> AsyncIterator[Callable[..., Awaitable[Engine]]]:
    """Opens engines on a store (a new one in memory unless given) and closes them after the test."""
    engines: list[Engine] = []

    async def open_engine(blobs: Blobs | None = None, **given: Any) -> Engine:
        engine = await Engine.open(
            blobs or MemoryBlobs(),
            Identity(HISTORY, INCARNATION),
            now=lambda: START + len(engines),
            random=Repeated(f"engine {len(engines)}"),
            pause=no_pause,
            **{"key": KEY, **given},
        )
        engines.append(engine)
        return engine

    yield open_engine
    for engine in engines:
        await engine.close()


@pytest.fixture
def a_write() -> Callable[..., Write]:
    """A publish of one small document, unless a test says otherwise."""

    def build(op: str = "publish", path: str = "/a.md", body: bytes = b"text\n", **given: Any) -> Write:
        if op in ("archive", "unarchive"):
            body = b""
        return Write(**{"op": op, "path": path, "body": body, "by": "kettle", "credential": "token", **given})

    return build


@pytest.fixture
def wait_until() -> Callable[[str, Callable[[], Any]], Awaitable[Any]]:
    """Polls until something is true; says what it waited for when it never is."""

    async def wait(what: str, look: Callable[[], Any]) -> Any:
        deadline = asyncio.get_running_loop().time() + 20
        while not (found := look()):
            assert asyncio.get_running_loop().time() < deadline, f"waited for {what}"
            await asyncio.sleep(0.01)
        return found

    return wait
