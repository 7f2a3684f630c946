"""Worlds on volumes that run out, turn read-only or lose their permissions: what is said, what still works, what is
there when the volume is well again. Nothing that was acknowledged may be missing."""

import asyncio
import subprocess
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner

from demarkus_world.cli import main

ADMIN = ("admin", "/**", ("publish", "prune"))
BIG = 256 * 1024

FULL = ("server-error", "store is full")
AWAY = ("server-error", "store is unavailable; try again later")


@pytest.fixture
def on_a_volume(
    start_world: Callable[..., Any], token_file: Callable[..., str], mounted: Callable[..., None]
) -> Callable[..., Any]:
    """Starts a world whose store is a volume, in memory with mount options, or with `disk` bytes of a real one."""

    def start(options: str = "", *, disk: int = 0, **fields: Any) -> Any:
        world = start_world(begin=False, tokens=token_file(ADMIN), reads="public", retention={"grace": "0s"}, **fields)
        mounted(world.folder / "data", options, disk=disk)
        world.start()
        return world

    return start


async def told(world: Any, verb: str, path: str, body: bytes = b"", **metadata: str) -> tuple[str, str]:
    response = await world.request(verb, path, body, **{"auth": "admin", **metadata})
    return response.status, response.body.decode().splitlines()[-1] if response.status == "server-error" else ""


async def command(world: Any, verb: str, *arguments: str) -> None:
    config = str(world.folder / "world.yaml")
    ended = await asyncio.to_thread(CliRunner().invoke, main, [verb, *arguments, "--config", config])
    assert ended.exit_code == 0, ended.stderr


async def filled(world: Any, *, size: int, path: str = "/big.md", most: int = 1000) -> int:
    """Publishes versions of one document until there is no space; how many were acknowledged."""
    for number in range(most):
        answer = await told(world, "PUBLISH", path, b"%d\n" % number + b"x" * size)
        if answer[0] != "created":
            assert answer == FULL
            return number
    raise AssertionError(f"{most} versions and still space")


def stuffed(world: Any) -> Path:
    """Takes the last free byte of the volume, as another program would."""
    filler = world.folder / "data" / "filler"
    with filler.open("wb", buffering=0) as file:
        try:
            while True:
                file.write(b"x" * 4096)
        except OSError:
            return filler


async def everything(world: Any, path: str, versions: range) -> None:
    """All these versions are there and linked to one another."""
    assert (await world.request("FETCH", f"{path}/v{versions[-1]}", auth="admin")).status == "ok"
    listed = (await world.request("VERSIONS", path, auth="admin")).metadata
    assert listed["chain-valid"] == "true"
    assert int(listed["total"]) == len(versions)


async def test_a_full_disk_takes_no_content_and_can_be_emptied(
    on_a_volume: Callable[..., Any], wait_until: Callable[..., Any]
) -> None:
    world = on_a_volume("size=32m")
    await told(world, "PUBLISH", "/small.md", b"1")
    acknowledged = await filled(world, size=BIG)
    assert acknowledged > 20
    health = world.health()
    assert health["ready"]
    assert health["store"] == {"full": True}
    wait_until("the metric", lambda: "demarkus_world_store_full 1.0" in world.health("/metrics"))
    # Reads go on, and so does what brings no content.
    assert (await told(world, "FETCH", "/big.md"))[0] == "ok"
    assert (await told(world, "ARCHIVE", "/small.md"))[0] == "ok"
    assert await told(world, "APPEND", "/big.md", b"x" * BIG, expected_version=str(acknowledged)) == FULL
    await everything(world, "/big.md", range(1, acknowledged + 1))
    await command(world, "prune", "/big.md", "--keep", "2")
    await command(world, "sweep")
    assert (await told(world, "PUBLISH", "/big.md", b"there is space again"))[0] == "created"
    assert world.health()["store"] == {"full": False}
    world.kill()
    world.start()
    await everything(world, "/big.md", range(acknowledged - 1, acknowledged + 2))
    assert (await told(world, "FETCH", "/small.md"))[0] == "archived"


