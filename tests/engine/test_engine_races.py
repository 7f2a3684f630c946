"""Several engines on one store: nobody leads, the name of the next slot decides."""

import asyncio
import random
from collections.abc import AsyncIterator, Callable
from typing import Any

import pytest

from demarkus_base.blobs.memory import MemoryBlobs
from demarkus_base.blobs.port import Unavailable as BlobsUnavailable
from demarkus_world.engine.engine import (
    DocumentArchived,
    OutcomeUnknown,
    PathCollision,
    Unavailable,
    VersionConflict,
    Write,
    WriteRefused,
    Written,
)
from demarkus_world.engine.model import Prune

AWrite = Callable[..., Write]


class Held:
    """A store whose slots wait at the door until it is opened."""

    exclusive = False

    def __init__(self, blobs: MemoryBlobs) -> None:
        self._blobs = blobs
        self.knocked = asyncio.Event()
        self.open = asyncio.Event()

    async def get(self, key: str) -> bytes:
        return await self._blobs.get(key)

    async def create(self, key: str, data: bytes) -> None:
        if key.startswith("log/"):
            self.knocked.set()
            await self.open.wait()
        await self._blobs.create(key, data)

    async def delete(self, key: str) -> None:
        await self._blobs.delete(key)

    def list(self, prefix: str, after: str = "") -> AsyncIterator[str]:
        return self._blobs.list(prefix, after)

    async def close(self) -> None:
        pass


class Shaky(Held):
    """A store that fails one call in twenty, before or after it did what was asked."""

    def __init__(self, blobs: MemoryBlobs, chance: random.Random) -> None:
        super().__init__(blobs)
        self._chance = chance

    async def create(self, key: str, data: bytes) -> None:
        luck = self._chance.random()
        if luck < 0.025:
            raise BlobsUnavailable("before", ambiguous=self._chance.random() < 0.5)
        await self._blobs.create(key, data)
        if luck < 0.05:
            raise BlobsUnavailable("after", ambiguous=True)

    async def get(self, key: str) -> bytes:
        if self._chance.random() < 0.05:
            raise BlobsUnavailable("read")
        return await self._blobs.get(key)


async def test_of_many_writers_expecting_one_version_exactly_one_wins(start: Any, a_write: AWrite) -> None:
    """A11.1."""
    blobs = MemoryBlobs()
    engines = [await start(blobs), await start(blobs), await start(blobs)]
    await engines[0].write(a_write(body=b"0"))
    for version in range(1, 20):
        writes = [
            engine.write(a_write(body=b"%d %d %d" % (version, number, writer), expected=version))
            for number, engine in enumerate(engines)
            for writer in range(4)
        ]
        results = await asyncio.gather(*writes, return_exceptions=True)
        assert [r for r in results if isinstance(r, Written)] != []
        assert sum(isinstance(r, Written) for r in results) == 1
        conflicts = [r for r in results if isinstance(r, VersionConflict)]
        assert len(conflicts) == len(writes) - 1
        assert {conflict.current for conflict in conflicts} == {version + 1}
    for engine in engines:
        assert len((await engine.view(exact=True)).versions("/a.md")) == 20
        assert (await engine.check_chain("/a.md")).valid


async def test_unconditional_writers_all_succeed(start: Any, a_write: AWrite) -> None:
    """A7: losing a race is not an error."""
    blobs = MemoryBlobs()
    engines = [await start(blobs), await start(blobs)]
    results = await asyncio.gather(*(engines[n % 2].write(a_write(body=b"%d" % n)) for n in range(60)))
    assert sorted(result.version for result in results) == list(range(1, 61))
    assert sum(engine.statistics.lost for engine in engines) > 0
    assert (await engines[0].check_chain("/a.md")).valid


