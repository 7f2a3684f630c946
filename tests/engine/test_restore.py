"""A restore: the same history up to an entry or a time, in an empty store, as another incarnation."""

import asyncio
import hashlib
import json
from collections.abc import Awaitable, Callable
from dataclasses import replace
from typing import Any

import pytest
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey

from demarkus_base.blobs.memory import MemoryBlobs
from demarkus_base.blobs.port import Integrity
from demarkus_base.tlog.proofs import verify_consistency
from demarkus_world.changes import Feed, cursor_at, resumable
from demarkus_world.engine import bundles, canonical, identity, keys, slots
from demarkus_world.engine.engine import (
    Identity,
    StoreDamaged,
    StoreForeign,
    StoreUnfinished,
    Write,
)
from demarkus_world.engine.model import Prune
from demarkus_world.engine.notes import WorldKey, opened
from demarkus_world.engine.refusals import RestoreRefused
from demarkus_world.engine.restore.restore import Restored, Witness, restore
from demarkus_world.engine.restore.survey import Until
from demarkus_world.engine.sweep import Sweeper
from demarkus_world.engine.verify.verify import Expected, Report, verify

HISTORY, FIRST = "a" * 32, "b" * 32
KEY = WorldKey(Ed25519PrivateKey.from_private_bytes(bytes(32)))
STRANGER = WorldKey(Ed25519PrivateKey.from_private_bytes(bytes(range(32))))

AWrite = Callable[..., Write]
Restore = Callable[..., Awaitable[Restored]]


@pytest.fixture
def restored(clock: Any, pause: Any) -> Restore:
    """Restores all of a source into a new store, unless a test says otherwise."""

    async def run(source: MemoryBlobs, target: MemoryBlobs, seed: str = "r", **given: Any) -> Restored:
        calls = iter(range(10**6))

        def random(size: int) -> bytes:
            return hashlib.sha256(f"{seed} {next(calls)}".encode()).digest()[:size]

        until = Until(**{name: given.pop(name) for name in ("sequence", "time") if name in given})
        if isinstance(note := given.pop("witness", None), str):
            given["witness"] = Witness(text=note, key=KEY.public)
        return await restore(source, target, until=until, now=clock, random=random, pause=pause, **given)

    return run


@pytest.fixture
def verified(pause: Any) -> Callable[..., Awaitable[Report]]:
    async def run(blobs: MemoryBlobs, *notes: str) -> Report:
        witnessed = [(f"note {number}", note) for number, note in enumerate(notes)]
        return await verify(blobs, Expected(history=HISTORY, key=KEY.public, witnessed=witnessed), pause=pause)

    return run


async def a_history(start: Any, a_write: AWrite, clock: Any, blobs: MemoryBlobs) -> list[str]:
    """Entries 1 to 6, a second apart, each in a slot of its own; the note behind each, that of none first."""
    engine = await start(blobs, key=KEY)
    taken = [await engine.note()]
    for given in (
        {"body": b"one"},
        {"body": b"two"},
        {"path": "/b.md"},
        {"op": "archive", "path": "/b.md"},
        {"body": b"three"},
        {"path": "/deep/c.md"},
    ):
        clock.now += 1000
        await engine.write(a_write(**given))
        taken.append(await engine.note())
    return taken


async def objects(blobs: MemoryBlobs) -> dict[str, bytes]:
    return {key: await blobs.get(key) async for key in blobs.list("")}


