"""The store that has to be there: without it nothing is made and nothing is served, until the owner says so."""

import json
import shutil
import socket
import urllib.error
import urllib.request
from collections.abc import Callable
from typing import Any

import pytest

from demarkus_base.blobs.memory import MemoryBlobs
from demarkus_world.engine.engine import Engine, Expected, Identity, StoreDamaged, StoreForeign, StoreLost, Write

HISTORY, OTHER = "a" * 32, "c" * 32
EXPECTED = {"history": "0a" * 16, "minSize": 2}


async def opened(blobs: MemoryBlobs, *, history: str = HISTORY, expected: Expected | None = None) -> Engine:
    return await Engine.open(
        blobs, Identity(history, "b" * 32), now=lambda: 1, random=lambda size: b"r" * size, expected=expected
    )


async def a_store(entries: int) -> MemoryBlobs:
    blobs = MemoryBlobs()
    engine = await opened(blobs)
    for number in range(entries):
        write = Write(op="publish", path="/a.md", body=b"%d" % number, by="kettle", credential="token")
        await engine.write(write)
    await engine.close()
    return blobs


async def names(blobs: MemoryBlobs) -> list[str]:
    return [key async for key in blobs.list("")]


async def test_an_empty_store_is_lost_and_stays_empty() -> None:
    blobs = MemoryBlobs()
    for size in (0, 7):
        with pytest.raises(StoreLost, match="the store is empty"):
            await opened(blobs, expected=Expected(HISTORY, size))
    assert await names(blobs) == []
    await (await opened(blobs)).close()
    assert await names(blobs) == ["world.json"]


@pytest.mark.parametrize(("size", "lost"), [(0, False), (3, False), (4, True)])
async def test_a_log_that_ends_too_early_is_lost(size: int, lost: bool) -> None:
    blobs = await a_store(3)
    before = await names(blobs)
    if not lost:
        return await (await opened(blobs, expected=Expected(HISTORY, size))).close()
    with pytest.raises(StoreLost, match="the log ends at entry 3, but 4 were known"):
        await opened(blobs, expected=Expected(HISTORY, size))
    assert await names(blobs) == before


async def test_a_foreign_store_is_told_and_not_touched() -> None:
    """A11.10."""
    blobs = await a_store(1)
    before = await names(blobs)
    with pytest.raises(StoreForeign, match=f"belongs to history {HISTORY}, this world is {OTHER}"):
        await opened(blobs, history=OTHER, expected=Expected(OTHER, 0))
    with pytest.raises(StoreForeign, match=f"belongs to history {HISTORY}, expected is {OTHER}"):
        await opened(blobs, expected=Expected(OTHER, 0))
    await blobs.delete("world.json")
    with pytest.raises(StoreForeign, match=r"no world\.json"):
        await opened(blobs, expected=Expected(HISTORY, 0))
    await blobs.create("world.json", b'{"schema":2}')
    with pytest.raises(StoreDamaged, match="schema is 2, this version knows 1"):
        await opened(blobs, expected=Expected(HISTORY, 0))
    assert [key for key in await names(blobs) if key != "world.json"] == [key for key in before if key != "world.json"]


class Waiting:
    """A world process that serves nothing, watched through its probe."""

    def __init__(self, world: Any) -> None:
        with socket.socket() as free:
            free.bind(("127.0.0.1", 0))
            self._health = f"127.0.0.1:{free.getsockname()[1]}"
        self.world = world
        world.write_config(listen={"mark": "127.0.0.1:0", "health": self._health})
        world.start(wait=False)

    def told(self) -> Any:
        assert self.world.process.poll() is None, "the process ended"
        try:
            with urllib.request.urlopen(f"http://{self._health}/readyz?verbose", timeout=5) as answer:
                return json.load(answer)
        except urllib.error.HTTPError as error:
            return json.load(error)
        except OSError:
            return {"reasons": ["the probe does not answer yet"]}

    def says(self, word: str) -> bool:
        return any(reason.startswith(f"{word}: ") for reason in self.told()["reasons"])


def reloaded(world: Any) -> bool:
    return any(line["message"] == "config reloaded" for line in world.lines())


async def test_a_lost_store_is_red_and_nothing_is_served_until_its_owner_accepts(
    start_world: Callable[..., Any], token_file: Callable[..., str], wait_until: Callable[..., Any]
) -> None:
    world = start_world(begin=False, tokens=token_file(("admin", "/**", ("publish",))), expect=EXPECTED, reads="public")
    (world.folder / "data" / "lost+found").mkdir()
    waiting = Waiting(world)
    wait_until("the world to say that its store is lost", lambda: waiting.says("StoreLost"))
    told = waiting.told()
    assert not told["ready"]
    assert "listen" not in told
    assert not list(world.store.glob("*.json"))
    # Something else that changes does not make it serve, taking `expect` out does.
    world.write_config(log={"level": "debug"})
    wait_until("the new configuration", lambda: reloaded(world) and waiting.says("StoreLost"))
    del world.config["expect"]
    world.write_config()
    wait_until("the world to be ready", lambda: waiting.told().get("ready"))
    world.wait()
    assert (await world.request("PUBLISH", "/a.md", b"1", auth="admin")).status == "created"
    # Once it serves, an expectation that holds changes nothing.
    world.write_config(expect={**EXPECTED, "minSize": 1})
    world.stop()
    world.start()
    assert (await world.request("FETCH", "/a.md")).body == b"1"


async def test_a_volume_that_was_set_back_is_lost(
    start_world: Callable[..., Any], token_file: Callable[..., str], wait_until: Callable[..., Any]
) -> None:
    world = start_world(tokens=token_file(("admin", "/**", ("publish",))), reads="public")
    await world.request("PUBLISH", "/a.md", b"1", auth="admin")
    world.stop()
    shutil.copytree(world.store, world.folder / "copy")
    world.start()
    await world.request("PUBLISH", "/a.md", b"2", auth="admin")
    world.stop()
    kept = world.folder / "kept"
    world.store.rename(kept)
    (world.folder / "copy").rename(world.store)
    world.write_config(expect=EXPECTED)
    waiting = Waiting(world)
    wait_until("the world to say that its store is lost", lambda: waiting.says("StoreLost"))
    world.stop()
    # The right volume comes back.
    shutil.rmtree(world.store)
    kept.rename(world.store)
    world.start()
    assert (await world.request("FETCH", "/a.md")).body == b"2"


async def test_another_worlds_store_is_foreign(start_world: Callable[..., Any], wait_until: Callable[..., Any]) -> None:
    world = start_world()
    world.stop()
    before = {path: path.read_bytes() for path in world.store.rglob("*.json")}
    world.write_config(
        identity={"history": "ff" * 16, "incarnation": "1b" * 16}, expect={"history": "ff" * 16, "minSize": 0}
    )
    waiting = Waiting(world)
    wait_until("the world to say that its store is another's", lambda: waiting.says("StoreForeign"))
    assert {path: path.read_bytes() for path in world.store.rglob("*.json")} == before
    assert world.stop() == 0
