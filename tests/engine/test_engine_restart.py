"""A cold start gives the state of an engine that lived through it all (A11.8)."""

import asyncio
import contextlib
import random
import sys
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


# Publishes to four documents as fast as it can, and says each acknowledged version.
WRITER = """
import asyncio, secrets, sys, time
from pathlib import Path
from demarkus_base.blobs.directory import DirectoryBlobs
from demarkus_world.engine.engine import Engine, Identity, Write

async def main():
    blobs = await DirectoryBlobs.open(Path(sys.argv[1]))
    engine = await Engine.open(
        blobs, Identity("a" * 32, "b" * 32), now=lambda: time.time_ns() // 10**6, random=secrets.token_bytes
    )
    async def work(number):
        path = f"/{number % 4}.md"
        while True:
            body = secrets.token_hex(8)
            written = await engine.write(
                Write(op="publish", path=path, body=body.encode(), by="kettle", credential="token")
            )
            print(path, written.version, body, flush=True)
    await asyncio.gather(*(work(number) for number in range(16)))

asyncio.run(main())
"""


async def test_a_killed_process_loses_nothing_it_acknowledged(start: Any, tmp_path: Path) -> None:
    """A11.4, with a real process and SIGKILL."""
    acknowledged: list[tuple[str, int, bytes]] = []
    for _ in range(3):
        writer = await asyncio.create_subprocess_exec(
            sys.executable, "-c", WRITER, str(tmp_path / "world"), stdout=asyncio.subprocess.PIPE
        )
        assert writer.stdout is not None
        heard = [await writer.stdout.readline() for _ in range(150)]
        writer.kill()
        # What was written to the pipe before the end counts as well; a line cut short does not.
        heard += (await writer.stdout.read()).splitlines(keepends=True)
        await writer.wait()
        for line in heard:
            if line.endswith(b"\n"):
                path, version, body = line.split()
                acknowledged.append((path.decode(), int(version), body))
    blobs = await DirectoryBlobs.open(tmp_path / "world")
    engine = await start(blobs)
    view = await engine.view(exact=True)
    assert len(acknowledged) >= 450
    assert len({(path, version) for path, version, _ in acknowledged}) == len(acknowledged)
    for path, version, body in acknowledged:
        assert (await engine.stored(view.version(path, version))).endswith(body)
    for path in {path for path, _, _ in acknowledged}:
        assert (await engine.check_chain(path)).state == "intact"
    await engine.close()
    await blobs.close()


async def test_a_fresh_volume_may_hold_what_mkfs_left(start: Any, a_write: AWrite, tmp_path: Path) -> None:
    (tmp_path / "lost+found").mkdir()
    blobs = await DirectoryBlobs.open(tmp_path)
    engine = await start(blobs)
    assert (await engine.write(a_write())).version == 1
    await engine.close()
    await blobs.close()