async def test_a_restored_store_has_the_history_and_one_entry_more(
    start: Any, a_write: AWrite, clock: Any, state: Any, restored: Restore, verified: Any
) -> None:
    source, target = MemoryBlobs(), MemoryBlobs()
    notes = await a_history(start, a_write, clock, source)
    before = await objects(source)
    made = await restored(source, target, by="local:ann")
    assert await objects(source) == before, "the source is only read"
    assert (made.size, made.lost, made.identity.history, made.identity.parent) == (6, 0, HISTORY, FIRST)
    assert made.identity.incarnation not in (FIRST, HISTORY)
    copied = await objects(target)
    assert {name: copied[name] for name in before if name != keys.WORLD}.items() <= before.items()

    engine = await start(target, incarnation="0" * 32, key=KEY)
    assert engine.identity == made.identity, "the store says who it is, not the configuration"
    found, was = await state(engine), await state(await start(source))
    assert found == {**was, "sequence": 7}
    [entry] = engine.recent(6) or []
    assert (entry.op, entry.parent, entry.size, entry.root, entry.lost) == ("restore", FIRST, 6, made.root, 0)
    assert (entry.note, entry.by, entry.credential) == (None, "local:ann", "local")

    report = await verified(target, *notes, await engine.note())
    assert report.intact, [finding.text for finding in report.findings]
    assert [entry.parent for entry in report.restores] == [FIRST]
    assert (await engine.write(a_write(body=b"four", expected=3))).version == 4


async def test_notes_of_the_parent_stay_provable_up_to_where_it_was_restored(
    start: Any, a_write: AWrite, clock: Any, restored: Restore
) -> None:
    source, target = MemoryBlobs(), MemoryBlobs()
    notes = await a_history(start, a_write, clock, source)
    await restored(source, target)
    engine = await start(target, key=KEY)
    newest = opened(await engine.note(), HISTORY, KEY.public)
    old = opened(notes[4], HISTORY, KEY.public)
    deadline = asyncio.get_running_loop().time() + 60
    while engine._log.tree.known < newest.size:
        assert asyncio.get_running_loop().time() < deadline, "waited for the nodes of the tree"
        await asyncio.sleep(0.01)
    proof = engine.consistency(old.size, newest.size)
    verify_consistency(first=old.size, first_root=old.root, second=newest.size, second_root=newest.root, proof=proof)
    assert newest.origin != old.origin


async def test_watches_begin_anew_and_are_not_told_of_the_restore(
    start: Any, a_write: AWrite, clock: Any, restored: Restore
) -> None:
    source, target = MemoryBlobs(), MemoryBlobs()
    await a_history(start, a_write, clock, source)
    made = await restored(source, target, sequence=5)
    engine = await start(target)
    await engine.write(a_write(path="/mine.md"))
    feed = Feed(engine, compatible=False)
    pages = [page async for page in feed.pages(0)]
    assert pages[-1].upto == 7
    assert [told.path for page in pages for told in page.told] == [
        "/a.md",
        "/a.md",
        "/b.md",
        "/b.md",
        "/a.md",
        "/mine.md",
    ]
    parent = Identity(HISTORY, FIRST)
    assert not resumable(cursor_at(parent, 5), cursor_at(made.identity, 7))


async def test_until_an_entry_and_until_a_time(
    start: Any, a_write: AWrite, clock: Any, restored: Restore, verified: Any, state: Any
) -> None:
    source = MemoryBlobs()
    began = clock.now
    await a_history(start, a_write, clock, source)
    by_entry, by_time = MemoryBlobs(), MemoryBlobs()
    made = await restored(source, by_entry, sequence=3)
    assert (made.size, made.lost) == (3, 3)
    assert (await restored(source, by_time, time=began + 3999)).size == 3
    for target in (by_entry, by_time):
        engine = await start(target)
        view = await engine.view(exact=True)
        head = view.head("/b.md")
        assert len(view.versions("/a.md")) == 2
        assert head is not None
        assert not head.archived
        assert view.head("/deep/c.md") is None
        report = await verified(target)
        assert report.intact, [finding.text for finding in report.findings]
    assert not [key async for key in by_entry.list("docs/deep/")], "nothing is brought over that is not needed"


