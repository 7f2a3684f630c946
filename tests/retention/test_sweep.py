"""The sweep: what nothing refers to goes, when its time has come, and nothing else ever does."""

import asyncio
import contextlib
import json
from collections.abc import AsyncIterator, Callable
from typing import Any

import pytest

from demarkus_base.blobs.memory import MemoryBlobs
from demarkus_base.blobs.port import Unavailable as BlobsUnavailable
from demarkus_world.engine import canonical, keys
from demarkus_world.engine.engine import EngineError, Rules, Unavailable
from demarkus_world.engine.rules import Hold, Retention
from demarkus_world.engine.sweep import Swept

HOUR = 3_600_000
DAY = 24 * HOUR

Start = Callable[..., Any]


class Door:
    """A store that stops a caller at calls of one kind until the door is opened."""

    exclusive = False

    def __init__(self, blobs: MemoryBlobs, call: str, prefix: str) -> None:
        self._blobs = blobs
        self._stops = (call, prefix)
        self.knocked = asyncio.Event()
        self.open = asyncio.Event()

    async def get(self, key: str) -> bytes:
        return await self._blobs.get(key)

    async def create(self, key: str, data: bytes) -> None:
        await self._pass("create", key)
        await self._blobs.create(key, data)

    async def delete(self, key: str) -> None:
        await self._pass("delete", key)
        await self._blobs.delete(key)

    def list(self, prefix: str, after: str = "") -> AsyncIterator[str]:
        return self._blobs.list(prefix, after)

    async def close(self) -> None: ...

    async def _pass(self, call: str, key: str) -> None:
        if call == self._stops[0] and key.startswith(self._stops[1]):
            self.knocked.set()
            await self.open.wait()


class Broken(Door):
    """A store whose call number `at` that changes something fails, or is where the process dies; before or after."""

    def __init__(self, blobs: MemoryBlobs, at: int, *, after: bool, dies: bool) -> None:
        super().__init__(blobs, "", "")
        self._at, self._after, self._dies = at, after, dies
        self.calls = 0
        self.dead = asyncio.Event()

    async def create(self, key: str, data: bytes) -> None:
        await self._do(lambda: self._blobs.create(key, data))

    async def delete(self, key: str) -> None:
        await self._do(lambda: self._blobs.delete(key))

    async def _do(self, call: Callable[[], Any]) -> None:
        self.calls += 1
        if self.calls != self._at:
            return await call()
        if self._after:
            await call()
        if self._dies:
            self.dead.set()
            await asyncio.Event().wait()
        raise BlobsUnavailable("failed", ambiguous=True)


async def many_versions(process: Any, count: int, path: str = "/a.md") -> None:
    for number in range(count):
        await process.publish(path, b"body %d of %s\n" % (number, path.encode()))


async def test_pruned_bodies_go_after_the_grace_and_not_before(
    start: Start, clock: Any, bodies: Any, entries: Any
) -> None:
    blobs = MemoryBlobs()
    process = await start(blobs)
    await many_versions(process, 5)
    await process.publish("/b.md")
    await process.prune(keep=2)
    assert await process.sweeper.sweep(by="local:ann", credential="local") == Swept(found=3, due=clock.now + DAY)
    entry = (await entries(blobs))[-1]
    assert entry.pop("operation")
    assert entry == {
        "seq": 8,
        "time": clock.now,
        "op": "sweep",
        "path": "/",
        "blobs": 3,
        "due": clock.now + DAY,
        "by": "local:ann",
        "credential": "local",
    }
    clock.now += DAY - 1
    assert await process.sweeper.sweep() == Swept()
    assert len(await bodies(blobs)) == 6
    clock.now += 1
    assert await process.sweeper.sweep() == Swept(deleted=3)
    assert [keys.version_of(key) for key in await bodies(blobs)] == [("/a.md", 4), ("/a.md", 5), ("/b.md", 1)]
    assert [key async for key in blobs.list("sweeps/")] == []
    assert (await process.engine.check_chain("/a.md")).state == "pruned"


async def test_a_quiet_world_gets_no_entries(start: Start, clock: Any, entries: Any) -> None:
    blobs = MemoryBlobs()
    process = await start(blobs)
    await many_versions(process, 3)
    for _ in range(3):
        assert await process.sweeper.sweep() == Swept()
        clock.now += DAY
    assert len(await entries(blobs)) == 3


