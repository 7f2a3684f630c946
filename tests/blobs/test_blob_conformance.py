"""What every blob driver must do, over each of them."""

import asyncio
import contextlib
import time
from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from demarkus_base.blobs.directory import DirectoryBlobs
from demarkus_base.blobs.gcs import Anonymous, GcsBlobs
from demarkus_base.blobs.hedged import HedgedBlobs
from demarkus_base.blobs.memory import MemoryBlobs
from demarkus_base.blobs.port import OBJECT_LIMIT, Blobs, Exists, NotFound
from dev.gcs.server import Service, serving


@contextlib.asynccontextmanager
async def memory(_: Path) -> AsyncIterator[Blobs]:
    yield MemoryBlobs()


@contextlib.asynccontextmanager
async def directory(tmp_path: Path) -> AsyncIterator[Blobs]:
    store = await DirectoryBlobs.open(tmp_path / "store")
    yield store
    await store.close()


@contextlib.asynccontextmanager
async def bucket(_: Path) -> AsyncIterator[Blobs]:
    service = Service()
    service.state.create_bucket({"name": "worlds", "location": "EU"})
    async with serving(service) as address:
        store = GcsBlobs.open("gs://worlds/team/handbook", authorization=Anonymous(), service=address)
        yield store
        await store.close()


@contextlib.asynccontextmanager
async def hedged(_: Path) -> AsyncIterator[Blobs]:
    yield HedgedBlobs(MemoryBlobs(), clock=time.monotonic, count=lambda _: None)


@pytest.fixture(params=[directory, memory, bucket, hedged], ids=lambda driver: driver.__name__)
async def blobs(request: pytest.FixtureRequest, tmp_path: Path) -> AsyncIterator[Blobs]:
    async with request.param(tmp_path) as store:
        yield store


async def keys(blobs: Blobs, prefix: str = "", after: str = "") -> list[str]:
    return [key async for key in blobs.list(prefix, after)]


@pytest.mark.parametrize("data", [b"", b"one", bytes(range(256)) * 5000, b"x" * OBJECT_LIMIT])
async def test_what_was_created_is_read_back(blobs: Blobs, data: bytes) -> None:
    await blobs.create("docs/a.md/v1", data)
    assert await blobs.get("docs/a.md/v1") == data


async def test_a_taken_key_keeps_its_first_bytes(blobs: Blobs) -> None:
    await blobs.create("log/1", b"first")
    for data in (b"second", b"first"):
        with pytest.raises(Exists) as refused:
            await blobs.create("log/1", data)
        assert not refused.value.ambiguous
    assert await blobs.get("log/1") == b"first"


async def test_one_of_many_creators_wins(blobs: Blobs) -> None:
    async def create(data: bytes) -> bool:
        try:
            await blobs.create("log/1", data)
        except Exists:
            return False
        return True

    offers = [f"writer {n}".encode() for n in range(40)]
    won = await asyncio.gather(*(create(data) for data in offers))
    assert won.count(True) == 1
    assert await blobs.get("log/1") == offers[won.index(True)]


@pytest.mark.parametrize("key", ["nothing", "docs/nothing", "docs", "docs/a.md", "docs/a.md/v1/below"])
async def test_a_missing_object_is_not_found(blobs: Blobs, key: str) -> None:
    await blobs.create("docs/a.md/v1", b"x")
    with pytest.raises(NotFound):
        await blobs.get(key)
    with pytest.raises(NotFound):
        await blobs.delete(key)


async def test_a_deleted_key_is_free_again(blobs: Blobs) -> None:
    await blobs.create("a/b", b"1")
    await blobs.delete("a/b")
    with pytest.raises(NotFound):
        await blobs.get("a/b")
    assert await keys(blobs) == []
    await blobs.create("a/b", b"2")
    assert await blobs.get("a/b") == b"2"


async def test_listing_is_in_byte_order_across_directories(blobs: Blobs) -> None:
    made = ["a", "a-b", "a.b/x", "a0/y", "b/z/1", "b/z/2", "b/z.1", "é/1", "z", "\U0001f600/1", "￰/1"]
    for key in made:
        await blobs.create(key, b"")
    expected = sorted(made, key=str.encode)
    assert await keys(blobs) == expected
    for after in [*expected, "a.", "b/z/", "b/z0", "zz", "\U0001f601"]:
        assert await keys(blobs, after=after) == [key for key in expected if key.encode() > after.encode()]
    for prefix in ["a", "a.", "a.b/", "b/", "b/z", "b/z/", "b/z/2", "q", "q/r", "é"]:
        assert await keys(blobs, prefix) == [key for key in expected if key.startswith(prefix)]
    assert await keys(blobs, "b/", "b/z.1") == ["b/z/1", "b/z/2"]


async def test_listing_passes_a_page(blobs: Blobs) -> None:
    made = [f"log/{n:04}" for n in range(1203)]
    for start in range(0, len(made), 50):
        await asyncio.gather(*(blobs.create(key, b"") for key in made[start : start + 50]))
    assert await keys(blobs, "log/") == made


@pytest.mark.parametrize("name", ["tab\there", "percent%2F", "back\\slash", "ünï", "x" * 255, ".hidden", "sp ace"])
async def test_unusual_names_are_kept(blobs: Blobs, name: str) -> None:
    await blobs.create(f"docs/{name}/v1", b"x")
    assert await keys(blobs, "docs/") == [f"docs/{name}/v1"]


@pytest.mark.parametrize(
    "key", ["", "/a", "a/", "a//b", "a/../b", "..", "a/.", "x" * 256, "a\0b", "a\nb", "/".join(["x" * 100] * 11)]
)
async def test_a_key_no_store_can_hold_is_refused(blobs: Blobs, key: str) -> None:
    with pytest.raises(ValueError, match="key"):
        await blobs.create(key, b"")


async def test_too_large_an_object_is_refused(blobs: Blobs) -> None:
    with pytest.raises(ValueError, match="at most"):
        await blobs.create("a", b"x" * (OBJECT_LIMIT + 1))
    assert await keys(blobs) == []
