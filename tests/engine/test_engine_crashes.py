"""Crashes and failures at the moments that matter: a creation, a slow store, callers who leave, a full or stopped one.

The table of every operation against every failure is in `test_crash_matrix.py`.
"""

import asyncio
from collections.abc import Callable
from typing import Any

import pytest

from demarkus_base.blobs.memory import MemoryBlobs
from demarkus_base.blobs.port import StoreFull
from demarkus_world.engine.engine import EngineError, OutcomeUnknown, Write
from tests.engine.failing import Failing, Failure

AWrite = Callable[..., Write]


@pytest.mark.parametrize("failure", Failure)
async def test_an_interrupted_creation_can_be_repeated(
    start: Any, a_write: AWrite, state: Any, failure: Failure
) -> None:
    """world.json comes first; whatever happens at it, the next start has a world of the same identity."""
    for at in (1, 2, 3):
        blobs = MemoryBlobs()
        failing = Failing(blobs, failure, at)
        opening = asyncio.create_task(start(failing, seed="first"))
        dying = asyncio.create_task(failing.dead.wait())
        await asyncio.wait({opening, dying}, return_when=asyncio.FIRST_COMPLETED)
        dying.cancel()
        if not opening.done():
            opening.cancel()
            await asyncio.wait({opening})
        elif opening.exception() is not None:
            assert isinstance(opening.exception(), EngineError)
        await failing.settle()
        engine = await start(blobs)
        assert (await engine.write(a_write())).version == 1


class Gated(Failing):
    """A store that lets calls on one prefix wait, or refuses creates for want of space."""

    def __init__(self, blobs: MemoryBlobs) -> None:
        super().__init__(blobs, Failure.ERROR, 0)
        self.waiting_for = self.full_for = self.reads_wait_for = "nothing"
        self.knocked, self.door = asyncio.Event(), asyncio.Event()
        self.read, self.reading_door = asyncio.Event(), asyncio.Event()

    async def get(self, key: str) -> bytes:
        if key.startswith(self.reads_wait_for):
            self.read.set()
            await self.reading_door.wait()
        return await self._blobs.get(key)

    async def create(self, key: str, data: bytes) -> None:
        if key.startswith(self.full_for):
            raise StoreFull("no space")
        if key.startswith(self.waiting_for):
            self.knocked.set()
            await self.door.wait()
        await self._blobs.create(key, data)


async def test_a_slow_store_lets_go_of_who_waits_too_long(
    start: Any, a_write: AWrite, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Before its slot is offered nothing happened; afterwards it may have. Patience ends when the test says so."""
    blobs = MemoryBlobs()
    gated = Gated(blobs)
    engine = await start(gated)
    patience: list[asyncio.Timeout] = []

    def timeout(delay: float | None) -> asyncio.Timeout:
        patience.append(asyncio.Timeout(None))
        return patience[-1]

    monkeypatch.setattr(asyncio, "timeout", timeout)

    async def write_until_knock(path: str) -> None:
        gated.knocked.clear()
        writing = asyncio.create_task(engine.write(a_write(path=path)))
        await gated.knocked.wait()
        patience[-1].reschedule(asyncio.get_running_loop().time())
        await writing

    gated.waiting_for = "docs/"
    with pytest.raises(EngineError, match="nothing was written"):
        await write_until_knock("/staging.md")
    gated.waiting_for = "log/"
    with pytest.raises(OutcomeUnknown) as unknown:
        await write_until_knock("/offered.md")
    gated.waiting_for = "docs/"
    with pytest.raises(EngineError, match="nothing was written"):
        await write_until_knock("/behind.md")
    gated.waiting_for = "nothing"
    gated.door.set()
    assert (await engine.write(a_write(path="/next.md"))).version == 1
    view = await engine.view(exact=True)
    there = [path for path in ("/staging.md", "/offered.md", "/behind.md", "/next.md") if view.head(path)]
    assert there == ["/offered.md", "/next.md"]
    slot = await blobs.get("log/0000000000000001.json")
    assert unknown.value.operation.encode() in slot, "its operation id finds it"


@pytest.mark.parametrize(("prefix", "lands"), [("docs/", False), ("log/", True)])
async def test_a_caller_who_goes_away_takes_along_only_what_was_not_offered(
    start: Any, a_write: AWrite, prefix: str, lands: bool
) -> None:
    gated = Gated(MemoryBlobs())
    engine = await start(gated)
    gated.waiting_for = prefix
    writing = asyncio.create_task(engine.write(a_write()))
    await gated.knocked.wait()
    writing.cancel()
    await asyncio.wait({writing})
    gated.waiting_for = "nothing"
    gated.door.set()
    await engine.write(a_write(path="/next.md"))
    assert ((await engine.view(exact=True)).head("/a.md") is not None) == lands


async def test_who_gives_up_while_the_line_is_decided_anew_is_not_offered(start: Any, a_write: AWrite) -> None:
    """Another writer came first; reading the base of an append takes its time; who leaves meanwhile wrote nothing."""
    blobs = MemoryBlobs()
    other = await start(blobs)
    await other.write(a_write(path="/b.md"))
    gated = Gated(blobs)
    engine = await start(gated)
    gated.waiting_for = "log/"
    writes = [
        asyncio.create_task(engine.write(write))
        for write in (a_write(path="/x.md"), a_write(path="/a.md"), a_write("append", path="/b.md", expected=1))
    ]
    await gated.knocked.wait()
    for _ in range(50):  # everybody is in line and staged: nothing here waits for more than the loop
        await asyncio.sleep(0)
    await other.write(a_write(path="/c.md"))
    engine._versions._cache.clear()
    gated.reads_wait_for = "docs/b.md/"
    gated.waiting_for = "nothing"
    gated.door.set()
    await gated.read.wait()
    writes[1].cancel()
    await asyncio.wait({writes[1]})
    gated.reading_door.set()
    assert [(await writes[0]).version, (await writes[2]).version] == [1, 2]
    view = await engine.view(exact=True)
    assert view.head("/a.md") is None
    assert view.sequence == 4


@pytest.mark.parametrize("prefix", ["docs/", "log/"])
async def test_a_full_store_refuses_and_goes_on_when_there_is_room(start: Any, a_write: AWrite, prefix: str) -> None:
    gated = Gated(MemoryBlobs())
    engine = await start(gated)
    await engine.write(a_write(body=b"1"))
    gated.full_for = prefix
    results = await asyncio.gather(
        *(engine.write(a_write(body=b"full %d" % n)) for n in range(5)), return_exceptions=True
    )
    assert {type(result).__name__ for result in results} == {"StoreFull"}
    gated.full_for = "nothing"
    assert (await engine.write(a_write(body=b"2"))).version == 2
    assert engine.fault is None
    assert (await engine.check_chain("/a.md")).valid


async def test_a_stopped_driver_stops_the_writes_and_not_the_reads(start: Any, a_write: AWrite) -> None:
    blobs = MemoryBlobs()
    failing = Failing(blobs, Failure.STOPPED_DONE, 10**9)
    engine = await start(failing)
    await engine.write(a_write(body=b"1"))
    failing.fail_in(2)
    with pytest.raises(OutcomeUnknown):
        await engine.write(a_write(body=b"2"))
    assert engine.fault is not None
    with pytest.raises(EngineError, match="fsync failed"):
        await engine.write(a_write(body=b"3"))
    assert (await engine.view(exact=False)).head("/a.md") is not None