async def test_what_a_dead_writer_staged_goes(start: Start, clock: Any, bodies: Any) -> None:
    """A11.4: killed between blob and slot, only an orphan is left."""
    blobs = MemoryBlobs()
    door = Door(blobs, "create", "log/")
    dying = await start(door)
    publishing = asyncio.create_task(dying.publish())
    await door.knocked.wait()
    await dying.kill()
    with contextlib.suppress(EngineError):
        await publishing
    assert len(await bodies(blobs)) == 1
    process = await start(blobs)
    await process.publish("/b.md")
    assert (await process.sweeper.sweep()).found == 1
    clock.now += DAY
    assert (await process.sweeper.sweep()).deleted == 1
    assert [keys.version_of(key) for key in await bodies(blobs)] == [("/b.md", 1)]


async def test_a_writer_whose_blob_is_older_than_a_sweep_stages_anew(start: Start, clock: Any, bodies: Any) -> None:
    """The blob is staged, then another process sweeps and deletes it; the version is there all the same."""
    blobs = MemoryBlobs()
    door = Door(blobs, "create", "log/")
    slow, other = await start(door), await start(blobs, grace=0)
    publishing = asyncio.create_task(slow.publish(body=b"late\n"))
    await door.knocked.wait()
    [staged] = await bodies(blobs)
    assert await other.sweeper.sweep() == Swept(found=1, due=clock.now, deleted=1)
    assert await bodies(blobs) == []
    door.open.set()
    assert (await publishing).version == 1
    [again] = await bodies(blobs)
    assert again != staged
    view = await other.engine.view(exact=True)
    assert await other.engine.stored(view.head("/a.md").record) == await blobs.get(again)


async def test_a_blob_staged_while_this_very_process_sweeps_is_not_lost(start: Start, clock: Any, bodies: Any) -> None:
    blobs = MemoryBlobs()
    door = Door(blobs, "create", "log/")
    process = await start(door, grace=0)
    orphan = keys.blob("/o.md", 1, "c" * 64, "0" * 8)
    await blobs.create(orphan, b"orphan")
    # The sweep's slot waits at the door; behind it versions are staged, in the same line and the same store.
    sweeping = asyncio.create_task(process.sweeper.sweep())
    await door.knocked.wait()
    writes = [asyncio.create_task(process.publish(f"/{name}.md")) for name in range(40)]
    for _ in range(200):
        await asyncio.sleep(0)
    assert len(await bodies(blobs)) == 41
    door.open.set()
    assert {(await write).version for write in writes} == {1}
    assert (await sweeping).found == 1
    assert (await process.sweeper.sweep()).found == 40  # staged before the sweep was known: they were staged anew
    view = await process.engine.view(exact=True)
    for name in range(40):
        assert await process.engine.stored(view.head(f"/{name}.md").record)
    assert len(await bodies(blobs)) == 40


async def test_two_sweeps_at_once_are_harmless(start: Start, clock: Any, bodies: Any) -> None:
    blobs = MemoryBlobs()
    one, other = await start(blobs, grace=0), await start(blobs, grace=0)
    await many_versions(one, 40)
    await many_versions(one, 3, "/b.md")
    await one.prune(keep=1)
    await asyncio.gather(*(process.sweeper.sweep() for process in (one, other, one, other)))
    assert [keys.version_of(key) for key in await bodies(blobs)] == [
        ("/a.md", 40),
        ("/b.md", 1),
        ("/b.md", 2),
        ("/b.md", 3),
    ]
    assert [key async for key in blobs.list("sweeps/")] == []
    assert (await other.engine.check_chain("/b.md")).state == "intact"


async def test_another_process_deletes_what_a_dead_one_marked(start: Start, clock: Any, bodies: Any) -> None:
    blobs = MemoryBlobs()
    first = await start(blobs)
    await many_versions(first, 3)
    await first.prune(keep=1)
    assert (await first.sweeper.sweep()).found == 2
    await first.kill()
    clock.now += DAY
    second = await start(blobs)
    assert await second.sweeper.sweep() == Swept(deleted=2)
    assert len(await bodies(blobs)) == 1


