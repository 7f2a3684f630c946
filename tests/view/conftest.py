"""Worlds whose upkeep is quick: small bundles and checkpoints, no waiting for others."""

import asyncio
import contextlib
import hashlib
import time
from collections.abc import AsyncIterator, Awaitable, Callable
from pathlib import Path
from typing import Any, Protocol

import pytest
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey

from demarkus_base.blobs.memory import MemoryBlobs
from demarkus_base.blobs.port import Blobs
from demarkus_world.engine import bundles, upkeep
from demarkus_world.engine.engine import Engine, Identity, Write
from demarkus_world.engine.notes import WorldKey

HISTORY = "a" * 32
INCARNATION = "b" * 32
START = 1_790_000_000_000
KEY = WorldKey(Ed25519PrivateKey.from_private_bytes(bytes(32)))


class Clock:
    """Milliseconds that move only when a test says so."""

    def __init__(self) -> None:
        self.now = START

    def __call__(self) -> int:
        return self.now


class Open(Protocol):
    def __call__(
        self, blobs: Blobs, *, view: Path | None = None, key: WorldKey | None = KEY, incarnation: str = INCARNATION
    ) -> Awaitable[Engine]: ...


async def no_pause(seconds: float) -> None:
    await asyncio.sleep(0)


async def until(true: Callable[[], Any], what: str, *, seconds: float = 10.0) -> Any:
    """What `true` comes to once it is true."""
    deadline = time.monotonic() + seconds
    while not (found := true()):
        assert time.monotonic() < deadline, f"waited {seconds} s for {what}"
        await asyncio.sleep(0.01)
    return found


@pytest.fixture
def clock() -> Clock:
    return Clock()


@pytest.fixture
async def open_world(clock: Clock, monkeypatch: pytest.MonkeyPatch) -> AsyncIterator[Open]:
    monkeypatch.setattr(upkeep, "JITTER", 0.0)
    monkeypatch.setattr(upkeep, "CHECKPOINT_ENTRIES", 40)
    monkeypatch.setattr(bundles, "LEAST", 16)
    monkeypatch.setattr(bundles, "MOST", 64)
    engines: list[Engine] = []

    async def open_engine(
        blobs: Blobs, *, view: Path | None = None, key: WorldKey | None = KEY, incarnation: str = INCARNATION
    ) -> Engine:
        seed = f"engine {len(engines)}"
        calls = 0

        def random(size: int) -> bytes:
            nonlocal calls
            calls += 1
            return hashlib.sha256(f"{seed} {calls}".encode()).digest()[:size]

        engine = await Engine.open(
            blobs, Identity(HISTORY, incarnation), now=clock, random=random, pause=no_pause, key=key, view=view
        )
        engines.append(engine)
        return engine

    yield open_engine
    for engine in engines:
        with contextlib.suppress(asyncio.CancelledError):
            await engine.close()


def a_write(op: str = "publish", path: str = "/a.md", body: bytes = b"text\n", **given: Any) -> Write:
    return Write(**{"op": op, "path": path, "body": body, "by": "kettle", "credential": "token", **given})


async def fill(engine: Engine, documents: int, *, start: int = 0, versions: int = 1) -> None:
    """Write so many documents, in a few folders, with tags and titles."""
    for version in range(versions):
        for at in range(start, start + documents, 32):
            await asyncio.gather(
                *(
                    engine.write(
                        a_write(
                            path=f"/d{number % 3}/page-{number}.md",
                            body=f"# Page {number}\n\nText {version} from {start} of {number}.\n".encode(),
                            metadata={"tags": f"kind:{number % 2}", "importance": "0.7"},
                        )
                    )
                    for number in range(at, min(at + 32, start + documents))
                )
            )


async def put(blobs: MemoryBlobs, key: str, data: bytes | None) -> None:
    """Change an object, or (None) take it away, as somebody with access to the store could."""
    if key in blobs._objects:
        await blobs.delete(key)
    if data is not None:
        await blobs.create(key, data)


def keys_of(blobs: MemoryBlobs, prefix: str) -> list[str]:
    return sorted(key for key in blobs._objects if key.startswith(prefix))
