"""What was altered, dropped or put in by others is an integrity error that names it; nothing is made anew (A11.5)."""

import hashlib
import json
from collections.abc import Callable
from typing import Any

import pytest

from demarkus_base.blobs.memory import MemoryBlobs
from demarkus_world.engine import canonical
from demarkus_world.engine.engine import EngineError, StoreDamaged, StoreForeign, Write
from demarkus_world.engine.slots import slot_hash

AWrite = Callable[..., Write]


def slot(first: int) -> str:
    return f"log/{first:016x}.json"


async def a_store(start: Any, a_write: AWrite) -> MemoryBlobs:
    """Slots 1 to 4: three versions of /a.md and one of /b.md."""
    blobs = MemoryBlobs()
    engine = await start(blobs)
    for body in (b"one", b"two", b"three"):
        await engine.write(a_write(body=body))
    await engine.write(a_write(path="/b.md", body=b"other"))
    await engine.close()
    return blobs


def put(blobs: MemoryBlobs, key: str, data: bytes) -> None:
    assert key in blobs._objects
    blobs._objects[key] = data


def edit(blobs: MemoryBlobs, first: int, change: Callable[[dict[str, Any]], object], *, chained: bool = False) -> None:
    """Change a slot; with `chained` also everything behind it, as somebody would who knows the format."""
    value = json.loads(blobs._objects[slot(first)])
    change(value)
    put(blobs, slot(first), canonical.encode(value))
    while chained and slot(first + 1) in blobs._objects:
        value = json.loads(blobs._objects[slot(first + 1)])
        value["prev"] = slot_hash(blobs._objects[slot(first)])
        put(blobs, slot(first + 1), canonical.encode(value))
        first += 1


def entry(**fields: Any) -> Callable[[dict[str, Any]], object]:
    return lambda value: value["entries"][0].update(fields)


def without(name: str) -> Callable[[dict[str, Any]], object]:
    return lambda value: value["entries"][0].pop(name)


@pytest.mark.parametrize(
    ("first", "change", "chained", "named"),
    [
        (2, lambda value: value.update(writer="0" * 32), False, "prev is"),
        (2, entry(by="mallory"), False, "prev is"),
        (4, lambda value: value.update(prev="0" * 64), False, "prev is '0000"),
        (4, lambda value: value.update(first=5), False, "first is 5, expected 4"),
        (4, lambda value: value.update(history="c" * 32), False, "history is 'cccc"),
        (4, lambda value: value.update(schema=2), False, "schema is 2, this version knows 1"),
        (4, lambda value: value.update(extra=1), False, "fields missing or not expected"),
        (4, lambda value: value.update(entries=[]), False, "0 entries"),
        (4, lambda value: value.update(entries=value["entries"] * 33), False, "33 entries"),
        (2, entry(seq=7), True, "seq is 7"),
        (2, entry(time=1), True, "time is 1 after"),
        (2, entry(time=-5), True, "time is -5"),
        (2, entry(time=True), True, "time is True"),
        (2, entry(version=3), True, "version 3 of /a.md after 1"),
        (2, entry(path="/c.md"), True, "version 2 of /c.md after 0"),
        (4, entry(path="/a.md/b.md"), True, "below another document"),
        (2, entry(stored="zz"), True, "stored is 'zz'"),
        (2, entry(operation="1"), True, "operation is '1'"),
        (2, entry(credential="password"), True, "credential is 'password'"),
        (2, entry(title="x"), True, "title missing or not expected in publish"),
        (2, entry(op="vanish"), True, "op is 'vanish', which this version does not know"),
        (2, entry(by=None), True, "by is None"),
        (2, entry(path="/\ud800.md"), True, "path is"),
        (2, without("blob"), True, "blob missing or not expected in publish"),
    ],
)
async def test_an_altered_slot_is_refused_by_object_and_field(
    start: Any, a_write: AWrite, first: int, change: Callable[[dict[str, Any]], object], chained: bool, named: str
) -> None:
    blobs = await a_store(start, a_write)
    edit(blobs, first, change, chained=chained)
    with pytest.raises(StoreDamaged, match=r"^log/[0-9a-f]{16}\.json: ") as damaged:
        await start(blobs)
    assert named in str(damaged.value)


