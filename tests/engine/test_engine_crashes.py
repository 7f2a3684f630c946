"""The crash matrix: every operation, with every one of its blob calls failing in every way (A11.2 to 4).

After the failure the store is opened anew. What is there is the state before the operation or the one after it,
nothing else; what was acknowledged is there; what was refused as not done is not.
"""

import asyncio
import contextlib
from collections.abc import AsyncIterator, Callable
from enum import StrEnum
from typing import Any

import pytest

from demarkus_base.blobs.memory import MemoryBlobs
from demarkus_base.blobs.port import Exists, Permanent, Stopped, StoreFull
from demarkus_base.blobs.port import Unavailable as BlobsUnavailable
from demarkus_world.engine.engine import (
    Engine,
    EngineError,
    OutcomeUnknown,
    VersionConflict,
    Write,
    WriteRefused,
)

AWrite = Callable[..., Write]


class Failure(StrEnum):
    """What happens at the chosen call."""

    ERROR = "an error, nothing done"
    OPEN_NOT_DONE = "an answer that leaves it open, nothing done"
    OPEN_DONE = "an answer that leaves it open, done"
    OPEN_LATE = "an answer that leaves it open, done a moment later"
    FULL = "no space"
    REFUSED = "no permission"
    STOPPED_NOT_DONE = "a failed fsync of the file: the driver stops"
    STOPPED_DONE = "a failed fsync of the name: the driver stops"
    DEATH_BEFORE = "the process dies before the call"
    DEATH_AFTER = "the process dies after the call"


class Failing:
    """A store whose call number `at` fails (0: none); counts what changes something, and reads too."""

    exclusive = False

    def __init__(self, blobs: MemoryBlobs, failure: Failure, at: int) -> None:
        self._blobs = blobs
        self._failure = failure
        self._at = at
        self._late: tuple[str, bytes] | None = None
        self.calls = 0
        self.dead = asyncio.Event()
        self._stopped = False

    async def get(self, key: str) -> bytes:
        await self._enter()
        if self._now():
            await self._fail(key, None)
        return await self._blobs.get(key)

    async def create(self, key: str, data: bytes) -> None:
        await self._enter()
        if self._stopped:
            raise Stopped("must be opened anew")
        if self._now():
            await self._fail(key, data)
        await self._blobs.create(key, data)

    async def delete(self, key: str) -> None:
        raise NotImplementedError

    def list(self, prefix: str, after: str = "") -> AsyncIterator[str]:
        return self._blobs.list(prefix, after)

    async def close(self) -> None:
        pass

    async def settle(self) -> None:
        """Let what was on its way arrive."""
        if self._late is not None:
            late, self._late = self._late, None
            with contextlib.suppress(Exists):
                await self._blobs.create(*late)

    async def _enter(self) -> None:
        if self.dead.is_set():
            await asyncio.Event().wait()
        self.calls += 1
        if self.calls == self._at + 1:
            await self.settle()

    def _now(self) -> bool:
        return self.calls == self._at

    async def _fail(self, key: str, data: bytes | None) -> None:
        failure = self._failure
        if data is not None and failure in (Failure.OPEN_DONE, Failure.STOPPED_DONE, Failure.DEATH_AFTER):
            await self._blobs.create(key, data)
        if failure in (Failure.DEATH_BEFORE, Failure.DEATH_AFTER):
            self.dead.set()
            await asyncio.Event().wait()
        if data is None or failure is Failure.ERROR:
            raise BlobsUnavailable("failed")
        if failure is Failure.OPEN_LATE:
            self._late = key, data
        if failure in (Failure.STOPPED_NOT_DONE, Failure.STOPPED_DONE):
            self._stopped = True
            raise Stopped("fsync failed", ambiguous=failure is Failure.STOPPED_DONE)
        if failure is Failure.FULL:
            raise StoreFull("full")
        if failure is Failure.REFUSED:
            raise Permanent("no permission")
        raise BlobsUnavailable("left open", ambiguous=True)