async def test_without_a_free_byte_the_reserve_lets_archive_prune_and_sweep_go_on(
    on_a_volume: Callable[..., Any],
) -> None:
    world = on_a_volume("size=96m")
    reserve = world.folder / "data" / "reserve"
    assert sum(piece.stat().st_size for piece in reserve.iterdir()) == 16 * 1024 * 1024
    for number in range(4):
        await told(world, "PUBLISH", "/a.md", b"%d" % number)
    filler = stuffed(world)
    assert await told(world, "PUBLISH", "/b.md", b"1") == FULL
    assert (await told(world, "ARCHIVE", "/a.md"))[0] == "ok"
    assert not list(reserve.iterdir())
    # The space that was let go is not for content.
    assert await told(world, "PUBLISH", "/b.md", b"1") == FULL
    assert (await told(world, "FETCH", "/a.md/v4"))[0] == "ok"
    await command(world, "prune", "/a.md", "--keep", "2")
    await command(world, "sweep")
    assert world.health()["store"] == {"full": True}
    assert world.health()["ready"]
    # A restart in this state: everything as before.
    world.stop()
    world.start()
    assert await told(world, "PUBLISH", "/b.md", b"1") == FULL
    assert (await told(world, "PUBLISH", "/a.md"))[0] == "ok"  # unarchived
    await everything(world, "/a.md", range(3, 5))
    filler.unlink()
    await accepted(world, "/b.md")
    assert sum(piece.stat().st_size for piece in reserve.iterdir()) == 16 * 1024 * 1024
    assert world.health()["store"] == {"full": False}


async def accepted(world: Any, path: str) -> None:
    """Waits until content is taken again."""
    async with asyncio.timeout(20):
        while (answer := await told(world, "PUBLISH", path, b"1"))[0] != "created":
            assert answer == FULL
            await asyncio.sleep(0.05)


async def test_a_world_starts_on_a_volume_without_a_free_byte(on_a_volume: Callable[..., Any]) -> None:
    world = on_a_volume("size=48m")
    await told(world, "PUBLISH", "/a.md", b"1")
    await told(world, "PUBLISH", "/a.md", b"2")
    world.kill()
    filler = stuffed(world)
    world.start()
    assert world.health()["ready"]
    assert (await told(world, "FETCH", "/a.md"))[0] == "ok"
    assert await told(world, "PUBLISH", "/b.md", b"1") == FULL
    assert (await told(world, "ARCHIVE", "/a.md"))[0] == "ok"
    await command(world, "prune", "/a.md", "--keep", "1")
    await command(world, "sweep")
    filler.unlink()
    world.stop()
    world.start()
    assert (await told(world, "PUBLISH", "/b.md", b"1"))[0] == "created"
    assert (await told(world, "FETCH", "/a.md"))[0] == "archived"


async def test_a_disk_without_inodes_is_a_full_one(on_a_volume: Callable[..., Any]) -> None:
    world = on_a_volume("size=64m,nr_inodes=300")
    acknowledged = 0
    for number in range(300):
        answer = await told(world, "PUBLISH", f"/{number}/a.md", b"1")
        if answer[0] != "created":
            break
        acknowledged += 1
    assert answer == FULL
    assert acknowledged > 20
    # The last ones go to somebody else.
    taken = without_inodes(world)
    assert (await told(world, "ARCHIVE", "/1/a.md"))[0] == "ok"
    assert await told(world, "PUBLISH", "/0/a.md", b"2") == FULL
    free(taken)
    world.kill()
    world.start()
    for number in range(acknowledged):
        assert (await told(world, "FETCH", f"/{number}/a.md"))[0] == ("archived" if number == 1 else "ok")
    # What the documents need leaves none for more of them; the volume grows.
    assert await told(world, "PUBLISH", "/new.md", b"1") == FULL
    await asyncio.to_thread(
        subprocess.run, ["mount", "-o", "remount,nr_inodes=400", str(world.folder / "data")], check=True
    )
    await accepted(world, "/new.md")


def without_inodes(world: Any) -> list[Path]:
    """Takes the last inode of the volume."""
    taken: list[Path] = []
    while True:
        taken.append(world.folder / "data" / f"taken-{len(taken)}")
        try:
            taken[-1].touch()
        except OSError:
            return taken


def free(taken: list[Path]) -> None:
    for file in taken:
        file.unlink(missing_ok=True)