@pytest.mark.parametrize("data", [b"", b"{}", b"not json", b'{"schema": 1}'])
async def test_a_slot_that_is_none_is_refused(start: Any, a_write: AWrite, data: bytes) -> None:
    blobs = await a_store(start, a_write)
    put(blobs, slot(3), data)
    with pytest.raises(StoreDamaged, match=slot(3)):
        await start(blobs)


async def test_a_slot_missing_in_the_middle_is_named(start: Any, a_write: AWrite) -> None:
    blobs = await a_store(start, a_write)
    await blobs.delete(slot(2))
    with pytest.raises(StoreDamaged, match=f"{slot(2)}: missing, though {slot(3)} is there"):
        await start(blobs)


async def test_a_stranger_in_the_log_is_named(start: Any, a_write: AWrite) -> None:
    blobs = await a_store(start, a_write)
    await blobs.create("log/notes.txt", b"hi")
    with pytest.raises(StoreDamaged, match=r"log/notes\.txt: not the name of a slot"):
        await start(blobs)


async def blob_of(engine: Any, path: str, version: int) -> str:
    record = (await engine.view(exact=True)).version(path, version)
    return str(record.blob)


@pytest.mark.parametrize("damage", ["body edited", "header edited", "emptied", "missing", "of another version"])
@pytest.mark.parametrize("version", [1, 2, 3])
async def test_a_damaged_version_fails_alone(
    start: Any, a_write: AWrite, damage: str, version: int, caplog: pytest.LogCaptureFixture
) -> None:
    """A1, A4, C18: also the body of the newest one; the other documents go on, and so does the list."""
    blobs = await a_store(start, a_write)
    engine = await start(blobs)
    blob = await blob_of(engine, "/a.md", version)
    data = await blobs.get(blob)
    await blobs.delete(blob)
    if damage != "missing":
        other = await blobs.get(await blob_of(engine, "/a.md", version % 3 + 1))
        changed = {
            "body edited": data[:-1] + b"X",
            "header edited": data.replace(b"version: ", b"version: 0"),
            "emptied": b"",
            "of another version": other,
        }[damage]
        await blobs.create(blob, changed)

    report = await engine.check_chain("/a.md")
    assert (report.valid, report.state) == (False, "broken"), "seen by a running engine, past its cache"
    assert blob in str(report.fault)

    again = await start(blobs)
    view = await again.view(exact=True)
    assert len(view.versions("/a.md")) == 3
    assert not (await again.check_chain("/a.md")).valid
    with pytest.raises(StoreDamaged, match=blob):
        await again.stored(view.version("/a.md", version))
    assert (await again.stored(view.version("/b.md", 1))).endswith(b"other")
    assert (await again.check_chain("/b.md")).valid
    keys = [key async for key in blobs.list("docs/")]
    assert (await again.write(a_write(path="/b.md", body=b"more"))).version == 2
    assert (await again.write(a_write(body=b"three"))).outcome == ("created" if version == 3 else "unchanged")
    assert blob in keys or damage == "missing", "nothing is made anew"


async def test_a_version_linked_to_another_past_is_broken(start: Any, a_write: AWrite) -> None:
    """Whoever rewrites blob and entry alike still has the link to the version before against them."""
    blobs = await a_store(start, a_write)
    engine = await start(blobs)
    blob = await blob_of(engine, "/a.md", 2)
    forged = (await blobs.get(blob)).replace(b"two", b"TWO")
    put(blobs, blob, forged)
    edit(
        blobs,
        2,
        entry(stored=hashlib.sha256(forged).hexdigest(), body=hashlib.sha256(b"TWO").hexdigest()),
        chained=True,
    )
    report = await (await start(blobs)).check_chain("/a.md")
    assert not report.valid
    assert "/a.md version 3" in str(report.fault)
    assert "it links to" in str(report.fault)