async def test_until_inside_a_slot_writes_that_slot_anew(
    start: Any, a_write: AWrite, restored: Restore, verified: Any
) -> None:
    source, target = MemoryBlobs(), MemoryBlobs()
    engine = await start(source)
    await engine.write_all([a_write(path=f"/{number}.md") for number in range(8)])
    assert len([key async for key in source.list(keys.LOG)]) == 1, "a group commit"
    made = await restored(source, target, sequence=5)
    assert made.size == 5
    slot = slots.read(await target.get(keys.slot(1)), key="cut")
    whole = slots.read(await source.get(keys.slot(1)), key="whole")
    assert (slot.last, slot.writer, list(slot.entries)) == (5, whole.writer, list(whole.entries[:5]))
    assert (await verified(target)).intact
    view = await (await start(target)).view(exact=True)
    assert [child.name for child in view.children("/")] == [f"{number}.md" for number in range(5)]


async def test_an_operation_is_restored_as_a_whole(start: Any, a_write: AWrite, restored: Restore) -> None:
    source = MemoryBlobs()
    engine = await start(source, compatible=True)
    for body in (b"one", b"two"):
        await engine.write(a_write(body=body))
    await engine.write(a_write(body=b"three", metadata={"retention": "1"}))
    target = MemoryBlobs()
    with pytest.raises(RestoreRefused, match=r"entries 3 to 4 are one operation.*up to entry 2 or 4"):
        await restored(source, target, sequence=3)
    assert await objects(target) == {}
    assert (await restored(source, target, sequence=4)).size == 4


async def test_what_was_pruned_stays_pruned_and_is_not_brought_over(
    start: Any, a_write: AWrite, restored: Restore, verified: Any, state: Any
) -> None:
    source, target = MemoryBlobs(), MemoryBlobs()
    engine = await start(source)
    for body in (b"one", b"two", b"three"):
        await engine.write(a_write(body=body))
    await engine.write(Prune(path="/a.md", keep=1, by="local:ann"))
    await restored(source, target)
    assert [keys.version_of(key) async for key in target.list("docs/")] == [("/a.md", 3)]
    assert (await state(await start(target)))["/a.md"] == (await state(await start(source)))["/a.md"]
    assert (await verified(target)).intact


async def test_a_time_before_a_prune_needs_the_bytes_that_the_prune_freed(
    start: Any, a_write: AWrite, clock: Any, pause: Any, restored: Restore
) -> None:
    source, kept, gone = MemoryBlobs(), MemoryBlobs(), MemoryBlobs()
    engine = await start(source)
    for body in (b"one", b"two", b"three"):
        await engine.write(a_write(body=body))
    await engine.write(Prune(path="/a.md", keep=1, by="local:ann"))
    assert (await restored(source, kept, sequence=3)).lost == 1
    assert len((await (await start(kept)).view(exact=True)).versions("/a.md")) == 3
    await Sweeper(source, engine, now=clock, grace=lambda: 0, pause=pause).sweep()
    with pytest.raises(RestoreRefused, match=r"version 1 of /a.md is gone: it was pruned.*up to entry 4 or later"):
        await restored(source, gone, sequence=3)
    assert await objects(gone) == {}


async def test_a_witness_counts_what_was_lost(
    start: Any, a_write: AWrite, clock: Any, restored: Restore, verified: Any
) -> None:
    source, target = MemoryBlobs(), MemoryBlobs()
    notes = await a_history(start, a_write, clock, source)
    for first in (5, 6):
        await source.delete(keys.slot(first))
    made = await restored(source, target, witness=notes[6], sequence=3)
    assert (made.size, made.lost) == (3, 3)
    entry = slots.read(await target.get(keys.slot(4)), key="it").entries[0]
    assert (entry.note, entry.lost) == (notes[6], 3)
    assert (await verified(target, *notes)).intact, "what was lost is told of"

    silent = MemoryBlobs()
    assert (await restored(source, silent, seed="other")).lost == 0
    report = await verified(silent, *notes)
    assert [(finding.fault, finding.object, finding.field) for finding in report.findings] == [
        ("rolled-back", "note 5", "size"),
        ("rolled-back", "note 6", "size"),
    ]
    assert "of which 4 were restored; the restore tells of 0 that were lost" in report.findings[0].text


