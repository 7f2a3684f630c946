"""Cold starts: a view made from a checkpoint, bundles and the tail equals one that followed live (A11.8)."""

import asyncio
import json
import logging
import sqlite3
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Any

import pytest
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey

from demarkus_base.blobs.directory import DirectoryBlobs
from demarkus_base.blobs.memory import MemoryBlobs
from demarkus_base.blobs.port import StoreFull
from demarkus_world.engine import canonical
from demarkus_world.engine.engine import StoreDamaged
from demarkus_world.engine.notes import WorldKey
from tests.view.conftest import a_write, fill, keys_of, put, until


class Counted(MemoryBlobs):
    """Counts what is read."""

    def __init__(self) -> None:
        super().__init__()
        self.read: list[str] = []

    async def get(self, key: str) -> bytes:
        self.read.append(key)
        return await super().get(key)


def manifests(blobs: MemoryBlobs) -> list[str]:
    return [key for key in keys_of(blobs, "checkpoints/") if key.endswith("manifest.json")]


async def a_store(open_world: Any, blobs: MemoryBlobs, *, view: Path | None = None) -> Any:
    """A world of 60 documents with history, one checkpoint behind the newest entries, and bundles."""
    engine = await open_world(blobs, view=view)
    await fill(engine, 60)
    await engine.write(a_write("archive", path="/d0/page-0.md"))
    await until(lambda: manifests(blobs), "a checkpoint")
    await until(lambda: keys_of(blobs, "bundles/"), "a bundle")
    await fill(engine, 5, start=1, versions=2)
    for number in range(4):
        await engine.write(a_write(path="/p.md", body=b"%d" % number, metadata={"retention": "2"}))
    return engine


@pytest.mark.parametrize("in_a_folder", [False, True])
async def test_a11_8_a_cold_start_equals_a_live_view(open_world: Any, tmp_path: Path, in_a_folder: bool) -> None:
    blobs = Counted()
    folder = tmp_path / "one" if in_a_folder else None
    live = await a_store(open_world, blobs, view=folder)
    expected = await live.digest()

    for name, key in (("from the checkpoint", {}), ("from bundles and the log", {"key": None})):
        blobs.read.clear()
        cold = await open_world(blobs, view=tmp_path / name if in_a_folder else None, **key)
        assert await cold.digest() == expected, name
        assert cold.statistics.sequence == live.statistics.sequence
        from_checkpoint = any(read.startswith("checkpoints/") for read in blobs.read)
        assert from_checkpoint == (not key)
        assert any(read.startswith("bundles/") for read in blobs.read) or from_checkpoint
        await cold.write(a_write(path=f"/{name[-3:]}.md"))
        await live.view(exact=True)
        expected = await live.digest()
        assert await cold.digest() == expected


async def test_a_cold_start_reads_heads_only_behind_the_checkpoint(open_world: Any) -> None:
    blobs = Counted()
    engine = await open_world(blobs)
    await fill(engine, 60)
    await until(lambda: manifests(blobs), "a checkpoint")
    await engine.write(a_write(path="/tail.md"))
    blobs.read.clear()
    cold = await open_world(blobs)
    assert len([key for key in blobs.read if key.startswith("docs/")]) < 60 - 40 + 2
    assert (await cold.view(exact=True)).head("/tail.md") is not None


async def test_the_newest_three_checkpoints_are_kept(open_world: Any) -> None:
    blobs = MemoryBlobs()
    engine = await open_world(blobs)
    seen: set[str] = set()
    for round_number in range(5):
        await fill(engine, 44, start=100 * round_number)
        new = await until(lambda old=frozenset(seen): set(manifests(blobs)) - old, f"checkpoint {round_number + 1}")
        seen |= new
    kept = sorted(seen)[-3:]
    await until(lambda: manifests(blobs) == kept, "the oldest to go")
    folders = {key.rsplit("/", 1)[0] for key in keys_of(blobs, "checkpoints/")}
    assert folders == {key.rsplit("/", 1)[0] for key in kept}, "with all their parts"


async def test_forged_checkpoints_do_not_crowd_out_good_ones(open_world: Any) -> None:
    """Far ahead of the log, and not signed by this world: they neither count as the newest nor among the kept."""
    blobs = MemoryBlobs()
    engine = await open_world(blobs)
    for number in range(4):
        await blobs.create(f"checkpoints/{2**40 + number:016x}/manifest.json", b"{}")
    await fill(engine, 50)
    good = await until(lambda: [key for key in manifests(blobs) if "/000000000000" in key], "a checkpoint of its own")
    blobs_read = Counted()
    for key in keys_of(blobs, ""):
        await put(blobs_read, key, blobs._objects[key])
    cold = await open_world(blobs_read)
    assert good[0] in blobs_read.read
    assert await cold.digest() == await engine.digest()


