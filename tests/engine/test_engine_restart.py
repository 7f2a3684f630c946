"""A cold start gives the state of an engine that lived through it all (A11.8)."""

import asyncio
import contextlib
import random
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from demarkus_base.blobs.directory import DirectoryBlobs
from demarkus_base.blobs.memory import MemoryBlobs
from demarkus_base.blobs.port import StoreLocked
from demarkus_world.engine.engine import Write, WriteRefused, Written

AWrite = Callable[..., Write]


async def random_life(engine: Any, a_write: AWrite, clock: Any, seed: int, *, steps: int) -> None:
    chance = random.Random(seed)
    names = ["a.md", "b.md", ".hidden.md", "d/a.md", "d/b.md", "d/e/a.md", ".x/a.md", "d/.y/b.md", "d"]

    async def one() -> None:
        path = "/" + chance.choice(names)
        op = chance.choice(["publish"] * 4 + ["append", "archive", "unarchive"])
        head = (await engine.view(exact=False)).head(path)
        metadata = {"tags": chance.choice(["", "a, b", "c"])}
        if op == "publish" and chance.random() < 0.2:
            metadata["retention"] = str(chance.randint(1, 3))
        write = a_write(
            op,
            path=path,
            body=chance.choice([b"same", b"%d" % chance.randrange(10**9)]),
            expected=(head.record.version if head else 1) if op == "append" else None,
            metadata=metadata if op == "publish" else {},
        )
        clock.now += chance.randint(-500, 2000)
        with contextlib.suppress(WriteRefused):
            await engine.write(write)

    for _ in range(steps):
        await asyncio.gather(*(one() for _ in range(chance.randint(1, 6))))


@pytest.mark.parametrize("seed", range(8))
async def test_a_cold_start_equals_the_live_state(
    start: Any, a_write: AWrite, state: Any, clock: Any, seed: int
) -> None:
    blobs = MemoryBlobs()
    live = await start(blobs)
    follower = await start(blobs)
    await random_life(live, a_write, clock, seed, steps=60)
    expected = await state(live)
    assert len(expected) > 5
    assert await state(follower) == expected
    assert await state(await start(blobs)) == expected


async def test_a_volume_keeps_a_thousand_publishes_over_a_restart(
    start: Any, a_write: AWrite, state: Any, tmp_path: Path
) -> None:
    blobs = await DirectoryBlobs.open(tmp_path / "world")
    engine = await start(blobs)
    writes = [a_write(path=f"/d{n % 20}/x{n}.md", body=b"text %d\n" % n, expected=0) for n in range(1000)]
    waiting = iter(writes)

    async def writer() -> list[Written]:
        return [await engine.write(write) for write in waiting]

    results = await asyncio.gather(*(writer() for _ in range(64)))
    assert {result for each in results for result in each} == {Written("created", 1, results[0][0].modified)}
    assert engine.statistics.slots < 500, "writes share slots"
    live = await state(engine)
    with pytest.raises(StoreLocked, match="held by another process"):
        await DirectoryBlobs.open(tmp_path / "world")
    await engine.close()
    await blobs.close()
    again = await DirectoryBlobs.open(tmp_path / "world")
    assert await state(await start(again)) == live
    assert list((tmp_path / "world" / "tmp").iterdir()) == []
    await again.close()


async def test_a_fresh_volume_may_hold_what_mkfs_left(start: Any, a_write: AWrite, tmp_path: Path) -> None:
    (tmp_path / "lost+found").mkdir()
    blobs = await DirectoryBlobs.open(tmp_path)
    engine = await start(blobs)
    assert (await engine.write(a_write())).version == 1
    await engine.close()
    await blobs.close()