async def test_a_witness_that_knows_another_history_refuses_the_restore(
    start: Any, a_write: AWrite, clock: Any, restored: Restore
) -> None:
    source, other, target = MemoryBlobs(), MemoryBlobs(), MemoryBlobs()
    await a_history(start, a_write, clock, source)
    foreign = await start(other, incarnation="e" * 32, key=KEY)
    await foreign.write(a_write(path="/x.md"))
    same_name = await start(MemoryBlobs(), key=KEY)
    await same_name.write(a_write(path="/x.md"))
    stranger = await start(MemoryBlobs(), key=STRANGER)
    for note, told in (
        (await same_name.note(), "its first 1 entries are not those that the world signed"),
        (await foreign.note(), "the witnessed note is about"),
        (await stranger.note(), "did not sign the witnessed note"),
    ):
        with pytest.raises(RestoreRefused, match=told):
            await restored(source, target, witness=note)
        assert await objects(target) == {}


async def test_restored_again_and_cut_back_before_an_earlier_restore(
    start: Any, a_write: AWrite, clock: Any, restored: Restore, verified: Any
) -> None:
    first, second, third, back = (MemoryBlobs() for _ in range(4))
    notes = await a_history(start, a_write, clock, first)
    one = await restored(first, second, seed="1", sequence=5, witness=notes[6])
    engine = await start(second, key=KEY)
    await engine.write(a_write(body=b"mine"))
    notes.append(await engine.note())
    two = await restored(second, third, seed="2")
    assert (one.lost, two.lost, two.identity.parent) == (1, 0, one.identity.incarnation)
    newest = await (await start(third, key=KEY)).note()
    report = await verified(third, *notes, newest)
    assert report.intact, [finding.text for finding in report.findings]
    assert [entry.seq for entry in report.restores] == [6, 8]

    three = await restored(third, back, seed="3", sequence=4)
    assert (three.size, three.lost) == (4, 4)
    entry = slots.read(await back.get(keys.slot(5)), key="it").entries[0]
    assert entry.ancestors == (one.identity.incarnation, FIRST)
    report = await verified(back, *notes, newest, await (await start(back, key=KEY)).note())
    assert report.intact, [finding.text for finding in report.findings]