@pytest.mark.parametrize(
    ("winner", "loser", "outcome"),
    [
        ({"body": b"theirs"}, {"body": b"ours", "expected": 1}, VersionConflict),
        ({"body": b"theirs"}, {"op": "append", "body": b"ours", "expected": 1}, VersionConflict),
        ({"op": "archive"}, {"body": b"ours"}, DocumentArchived),
        ({"op": "archive"}, {"op": "append", "body": b"ours", "expected": 1}, DocumentArchived),
        ({"path": "/b.md/c.md"}, {"path": "/b.md"}, PathCollision),
        ({"path": "/b.md"}, {"path": "/b.md/c.md"}, PathCollision),
        ({"path": "/b.md"}, {"path": "/b.md", "expected": 0}, VersionConflict),
        ({"body": b"ours"}, {"body": b"ours"}, "unchanged"),
        ({"body": b"theirs"}, {"body": b"ours"}, "created"),
        ({"path": "/b.md"}, {"body": b"ours", "expected": 1}, "created"),
        ({"op": "archive"}, {"op": "archive"}, "archived"),
    ],
)
async def test_what_was_true_before_losing_is_asked_again(
    start: Any, a_write: AWrite, state: Any, winner: dict[str, Any], loser: dict[str, Any], outcome: Any
) -> None:
    """A11.6: the loser's write is at the door when the winner's goes through."""
    blobs = MemoryBlobs()
    first = await start(blobs)
    await first.write(a_write(body=b"base"))
    held = Held(blobs)
    second = await start(held)
    ours = asyncio.create_task(second.write(a_write(**loser)))
    await asyncio.wait_for(held.knocked.wait(), 10)
    await first.write(a_write(**winner))
    held.open.set()
    if isinstance(outcome, str):
        assert (await ours).outcome == outcome
    else:
        with pytest.raises(outcome):
            await ours
    assert second.statistics.lost == 1
    assert await state(first) == await state(second)


async def test_nothing_is_decided_on_ground_that_has_moved(start: Any, a_write: AWrite, state: Any) -> None:
    """A reader has met another's prune while writes in line still build on what it took away."""
    blobs = MemoryBlobs()
    first = await start(blobs)
    for body in (b"one", b"two", b"three"):
        await first.write(a_write(body=body))
    held = Held(blobs)
    second = await start(held)
    four = asyncio.create_task(second.write(a_write(body=b"four")))
    await asyncio.wait_for(held.knocked.wait(), 10)
    await first.write(Prune(path="/a.md", keep=1, by="local:ann"))
    assert (await second.view(exact=True)).versions("/a.md")[0].version == 3
    more = (a_write(body=b"five", metadata={"retention": "1"}), a_write("append", body=b"six", expected=4))
    waiting = [asyncio.create_task(second.write(write)) for write in more]
    for _ in range(20):
        await asyncio.sleep(0)
    held.open.set()
    assert (await four).version == 4
    assert (await waiting[0]).version == 5
    with pytest.raises(VersionConflict):
        await waiting[1]
    assert second.fault is None
    assert await state(first) == await state(second)


async def test_an_exact_view_has_what_others_committed_before(start: Any, a_write: AWrite) -> None:
    """A11.7."""
    blobs = MemoryBlobs()
    writer, reader = await start(blobs), await start(blobs)
    for version in range(1, 30):
        await writer.write(a_write(body=b"%d" % version))
        views = await asyncio.gather(*(reader.view(exact=True) for _ in range(5)))
        assert {view.head("/a.md").record.version for view in views} == {version}


async def test_another_view_lags_by_a_second_at_most(start: Any, a_write: AWrite, clock: Any) -> None:
    """A11.7."""
    blobs = MemoryBlobs()
    writer, reader = await start(blobs), await start(blobs)
    await writer.write(a_write())
    assert (await reader.view(exact=False)).head("/a.md") is None
    clock.now += 999
    assert (await reader.view(exact=False)).head("/a.md") is None
    clock.now += 1
    assert (await reader.view(exact=False)).head("/a.md") is not None
    clock.now -= 3_600_000  # the clock is set back: an answer from the future is none
    await writer.write(a_write(path="/b.md"))
    assert (await reader.view(exact=False)).head("/b.md") is not None


async def test_readers_who_come_together_share_a_probe(start: Any) -> None:
    class Counting(Held):
        gets = 0

        async def get(self, key: str) -> bytes:
            self.gets += 1
            return await self._blobs.get(key)

    blobs = Counting(MemoryBlobs())
    engine = await start(blobs)
    blobs.gets = 0
    await asyncio.gather(*(engine.view(exact=True) for _ in range(50)))
    assert blobs.gets == 2, "the first one's, and one for all who came while that was under way"


async def test_a_refusal_does_not_rest_on_an_old_view(start: Any, a_write: AWrite) -> None:
    blobs = MemoryBlobs()
    writer, other = await start(blobs), await start(blobs)
    await writer.write(a_write(body=b"1"))
    assert (await other.view(exact=False)).head("/a.md") is None
    assert (await other.write(a_write(body=b"2", expected=1))).version == 2
    await writer.write(a_write("archive"))
    assert (await other.write(a_write("archive"))).outcome == "archived"
    await writer.write(a_write("unarchive"))
    assert (await other.write(a_write(body=b"3", expected=2))).version == 3