def copy(blobs: MemoryBlobs) -> MemoryBlobs:
    twin = MemoryBlobs()
    twin._objects, twin._keys = dict(blobs._objects), list(blobs._keys)
    return twin


# On /a.md with versions 1 to 3 and /old.md, which is archived.
OPERATIONS: dict[str, dict[str, Any]] = {
    "a new document": {"path": "/new/b.md", "expected": 0},
    "a new version": {"body": b"four", "expected": 3},
    "an unconditional version": {"body": b"four"},
    "a version with retention": {"body": b"four", "metadata": {"retention": "2"}},
    "an append": {"op": "append", "body": b"four", "expected": 3},
    "an archive": {"op": "archive"},
    "an unarchive": {"op": "unarchive", "path": "/old.md"},
    "an unchanged publish": {"body": b"three"},
    "a repeated archive": {"op": "archive", "path": "/old.md"},
    "a conflict": {"body": b"x", "expected": 1},
}


async def a_store(start: Any, a_write: AWrite) -> MemoryBlobs:
    blobs = MemoryBlobs()
    engine = await start(blobs)
    for body in (b"one", b"two", b"three"):
        await engine.write(a_write(body=body))
    await engine.write(a_write(path="/old.md"))
    await engine.write(a_write("archive", path="/old.md"))
    return blobs


async def until_dead(engine: Engine, write: Write, failing: Failing, timeout: float) -> str:
    """Perform a write, or as much of it as the process lives to see: done, refused, not done, unknown or dead."""
    writing = asyncio.create_task(engine.write(write, timeout=timeout))
    dying = asyncio.create_task(failing.dead.wait())
    await asyncio.wait({writing, dying}, return_when=asyncio.FIRST_COMPLETED)
    dying.cancel()
    if not writing.done():
        writing.cancel()
        await asyncio.wait({writing})
        return "dead"
    error = writing.exception()
    if error is None:
        return "done"
    if isinstance(error, OutcomeUnknown):
        return "unknown"
    assert isinstance(error, EngineError), error
    return "refused" if isinstance(error, WriteRefused) else "not done"


@pytest.mark.parametrize("failure", Failure)
@pytest.mark.parametrize("operation", OPERATIONS)
async def test_an_interrupted_operation_happened_or_did_not(
    start: Any, a_write: AWrite, state: Any, killed: Any, operation: str, failure: Failure
) -> None:
    write = a_write(**OPERATIONS[operation])
    origin = await a_store(start, a_write)
    before = await state(await start(copy(origin)))
    whole = copy(origin)
    with contextlib.suppress(VersionConflict):
        await (await start(whole)).write(write)
    after = await state(await start(whole))

    seen: set[str] = set()
    at = 1
    while True:
        blobs = copy(origin)
        failing = Failing(blobs, failure, 10**9)
        engine = await start(failing)
        failing._at = failing.calls + at
        outcome = await until_dead(engine, write, failing, timeout=10)
        if failing.calls < failing._at:
            break
        seen.add(outcome)
        await killed(engine)
        await failing.settle()
        found = await state(await start(blobs))
        assert found in (before, after), f"call {at}: {outcome}, and the state is neither"
        if outcome in ("done", "refused"):
            assert found == after, f"call {at}: {outcome}, and it is not there"
        if outcome == "not done":
            assert found == before, f"call {at}: not done, and it is there"
        at += 1
    assert at > 1, "the operation makes calls"
    if failure in (Failure.ERROR, Failure.OPEN_NOT_DONE, Failure.OPEN_DONE, Failure.OPEN_LATE):
        assert seen <= {"done", "refused"}, "one such failure is survived"


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
    failing._at = failing.calls + 2
    with pytest.raises(OutcomeUnknown):
        await engine.write(a_write(body=b"2"))
    assert engine.fault is not None
    with pytest.raises(EngineError, match="fsync failed"):
        await engine.write(a_write(body=b"3"))
    assert (await engine.view(exact=False)).head("/a.md") is not None
