"""The bucket driver's own promises: single-shot calls, checksums, and what each failure becomes."""

from __future__ import annotations

import dataclasses
from collections.abc import AsyncIterator

import pytest

from demarkus_base.blobs.gcs import Anonymous, GcsBlobs
from demarkus_base.blobs.port import BlobError, Integrity, NotFound, Permanent, Throttled, Unavailable
from dev.gcs.faults import Fault
from dev.gcs.server import Service, serving
from dev.gcs.state import Preconditions

BUCKET = "worlds"
_ANY = Preconditions()


@pytest.fixture
async def service() -> AsyncIterator[tuple[Service, str]]:
    """A stand-in with one bucket, and its address."""
    made = Service()
    made.state.create_bucket({"name": BUCKET, "location": "EU"})
    async with serving(made) as address:
        yield made, address


@pytest.fixture
async def blobs(service: tuple[Service, str]) -> AsyncIterator[GcsBlobs]:
    """A store below a prefix of that bucket."""
    store = GcsBlobs.open(f"gs://{BUCKET}/team/handbook", authorization=Anonymous(), service=service[1], timeout=5)
    yield store
    await store.close()


@pytest.mark.parametrize(
    ("fault", "error", "ambiguous", "landed"),
    [
        (Fault(kind="refuse", status=403), Permanent, False, False),
        (Fault(kind="refuse", status=429), Throttled, True, False),
        (Fault(kind="refuse", status=503), Unavailable, True, False),
        (Fault(kind="lose", status=503), Unavailable, True, True),
        (Fault(kind="lose", status=408), Unavailable, True, True),
        (Fault(kind="cut"), Unavailable, True, True),
        (Fault(kind="torn"), Unavailable, True, True),
    ],
    ids=lambda value: value.kind if isinstance(value, Fault) else None,
)
async def test_a_create_without_a_definite_answer_is_ambiguous(
    service: tuple[Service, str], blobs: GcsBlobs, fault: Fault, error: type[BlobError], ambiguous: bool, landed: bool
) -> None:
    service[0].faults.replace([dataclasses.replace(fault, calls=("insert",), times=1)])
    with pytest.raises(error) as failed:
        await blobs.create("log/1", b"slot")
    assert failed.value.ambiguous is ambiguous
    assert ("team/handbook/log/1" in service[0].state.buckets[BUCKET].objects) is landed


async def test_a_call_is_one_request(service: tuple[Service, str], blobs: GcsBlobs) -> None:
    service[0].faults.replace([Fault(kind="refuse", status=503)])
    for call in (blobs.create("a", b"x"), blobs.get("a"), blobs.delete("a")):
        with pytest.raises(Unavailable):
            await call
    assert [call for call, _ in service[0].calls] == ["insert", "get", "delete"]


async def test_a_create_that_lands_late_is_found_later(service: tuple[Service, str], blobs: GcsBlobs) -> None:
    service[0].faults.replace([Fault(kind="late", calls=("insert",), times=1, seconds=0)])
    with pytest.raises(Unavailable) as failed:
        await blobs.create("log/1", b"slot")
    assert failed.value.ambiguous
    assert await blobs.get("log/1") == b"slot"


async def test_a_torn_answer_is_no_object(service: tuple[Service, str], blobs: GcsBlobs) -> None:
    await blobs.create("a", b"x" * 1000)
    service[0].faults.replace([Fault(kind="torn", calls=("get",), times=1)])
    with pytest.raises(Unavailable):
        await blobs.get("a")
    assert await blobs.get("a") == b"x" * 1000


async def test_altered_bytes_are_refused(service: tuple[Service, str], blobs: GcsBlobs) -> None:
    await blobs.create("a", b"true")
    objects = service[0].state.buckets[BUCKET].objects
    name = "team/handbook/a"
    objects[name] = dataclasses.replace(objects[name], data=b"fake")
    with pytest.raises(Integrity):
        await blobs.get("a")


@pytest.mark.parametrize("key", ["docs/a\tb.md/v1", "docs/50%25 off?.md/v1", "docs/für + & #1.md/v1", "docs/a b/c:d@e"])
async def test_names_arrive_as_they_are(service: tuple[Service, str], blobs: GcsBlobs, key: str) -> None:
    await blobs.create(key, b"x")
    assert f"team/handbook/{key}" in service[0].state.buckets[BUCKET].objects
    assert await blobs.get(key) == b"x"
    assert [found async for found in blobs.list("docs/")] == [key]


async def test_what_lies_outside_the_prefix_is_not_seen(service: tuple[Service, str], blobs: GcsBlobs) -> None:
    state = service[0].state
    for name in ("log/1", "team/handbook2/log/1", "team/handbook/log/2"):
        state.insert(BUCKET, name, b"x", claimed_crc32c=None, when=_ANY)
    assert [key async for key in blobs.list("")] == ["log/2"]
    with pytest.raises(NotFound):
        await blobs.get("log/1")


async def test_a_missing_bucket_is_no_empty_store(service: tuple[Service, str]) -> None:
    store = GcsBlobs.open("gs://nobody", authorization=Anonymous(), service=service[1], timeout=5)
    try:
        with pytest.raises(Permanent):
            [key async for key in store.list("")]
        with pytest.raises(Permanent) as failed:
            await store.create("world.json", b"{}")
        assert not failed.value.ambiguous
    finally:
        await store.close()


async def test_a_listing_goes_on_over_pages(service: tuple[Service, str], blobs: GcsBlobs) -> None:
    names = [f"log/{number:016x}.json" for number in range(2300)]
    for name in names:
        service[0].state.insert(BUCKET, f"team/handbook/{name}", b"x", claimed_crc32c=None, when=_ANY)
    assert [key async for key in blobs.list("log/")] == names
    assert [key async for key in blobs.list("log/", after=names[999])] == names[1000:]


async def test_an_unreachable_bucket_is_unavailable() -> None:
    store = GcsBlobs.open("gs://worlds", authorization=Anonymous(), service="http://127.0.0.1:9", timeout=5)
    try:
        with pytest.raises(Unavailable) as failed:
            await store.create("a", b"x")
        assert failed.value.ambiguous
        with pytest.raises(Unavailable):
            await store.get("a")
    finally:
        await store.close()


@pytest.mark.parametrize("url", ["s3://bucket", "gs://", "bucket", "gs:///prefix"])
async def test_only_buckets_are_addresses(url: str) -> None:
    with pytest.raises(ValueError, match="gs://bucket"):
        GcsBlobs.open(url, authorization=Anonymous())