@pytest.mark.parametrize("dies", [False, True], ids=["the call fails", "the process dies"])
@pytest.mark.parametrize("after", [False, True], ids=["before", "after"])
async def test_a_sweep_that_ends_anywhere_is_taken_up_by_the_next(
    start: Start, clock: Any, bodies: Any, dies: bool, after: bool
) -> None:
    """Every call that changes something: the entry, the list, each deletion, the end of the list."""
    at = 0
    while True:
        at += 1
        blobs = MemoryBlobs()
        first = await start(blobs)
        await many_versions(first, 4)
        await first.prune(keep=1)
        broken = Broken(blobs, at, after=after, dies=dies)
        process = await start(broken, grace=0)
        sweeping = asyncio.create_task(process.sweeper.sweep())
        dying = asyncio.create_task(broken.dead.wait())
        await asyncio.wait({sweeping, dying}, return_when=asyncio.FIRST_COMPLETED)
        sweeping.cancel()
        dying.cancel()
        with contextlib.suppress(asyncio.CancelledError, EngineError):
            await sweeping
        await process.kill()
        again = await start(blobs, grace=0)
        await again.sweeper.sweep()
        assert [keys.version_of(key) for key in await bodies(blobs)] == [("/a.md", 4)], f"call {at}"
        assert [key async for key in blobs.list("sweeps/")] == [], f"call {at}"
        assert (await again.engine.check_chain("/a.md")).state == "pruned"
        if broken.calls < at:
            break
    assert at > 6


async def test_erased_bodies_go_at_once_with_every_copy(start: Start, clock: Any, bodies: Any, entries: Any) -> None:
    blobs = MemoryBlobs()
    process = await start(blobs)
    await process.publish(body=b"Ann Smith, born 1970\n")
    await process.publish(body=b"nothing personal\n")
    await process.publish("/b.md", b"something else\n")
    # A copy that a lost race left behind, and one of a version that is yet to come: that is not of the past.
    lost = keys.blob("/a.md", 1, "c" * 64, "0" * 8)
    coming = keys.blob("/a.md", 3, "d" * 64, "0" * 8)
    await blobs.create(lost, b"Ann Smith, born 1970\n")
    await blobs.create(coming, b"on its way\n")
    await process.prune(keep=1, erase=True)
    assert await process.sweeper.erase("/a.md", by="local:ann") == Swept(found=2, deleted=2)
    versions = [keys.version_of(key) for key in await bodies(blobs)]
    assert versions == [("/a.md", 2), ("/a.md", 3), ("/b.md", 1)]
    for key in [key async for key in blobs.list("")]:
        assert b"Ann Smith" not in await blobs.get(key)
    pruned, swept = (await entries(blobs))[-2:]
    assert (pruned["op"], pruned["erase"], swept["op"], swept["path"]) == ("prune", True, "sweep", "/a.md")
    assert await process.sweeper.erase("/a.md", by="local:ann") == Swept()


async def test_an_erase_that_was_cut_short_is_finished_by_asking_again(start: Start, clock: Any, bodies: Any) -> None:
    blobs = MemoryBlobs()
    process = await start(blobs)
    await many_versions(process, 3)
    await process.prune(keep=1, erase=True)
    await process.kill()
    again = await start(blobs)
    assert (await again.prune(keep=1, erase=True)).outcome == "unchanged"
    assert (await again.sweeper.erase("/a.md", by="local:ann")).deleted == 2
    assert len(await bodies(blobs)) == 1


async def test_what_is_on_hold_stays_though_it_was_marked_before(start: Start, clock: Any, bodies: Any) -> None:
    blobs = MemoryBlobs()
    process = await start(blobs)
    await many_versions(process, 3)
    await process.prune(keep=1)
    await process.sweeper.sweep()
    await process.kill()
    clock.now += DAY
    held = await start(blobs, rules=Rules(retention=Retention(holds=[Hold(paths=["/a.md"], reason="audit")])))
    assert await held.sweeper.sweep() == Swept()
    assert len(await bodies(blobs)) == 3
    await held.kill()
    free = await start(blobs)
    assert (await free.sweeper.sweep()).found == 2
    clock.now += DAY
    assert (await free.sweeper.sweep()).deleted == 2


async def test_a_reader_in_the_moment_of_the_deletion_is_asked_to_come_again(start: Start, clock: Any) -> None:
    blobs = MemoryBlobs()
    process, reader = await start(blobs, grace=0), await start(blobs)
    await many_versions(process, 2)
    record = (await reader.engine.view(exact=True)).version("/a.md", 1)
    await process.prune(keep=1)
    await process.sweeper.sweep()
    with pytest.raises(Unavailable, match="was pruned in this moment"):
        await reader.engine.stored(record)


@pytest.mark.parametrize(
    "change",
    [
        {"schema": 2},
        {"history": "c" * 32},
        {"sequence": 3},
        {"due": "now"},
        {"blobs": ["world.json"]},
        {"blobs": ["log/0000000000000001.json"]},
        {"blobs": ["docs/../world.json"]},
        {"blobs": [7]},
        {"more": 1},
    ],
)
async def test_a_list_that_no_sweep_wrote_deletes_nothing(start: Start, clock: Any, change: dict[str, Any]) -> None:
    blobs = MemoryBlobs()
    process = await start(blobs)
    await many_versions(process, 2)
    before = [key async for key in blobs.list("")]
    value = {"schema": 1, "history": "a" * 32, "sequence": 2, "due": 0, "blobs": [], **change}
    await blobs.create(keys.sweep(2), canonical.encode(value))
    assert await process.sweeper.sweep() == Swept()
    assert [key async for key in blobs.list("")] == before