async def test_a_long_log_is_brought_over_in_bundles(
    start: Any, a_write: AWrite, restored: Restore, verified: Any, state: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(bundles, "LEAST", 4)
    monkeypatch.setattr(bundles, "MOST", 8)
    source, target = MemoryBlobs(), MemoryBlobs()
    engine = await start(source)
    for number in range(19):
        await engine.write(a_write(path=f"/{number}.md"))
    await restored(source, target, sequence=18)
    assert [key async for key in target.list(keys.BUNDLES)] == [keys.bundle(1, 8), keys.bundle(9, 16)]
    assert [key async for key in target.list(keys.LOG)] == [keys.slot(17), keys.slot(18), keys.slot(19)]
    assert (await verified(target)).intact
    assert (await state(await start(target)))["sequence"] == 19


async def test_an_empty_world_can_be_restored(start: Any, restored: Restore, verified: Any) -> None:
    source, target = MemoryBlobs(), MemoryBlobs()
    await start(source)
    assert (await restored(source, target)).size == 0
    assert (await (await start(target)).view(exact=True)).sequence == 1
    assert (await verified(target)).intact


async def test_the_same_restore_again_changes_nothing(
    start: Any, a_write: AWrite, clock: Any, restored: Restore, verified: Any
) -> None:
    source, target = MemoryBlobs(), MemoryBlobs()
    notes = await a_history(start, a_write, clock, source)
    began = clock.now
    made = await restored(source, target, sequence=4, witness=notes[5])
    engine = await start(target)
    await engine.write(a_write(path="/a/new.md"))
    there = await objects(target)
    for given in ({"sequence": 4}, {"time": began - 2000}, {}):
        again = await restored(source, target, seed="again", witness=notes[5], **given)
        assert again == replace(made, before=True)
    assert await objects(target) == there
    for given, told in (
        ({"sequence": 3, "witness": notes[5]}, "up to entry is 4 there and 3 here"),
        ({"time": began - 1000, "witness": notes[5]}, "up to entry is 4 there and 5 here"),
        ({"sequence": 4}, "witnessed note is"),
        ({"sequence": 4, "witness": notes[4]}, "witnessed note is"),
    ):
        with pytest.raises(RestoreRefused, match=f"another restore was begun in the target: {told}"):
            await restored(source, target, **given)
    assert await objects(target) == there
    assert (await verified(target)).intact


async def test_only_into_an_empty_store(start: Any, a_write: AWrite, clock: Any, restored: Restore) -> None:
    source, other = MemoryBlobs(), MemoryBlobs()
    await a_history(start, a_write, clock, source)
    await restored(source, other)
    served, foreign, strange = MemoryBlobs(), MemoryBlobs(), MemoryBlobs()
    await start(served)
    await start(foreign, history="c" * 32)
    await strange.create("something", b"")
    begun = MemoryBlobs()
    await begun.create(keys.WORLD, identity.encode(Identity(HISTORY, "d" * 32, "e" * 32)))
    for target, told in (
        (served, "there is a world in the target already"),
        (source, "there is a world in the target already"),
        (foreign, "the target is the store of another world"),
        (strange, "the target is not empty: it holds something"),
        (begun, "another restore was begun in the target: from incarnation e"),
    ):
        there = await objects(target)
        with pytest.raises(RestoreRefused, match=told):
            await restored(source, target)
        assert await objects(target) == there
    with pytest.raises(RestoreRefused, match="there is no store to restore from"):
        await restored(MemoryBlobs(), MemoryBlobs())
    with pytest.raises(StoreForeign, match="the source is the store of history"):
        await restored(source, MemoryBlobs(), history="c" * 32)


@pytest.mark.parametrize(("sequence", "told"), [(7, "ends with entry 6, before entry 7"), (0, "nothing had been")])
async def test_until_has_to_be_in_the_log(
    start: Any, a_write: AWrite, clock: Any, restored: Restore, sequence: int, told: str
) -> None:
    source, target = MemoryBlobs(), MemoryBlobs()
    await a_history(start, a_write, clock, source)
    with pytest.raises(RestoreRefused, match=told):
        await restored(source, target, sequence=sequence)
    assert await objects(target) == {}


async def test_a_damaged_source_is_restored_up_to_the_damage(
    start: Any, a_write: AWrite, clock: Any, restored: Restore, verified: Any
) -> None:
    source = MemoryBlobs()
    await a_history(start, a_write, clock, source)
    await source.delete(keys.slot(5))
    for given in ({}, {"sequence": 5}, {"sequence": 6}):
        target = MemoryBlobs()
        with pytest.raises(StoreDamaged, match=f"{keys.slot(5)}: missing"):
            await restored(source, target, **given)
        assert await objects(target) == {}
    [newest] = [key async for key in source.list("docs/a.md/v2-")]
    good = MemoryBlobs()
    await restored(source, good, sequence=4)
    assert (await verified(good)).intact
    await source.delete(newest)
    with pytest.raises(StoreDamaged, match=r"version 2.* is missing"):
        await restored(source, MemoryBlobs(), sequence=4)
    assert (await restored(source, MemoryBlobs(), sequence=1)).size == 1


async def test_slots_before_one_that_cant_be_read_are_good_enough(
    start: Any, a_write: AWrite, clock: Any, restored: Restore, verified: Any
) -> None:
    class Damaged(MemoryBlobs):
        async def get(self, key: str) -> bytes:
            if key == keys.slot(5):
                raise Integrity(f"{key} is not a file")
            return await super().get(key)

    source = MemoryBlobs()
    await a_history(start, a_write, clock, source)
    damaged, target = Damaged(), MemoryBlobs()
    for key, data in (await objects(source)).items():
        await damaged.create(key, data)
    with pytest.raises(StoreDamaged, match="is not a file"):
        await restored(damaged, target)
    await restored(damaged, target, sequence=4)
    assert (await verified(target)).intact


async def test_a_store_whose_restore_broke_off_is_not_opened(
    start: Any, a_write: AWrite, clock: Any, restored: Restore, verified: Any
) -> None:
    source, target = MemoryBlobs(), MemoryBlobs()
    await a_history(start, a_write, clock, source)
    await restored(source, target)
    whole = await objects(target)
    for missing in ((keys.slot(7),), (keys.RESTORE, keys.slot(7)), tuple(set(whole) - {keys.WORLD})):
        half = MemoryBlobs()
        for key, data in whole.items():
            if key not in missing:
                await half.create(key, data)
        there = await objects(half)
        with pytest.raises(StoreUnfinished, match="nothing is served; run the same restore again"):
            await start(half)
        assert await objects(half) == there
        report = await verified(half)
        assert [finding.fault for finding in report.findings] == ["restore-unfinished"]
        with pytest.raises(StoreUnfinished):
            await restored(half, MemoryBlobs())
        again = await restored(source, half, seed="another")
        assert await (await start(half)).digest() == await (await start(half)).digest()
        assert again.identity.incarnation == json.loads(whole[keys.WORLD])["incarnation"]
        assert (await verified(half)).intact


async def test_a_plan_that_was_lost_is_made_from_the_log(
    start: Any, a_write: AWrite, clock: Any, restored: Restore
) -> None:
    source, target = MemoryBlobs(), MemoryBlobs()
    await a_history(start, a_write, clock, source)
    await restored(source, target)
    whole = await objects(target)
    await target.delete(keys.RESTORE)
    with pytest.raises(StoreUnfinished):
        await start(target)
    await restored(source, target, seed="another")
    assert await objects(target) == whole


@pytest.mark.parametrize(
    ("field", "value"),
    [("parent", "f" * 32), ("root", "0" * 64), ("size", 5), ("lost", 1)],
    ids=lambda value: str(value),
)
async def test_an_edited_restore_entry_keeps_the_store_closed(
    start: Any, a_write: AWrite, clock: Any, restored: Restore, field: str, value: object
) -> None:
    source, target = MemoryBlobs(), MemoryBlobs()
    await a_history(start, a_write, clock, source)
    await restored(source, target)
    slot = json.loads(await target.get(keys.slot(7)))
    slot["entries"][0][field] = value
    await target.delete(keys.slot(7))
    await target.create(keys.slot(7), canonical.encode(slot))
    with pytest.raises(StoreDamaged):
        await start(target)


async def test_a_restore_entry_elsewhere_is_no_entry_of_a_world(start: Any, a_write: AWrite, clock: Any) -> None:
    source = MemoryBlobs()
    await a_history(start, a_write, clock, source)
    last = await source.get(keys.slot(6))
    forged = json.loads(last)
    entry = {name: forged["entries"][0][name] for name in ("time", "path", "operation")}
    entry |= {"seq": 7, "op": "restore", "parent": FIRST, "size": 6, "root": "0" * 64, "lost": 0}
    forged |= {"first": 7, "prev": slots.slot_hash(last), "entries": [entry]}
    await source.create(keys.slot(7), canonical.encode(forged))
    with pytest.raises(StoreDamaged, match="entry 7: says that entries of the root"):
        await start(source)
