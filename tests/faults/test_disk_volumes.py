"""Worlds on volumes that run out, turn read-only or lose their permissions: what is said, what still works, what is
there when the volume is well again. Nothing that was acknowledged may be missing."""

import asyncio
import shutil
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner

from demarkus_world.cli import main

COMMAND = str(Path(sys.executable).with_name("demarkus-world"))
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
    await run("mount", "-o", "remount,nr_inodes=400", str(world.folder / "data"))
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


async def test_a_view_that_finds_no_space_is_kept_in_memory(on_a_volume: Callable[..., Any]) -> None:
    world = on_a_volume("size=48m")
    for number in range(3):
        await told(world, "PUBLISH", "/a.md", b"%d" % number)
    world.kill()
    # Neither a view nor a reserve is left, nor space for one.
    for folder in ("view", "reserve"):
        shutil.rmtree(world.folder / "data" / folder)
    filler = stuffed(world)
    world.start()
    assert world.health()["ready"]
    assert world.health()["store"] == {"full": True}
    await everything(world, "/a.md", range(1, 4))
    for verb, metadata in (("PUBLISH", {}), ("APPEND", {"expected_version": "3"})):
        assert await told(world, verb, "/a.md", b"4", **metadata) == FULL
    assert await told(world, "ARCHIVE", "/a.md") == FULL  # nothing is left for it, and that is said
    filler.unlink()
    await accepted(world, "/b.md")
    assert (await told(world, "ARCHIVE", "/a.md"))[0] == "ok"


async def test_a_disk_that_turns_read_only_is_read_until_it_is_mended(on_a_volume: Callable[..., Any]) -> None:
    """A file system that met an error refuses all writing from then on, as ext4 does."""
    world = on_a_volume(disk=64 * 1024 * 1024)
    volume = str(world.folder / "data")
    await told(world, "PUBLISH", "/a.md", b"1")
    await run("mount", "-o", "remount,abort", volume)
    for verb, body in (("PUBLISH", b"2"), ("ARCHIVE", b"")):
        assert await told(world, verb, "/a.md", body) == AWAY
    assert (await world.request("FETCH", "/a.md")).body == b"1"
    assert world.health()["ready"]
    world.stop()
    # A world that can't write does not start, and says what is in the way.
    ended = await run(COMMAND, "serve", "--config", str(world.folder / "world.yaml"), check=False)
    assert (ended.returncode, "Read-only file system" in ended.stderr) == (1, True)
    await run("umount", volume)
    await run("mount", "-o", "loop", str(world.folder / "data.image"), volume)
    world.start()
    assert (await world.request("FETCH", "/a.md")).body == b"1"
    assert (await told(world, "PUBLISH", "/a.md", b"2"))[0] == "created"
    await everything(world, "/a.md", range(1, 3))


async def run(*command: str, check: bool = True) -> subprocess.CompletedProcess[str]:
    return await asyncio.to_thread(
        subprocess.run, command, check=check, capture_output=True, text=True, stdin=subprocess.DEVNULL, timeout=60
    )


@pytest.mark.parametrize("folder", ["docs", "log", "tmp"])
async def test_permission_that_is_lost_and_given_back(on_a_volume: Callable[..., Any], folder: str) -> None:
    """A folder in which even root may not make a file stands for one that belongs to another user."""
    world = on_a_volume(disk=64 * 1024 * 1024)
    await told(world, "PUBLISH", "/a.md", b"1")
    barred = str(world.store / folder)
    await run("chattr", "+i", barred)
    try:
        assert await told(world, "PUBLISH", "/b/b.md", b"2") == AWAY
        if folder != "docs":
            assert await told(world, "ARCHIVE", "/a.md") == AWAY
        assert (await world.request("FETCH", "/a.md")).body == b"1"
        assert (await told(world, "FETCH", "/b/b.md"))[0] == "not-found"
        assert world.health()["ready"]
    finally:
        await run("chattr", "-i", barred)
    assert (await told(world, "PUBLISH", "/b/b.md", b"2"))[0] == "created"
    world.kill()
    world.start()
    assert (await world.request("FETCH", "/b/b.md")).body == b"2"
    await everything(world, "/a.md", range(1, 2))