async def test_a_reader_may_meet_our_own_slot_before_we_do(start: Any, a_write: AWrite) -> None:
    """The create has landed and not returned: it is taken in once, as ours."""
    blobs = MemoryBlobs()

    class SlowToTell(Held):
        async def create(self, key: str, data: bytes) -> None:
            await self._blobs.create(key, data)
            if key.startswith("log/"):
                self.knocked.set()
                await self.open.wait()

    slow = SlowToTell(blobs)
    engine = await start(slow)
    write = asyncio.create_task(engine.write(a_write(metadata={"title": "T"})))
    await asyncio.wait_for(slow.knocked.wait(), 10)
    view = await engine.view(exact=True)
    assert view.head("/a.md").metadata["title"] == "T"
    next_write = asyncio.create_task(engine.write(a_write(body=b"2", expected=1)))
    slow.open.set()
    assert (await write).version == 1
    assert (await next_write).version == 2
    assert (view.sequence, engine.statistics.lost) == (2, 0)


async def test_our_own_slot_may_be_taken_in_while_a_reader_has_its_answer_on_the_way(
    start: Any, a_write: AWrite
) -> None:
    class SlowToAnswer(Held):
        async def get(self, key: str) -> bytes:
            data = await self._blobs.get(key)
            if key.startswith("log/"):
                self.knocked.set()
                await self.open.wait()
            return data

        async def create(self, key: str, data: bytes) -> None:
            await self._blobs.create(key, data)
            if key.startswith("log/"):
                landed.set()
                await told.wait()

    landed, told = asyncio.Event(), asyncio.Event()
    slow = SlowToAnswer(MemoryBlobs())
    engine = await start(slow)
    write = asyncio.create_task(engine.write(a_write()))
    await asyncio.wait_for(landed.wait(), 10)
    reading = asyncio.create_task(engine.view(exact=True))
    await asyncio.wait_for(slow.knocked.wait(), 10)
    told.set()
    assert (await write).version == 1
    slow.open.set()
    assert ((await reading).sequence, engine.statistics.lost) == (1, 0)


@pytest.mark.parametrize("seed", range(12))
async def test_random_writers_on_a_shaky_store_agree(start: Any, a_write: AWrite, state: Any, seed: int) -> None:
    """Every acknowledged write is in the history once, in a place its answer names; all see the same; so does a
    newcomer (A11.2, 3, 8)."""
    blobs = MemoryBlobs()
    chance = random.Random(seed)
    engines = [await start(Shaky(blobs, chance), seed=f"{seed} {n}") for n in range(3)]
    paths = ["/a.md", "/b.md", "/d/a.md", "/d/b.md", "/d", "/a.md/x.md"]
    acknowledged: dict[tuple[str, int], bytes] = {}
    unknown: set[bytes] = set()

    async def work(number: int) -> None:
        engine = engines[number % len(engines)]
        for step in range(30):
            path = chance.choice(paths)
            op = chance.choice(["publish"] * 5 + ["append"] * 3 + ["archive"] + ["unarchive"] * 3)
            body = b"<%d %d>" % (number, step)
            head = (await engine.view(exact=False)).head(path)
            expected = head.record.version if head and (op == "append" or chance.random() < 0.5) else None
            if op == "append" and expected is None:
                continue
            try:
                written = await engine.write(
                    a_write(op, path=path, body=body, expected=expected if op in ("publish", "append") else None)
                )
            except OutcomeUnknown:
                unknown.add(body)
                continue
            except (WriteRefused, Unavailable):
                continue
            if written.outcome == "created":
                assert (path, written.version) not in acknowledged, "one version, two writers"
                acknowledged[path, written.version] = body

    await asyncio.gather(*(work(number) for number in range(9)))
    assert len(acknowledged) > 20
    calm = await start(blobs)
    expected_state = await state(calm)
    for engine in engines:
        assert await state(engine) == expected_state
    view = await calm.view(exact=True)
    made = {
        (record.path, record.version): await calm.stored(record) for path in paths for record in view.versions(path)
    }
    for place, body in acknowledged.items():
        assert made[place].endswith(body)
    for place, data in made.items():
        assert place in acknowledged or data[data.rindex(b"<") :] in unknown, "a version nobody was told of"