async def test_a_header_that_no_world_writes_is_broken(start: Any, a_write: AWrite) -> None:
    """Mark protocol, hash chain: the header is read strictly, even where every hash fits."""
    blobs = await a_store(start, a_write)
    blob = await blob_of(await start(blobs), "/a.md", 3)
    forged = (await blobs.get(blob)).replace(b"type: ", b"kind: ")
    put(blobs, blob, forged)
    edit(blobs, 3, entry(stored=hashlib.sha256(forged).hexdigest()), chained=True)
    report = await (await start(blobs)).check_chain("/a.md")
    assert not report.valid
    assert "bare key" in str(report.fault)


async def test_a_damaged_slot_of_another_writer_stops_this_one(start: Any, a_write: AWrite) -> None:
    blobs = await a_store(start, a_write)
    engine = await start(blobs)
    await blobs.create(slot(5), b"{}")
    with pytest.raises(StoreDamaged, match=slot(5)):
        await engine.view(exact=True)
    with pytest.raises(EngineError, match=slot(5)):
        await engine.write(a_write(body=b"four"))
    assert slot(5) in str(engine.fault)
    assert (await engine.view(exact=False)).head("/b.md") is not None


async def test_half_a_legal_slot_of_another_writer_is_never_built_on(start: Any, a_write: AWrite) -> None:
    blobs = await a_store(start, a_write)
    engine = await start(blobs)
    last = json.loads(await blobs.get(slot(4)))
    good = {**last["entries"][0], "seq": 5, "path": "/c.md"}
    bad = {**good, "seq": 6, "version": 9}
    forged = {**last, "first": 5, "entries": [good, bad], "prev": slot_hash(await blobs.get(slot(4)))}
    await blobs.create(slot(5), canonical.encode(forged))
    for _ in range(2):
        with pytest.raises(StoreDamaged, match=r"entry 6: version 9 of /c\.md after 1"):
            await engine.view(exact=True)
    with pytest.raises(EngineError, match="entry 6"):
        await engine.write(a_write(body=b"four"))


async def test_the_marker_comes_first_and_holds_the_identity(start: Any) -> None:
    blobs = MemoryBlobs()
    engine = await start(blobs)
    assert [key async for key in blobs.list("")] == ["world.json"]
    assert (engine.identity.history, engine.identity.incarnation) == ("a" * 32, "b" * 32)


async def test_a_store_that_exists_keeps_its_incarnation(start: Any, a_write: AWrite) -> None:
    blobs = await a_store(start, a_write)
    engine = await start(blobs, incarnation="d" * 32)
    assert engine.identity.incarnation == "b" * 32


async def test_another_worlds_store_is_refused_and_not_touched(start: Any, a_write: AWrite) -> None:
    """A11.10."""
    blobs = await a_store(start, a_write)
    before = dict(blobs._objects)
    with pytest.raises(StoreForeign, match=f"belongs to history {'a' * 32}, this world is {'c' * 32}"):
        await start(blobs, history="c" * 32)
    assert blobs._objects == before


@pytest.mark.parametrize("key", ["docs/a.md/v1-x.md", "log/0000000000000001.json", "holiday.jpg"])
async def test_objects_without_a_marker_are_refused_and_not_touched(start: Any, key: str) -> None:
    blobs = MemoryBlobs()
    await blobs.create(key, b"x")
    with pytest.raises(StoreForeign, match=r"no world\.json"):
        await start(blobs)
    assert [found async for found in blobs.list("")] == [key]


@pytest.mark.parametrize(
    ("data", "named"),
    [
        (b"", "not a JSON object"),
        (b'{"history":"x","incarnation":"y","schema":1}', "history is not 32 lower hex digits"),
        (b'{"history":"' + b"a" * 32 + b'","incarnation":"y","schema":1}', "incarnation is not 32 lower hex digits"),
        (b'{"history":"' + b"a" * 32 + b'","incarnation":"' + b"b" * 32 + b'","schema":0}', "schema is 0"),
        (b'{"history":"' + b"a" * 32 + b'","schema":1}', "fields missing"),
    ],
)
async def test_a_broken_marker_is_named_by_field(start: Any, data: bytes, named: str) -> None:
    blobs = MemoryBlobs()
    await blobs.create("world.json", data)
    with pytest.raises(StoreDamaged, match=rf"world\.json: {named}"):
        await start(blobs)