async def test_a_list_that_names_what_is_in_use_deletes_nothing(start: Start, clock: Any) -> None:
    blobs = MemoryBlobs()
    process = await start(blobs)
    await many_versions(process, 2)
    docs = [key async for key in blobs.list("docs/")]
    value = {"schema": 1, "history": "a" * 32, "sequence": 2, "due": 0, "blobs": docs}
    await blobs.create(keys.sweep(2), canonical.encode(value))
    assert await process.sweeper.sweep() == Swept()
    assert [key async for key in blobs.list("docs/")] == docs


async def test_a_sweep_of_a_log_that_was_cut_off_is_not_carried_out(start: Start, clock: Any, bodies: Any) -> None:
    """The store was set back to before the sweep: what that found free may be all that is left of newer versions."""
    blobs = MemoryBlobs()
    process = await start(blobs)
    await many_versions(process, 2)
    value = {"schema": 1, "history": "a" * 32, "sequence": 9, "due": 0, "blobs": []}
    lost = keys.blob("/a.md", 3, "c" * 64, "0" * 8)
    value["blobs"] = [lost]
    await blobs.create(lost, b"the third version")
    await blobs.create(keys.sweep(9), canonical.encode(value))
    assert (await process.sweeper.sweep()).deleted == 0
    assert lost in await bodies(blobs)
    assert json.loads(await blobs.get(keys.sweep(9)))["blobs"] == [lost]


async def test_names_that_are_no_blobs_are_left_alone(start: Start, clock: Any, bodies: Any) -> None:
    blobs = MemoryBlobs()
    process = await start(blobs, grace=0)
    strange = ["docs/%zz/readme.txt", f"docs/a.md/v0-{'c' * 16}-{'0' * 8}.md", "docs/a.md/v1.md"]
    for key in strange:
        await blobs.create(key, b"mine")
    assert await process.sweeper.sweep() == Swept()
    assert await bodies(blobs) == strange


async def test_an_unreachable_store_is_an_error_and_nothing_is_lost(start: Start, clock: Any, bodies: Any) -> None:
    class Away(Door):
        def list(self, prefix: str, after: str = "") -> AsyncIterator[str]:
            if self.knocked.is_set():
                raise BlobsUnavailable("away")
            return super().list(prefix, after)

    blobs = MemoryBlobs()
    away = Away(blobs, "", "")
    process = await start(away)
    await many_versions(process, 2)
    away.knocked.set()
    with pytest.raises(Unavailable, match="can't be listed: away"):
        await process.sweeper.sweep()


async def test_a_world_sweeps_by_itself_soon_after_the_start_and_when_something_is_due(
    start: Start, clock: Any, bodies: Any
) -> None:
    blobs = MemoryBlobs()
    process = await start(blobs, grace=5 * HOUR)
    await many_versions(process, 3)
    await process.prune(keep=1)
    waits: list[float] = []
    enough = asyncio.Event()

    async def wait(seconds: float) -> None:
        waits.append(seconds)
        clock.now += int(seconds * 1000)
        if len(waits) == 4:
            enough.set()
            await asyncio.Event().wait()

    process.sweeper._pause = wait
    task = asyncio.create_task(process.sweeper.keep_sweeping())
    await enough.wait()
    task.cancel()
    assert waits == [300, 5 * 3600, 24 * 3600, 24 * 3600]
    assert len(await bodies(blobs)) == 1


async def test_what_does_not_fit_one_list_goes_on_another(
    start: Start, clock: Any, bodies: Any, entries: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("demarkus_world.engine.sweep.LIST_BYTES", 1000)
    blobs = MemoryBlobs()
    process = await start(blobs)
    await many_versions(process, 41, "/ä.md")
    await process.prune("/ä.md", keep=1)
    assert (await process.sweeper.sweep()).found == 40
    lists = [await blobs.get(key) async for key in blobs.list("sweeps/")]
    assert 1 < len(lists) == sum(entry["op"] == "sweep" for entry in await entries(blobs))
    assert max(len(data) for data in lists) < 1500
    clock.now += DAY
    assert (await process.sweeper.sweep()).deleted == 40
    assert len(await bodies(blobs)) == 1