async def test_after_an_hour_few_entries_are_worth_a_checkpoint(open_world: Any, clock: Any) -> None:
    blobs = MemoryBlobs()
    engine = await open_world(blobs)
    await engine.write(a_write())
    await engine.write(a_write(body=b"two"))
    assert not manifests(blobs)
    clock.now += 3600 * 1000
    await engine.write(a_write(body=b"three"))
    await until(lambda: manifests(blobs), "a checkpoint")


def edited_manifest(change: Callable[[dict[str, Any]], object]) -> Callable[[MemoryBlobs], Awaitable[None]]:
    async def edit(blobs: MemoryBlobs) -> None:
        for key in manifests(blobs):
            value = json.loads(blobs._objects[key])
            change(value)
            await put(blobs, key, canonical.encode(value))

    return edit


async def parts_flipped(blobs: MemoryBlobs) -> None:
    for key in keys_of(blobs, "checkpoints/"):
        if "catalog" in key:
            data = bytearray(blobs._objects[key])
            data[len(data) // 2] ^= 1
            await put(blobs, key, bytes(data))


async def parts_gone(blobs: MemoryBlobs) -> None:
    for key in keys_of(blobs, "checkpoints/"):
        if "catalog" in key:
            await put(blobs, key, None)


@pytest.mark.parametrize(
    ("edit", "told"),
    [
        (edited_manifest(lambda value: value.update(sequence=value["sequence"] - 1)), "not signed"),
        (edited_manifest(lambda value: value.update(tip="0" * 64)), "not signed"),
        (edited_manifest(lambda value: value.update(parts=[])), "not signed"),
        (edited_manifest(lambda value: value.pop("signature")), "not signed"),
        (edited_manifest(lambda value: value.clear()), "not signed"),
        (parts_flipped, "not those of the manifest"),
        (parts_gone, "catalog"),
    ],
    ids=["sequence", "tip", "parts", "unsigned", "empty", "a part edited", "parts missing"],
)
async def test_a_checkpoint_that_was_altered_is_passed_over(
    open_world: Any, caplog: pytest.LogCaptureFixture, edit: Callable[[MemoryBlobs], Awaitable[None]], told: str
) -> None:
    blobs = MemoryBlobs()
    live = await a_store(open_world, blobs)
    await edit(blobs)
    with caplog.at_level(logging.WARNING):
        cold = await open_world(blobs)
    assert await cold.digest() == await live.digest()
    assert told in caplog.text


async def test_a_checkpoint_of_another_key_or_log_is_passed_over(
    open_world: Any, caplog: pytest.LogCaptureFixture
) -> None:
    blobs, other = MemoryBlobs(), MemoryBlobs()
    live = await a_store(open_world, blobs)
    forger = await open_world(other, key=WorldKey(Ed25519PrivateKey.from_private_bytes(b"\1" * 32)))
    await fill(forger, 80)
    await until(lambda: manifests(other), "the forger's checkpoint")
    twin = MemoryBlobs()
    await fill(await open_world(twin), 90)
    await until(lambda: manifests(twin), "the twin's checkpoint")
    for foreign in (other, twin):
        for key in keys_of(foreign, "checkpoints/"):
            await put(blobs, key, foreign._objects[key])
    with caplog.at_level(logging.WARNING):
        cold = await open_world(blobs)
    assert await cold.digest() == await live.digest()
    assert "not signed with this world's key" in caplog.text
    assert "not one of this log" in caplog.text


async def test_a_kept_view_reads_only_what_is_new(open_world: Any, tmp_path: Path) -> None:
    blobs = Counted()
    first = await a_store(open_world, blobs, view=tmp_path)
    await first.close()
    other = await open_world(blobs)
    await other.write(a_write(path="/meanwhile.md"))
    expected = await other.digest()
    await other.close()
    blobs.read.clear()
    again = await open_world(blobs, view=tmp_path)
    read = [key for key in blobs.read if key.startswith(("log/", "bundles/", "docs/"))]
    assert len(read) <= 3, "the tip's slot, and the new one with its blob"
    assert await again.digest() == expected


@pytest.mark.parametrize("spoilt", ["another boot", "another incarnation", "no database", "another form", "a cut file"])
async def test_a_view_that_can_not_be_trusted_is_made_anew(
    open_world: Any, tmp_path: Path, spoilt: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    blobs = MemoryBlobs()
    first = await a_store(open_world, blobs, view=tmp_path)
    expected = await first.digest()
    await first.close()
    catalog = tmp_path / "catalog.db"
    if spoilt == "no database":
        catalog.write_bytes(b"not a database" * 1000)
    elif spoilt == "a cut file":
        catalog.write_bytes(catalog.read_bytes()[: catalog.stat().st_size // 2])
    elif spoilt == "another boot":
        monkeypatch.setattr("demarkus_world.engine.opening.boot_id", lambda: "another")
    else:
        rows = sqlite3.connect(catalog)
        rows.execute({"another form": "PRAGMA user_version = 99"}.get(spoilt, "UPDATE origin SET incarnation = 'x'"))
        rows.execute("DELETE FROM document" if spoilt != "another form" else "SELECT 1")
        rows.commit()
        rows.close()
    again = await open_world(blobs, view=tmp_path)
    assert await again.digest() == expected


async def test_a_view_ahead_of_its_log_is_thrown_away(
    open_world: Any, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    """The store was put back to an older state: what was in the log is what counts."""
    blobs = MemoryBlobs()
    engine = await open_world(blobs, view=tmp_path, key=None)
    await engine.write(a_write())
    old = keys_of(blobs, "")
    await engine.write(a_write(body=b"two"))
    await engine.close()
    for key in set(keys_of(blobs, "")) - set(old):
        await put(blobs, key, None)
    again = await open_world(blobs, view=tmp_path, key=None)
    assert again.statistics.sequence == 1
    assert "knows of entries that are not in the log" in caplog.text


async def test_a_folder_that_can_not_be_used_costs_only_memory(
    open_world: Any, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    """In use by another process, or no folder at all."""
    blobs = MemoryBlobs()
    first = await open_world(blobs, view=tmp_path / "view")
    await first.write(a_write())
    (tmp_path / "file").write_text("")
    for folder, told in (("view", "in use by another process"), ("file", "file")):
        again = await open_world(blobs, view=tmp_path / folder)
        assert await again.digest() == await first.digest()
        assert told in caplog.text


async def test_an_edited_bundle_is_not_believed(open_world: Any, caplog: pytest.LogCaptureFixture) -> None:
    blobs = MemoryBlobs()
    live = await a_store(open_world, blobs)
    for key in keys_of(blobs, "bundles/"):
        value = json.loads(blobs._objects[key])
        value["slots"][0]["entries"][0]["by"] = "mallory"
        await put(blobs, key, canonical.encode(value))
    cold = await open_world(blobs, key=None)
    assert await cold.digest() == await live.digest()
    assert "bundles/" in caplog.text


async def test_old_slots_go_from_a_volume_once_they_are_bundled(open_world: Any, tmp_path: Path, clock: Any) -> None:
    store = await DirectoryBlobs.open(tmp_path / "store")
    engine = await open_world(store, view=tmp_path / "view", key=None)
    await fill(engine, 64)

    async def slots_there() -> int:
        return len([key async for key in store.list("log/")])

    before = await slots_there()
    await until(lambda: list((tmp_path / "store").rglob("bundles/*.json")), "a bundle")
    clock.now += 25 * 3600 * 1000
    await engine.write(a_write(path="/later.md"))
    for _ in range(1000):
        if await slots_there() < before:
            break
        await asyncio.sleep(0.01)
    assert await slots_there() < before
    expected = await engine.digest()
    await engine.close()
    await store.close()
    reopened = await DirectoryBlobs.open(tmp_path / "store")
    for view in (tmp_path / "view", tmp_path / "new"):
        again = await open_world(reopened, view=view, key=None)
        assert await again.digest() == expected
        await again.close()
    await reopened.close()


async def test_a_missing_slot_that_no_bundle_has_is_damage(open_world: Any) -> None:
    blobs = MemoryBlobs()
    engine = await open_world(blobs, key=None)
    for number in range(5):
        await engine.write(a_write(body=b"%d" % number))
    await blobs.delete("log/0000000000000003.json")
    with pytest.raises(StoreDamaged, match=r"log/0000000000000003\.json: missing"):
        await open_world(blobs, key=None)


async def test_a_replica_that_looked_away_for_long_lists_before_it_believes_in_the_end(
    open_world: Any, clock: Any
) -> None:
    """Slots may be gone from under their names, once bundled: absence proves nothing after 12 hours."""
    blobs = MemoryBlobs()
    writer = await open_world(blobs, key=None)
    behind = await open_world(blobs, key=None)
    await fill(writer, 40)
    await until(lambda: keys_of(blobs, "bundles/"), "a bundle")
    bundled = json.loads(blobs._objects[keys_of(blobs, "bundles/")[0]])["last"]
    for key in keys_of(blobs, "log/"):
        if int(key[4:20], 16) <= bundled:
            await put(blobs, key, None)
    assert (await behind.view(exact=True)).sequence == 0
    clock.now += 12 * 3600 * 1000
    assert (await behind.view(exact=True)).sequence == (await writer.view(exact=True)).sequence
    assert await behind.digest() == await writer.digest()


class Full(MemoryBlobs):
    """Has no room for parts of checkpoints after the first few."""

    room = 2

    async def create(self, key: str, data: bytes) -> None:
        if key.startswith("checkpoints/"):
            self.room -= 1
            if self.room < 0:
                raise StoreFull("no space")
        await super().create(key, data)


async def test_a_checkpoint_for_which_there_is_no_room_leaves_nothing(
    open_world: Any, caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("demarkus_world.engine.checkpoints.OBJECT_LIMIT", 8192)
    blobs = Full()
    engine = await open_world(blobs)
    await fill(engine, 60)
    await until(lambda: "upkeep of the store failed" in caplog.text, "the failure to be told")
    assert keys_of(blobs, "checkpoints/") == []
    assert (await engine.write(a_write())).version == 1
