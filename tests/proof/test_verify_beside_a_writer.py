"""A verification that runs while the world writes, prunes, sweeps, bundles and unlinks tells of nothing."""

import asyncio
import random
from typing import Any

import pytest

from demarkus_base.blobs.memory import MemoryBlobs
from demarkus_world.engine import bundles, keys
from demarkus_world.engine.model import Prune
from demarkus_world.engine.sweep import Sweeper
from demarkus_world.engine.verify.verify import Expected, verify


async def no_pause(seconds: float) -> None:
    await asyncio.sleep(0)


class Single(MemoryBlobs):
    """A store that one process has for itself, as on a volume."""

    exclusive = True


async def bundle_and_unlink(blobs: MemoryBlobs, history: str) -> None:
    """Copy all slots but the newest into a bundle and delete them at once, a day earlier than worlds do."""
    names = [name async for name in blobs.list(keys.LOG)][:-1]
    if not names:
        return
    bundle, data = bundles.encode(history, [await blobs.get(name) for name in names])
    await blobs.create(bundle.key, data)
    for name in names:
        await blobs.delete(name)


@pytest.mark.parametrize("seed", range(4))
async def test_what_happens_meanwhile_is_no_finding(start: Any, a_write: Any, seed: int) -> None:
    blobs, draw = Single(), random.Random(seed)
    engine = await start(blobs)
    sweeper = Sweeper(blobs, engine, now=lambda: 0, grace=lambda: 0, pause=no_pause)
    for number in range(60):
        await engine.write(a_write(path=f"/{number % 6}.md", body=b"%d" % number))
    notes: list[tuple[str, str]] = [("before", await engine.note())]
    stop = asyncio.Event()

    async def live() -> int:
        done = 0
        while not stop.is_set():
            path = f"/{draw.randrange(6)}.md"
            await engine.write(a_write(path=path, body=draw.randbytes(4).hex().encode()))
            if draw.random() < 0.4:
                await engine.write(Prune(path=path, keep=1, by="local:kettle"))
            if draw.random() < 0.4:
                await sweeper.sweep()
            if draw.random() < 0.2:
                await bundle_and_unlink(blobs, engine.identity.history)
            done += 1
        return done

    living = asyncio.create_task(live())
    read = times = 0
    while read < 300:
        expected = Expected(history=engine.identity.history, key=engine._key.public, witnessed=notes)
        report = await verify(blobs, expected, pause=no_pause)
        assert report.intact, [finding.text for finding in report.findings]
        assert not living.done() or living.result()
        read, times = report.entries, times + 1
        if times % 10 == 0:
            notes.append((f"at {read}", await engine.note()))
    assert times > 10
    stop.set()
    assert await living > 0
