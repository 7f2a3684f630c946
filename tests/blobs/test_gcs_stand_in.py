"""The stand-in for the bucket service is as strict as the service: preconditions everywhere, nothing ignored."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator

import aiohttp
import pytest

from dev.gcs.server import Service, serving
from dev.gcs.state import crc32c

OBJECTS = "/storage/v1/b/worlds/o"
UPLOADS = "/upload/storage/v1/b/worlds/o"


@pytest.fixture
async def http() -> AsyncIterator[aiohttp.ClientSession]:
    """A client of a stand-in with one bucket."""
    async with serving(Service()) as address, aiohttp.ClientSession(address) as session:
        await answer(session, "POST", "/storage/v1/b?project=p", json={"name": "worlds", "location": "EU"})
        yield session


async def answer(session: aiohttp.ClientSession, method: str, url: str, **arguments: object) -> tuple[int, dict]:
    """Status and JSON of a call."""
    async with session.request(method, url, **arguments) as response:
        is_json = response.content_type == "application/json"
        return response.status, await response.json() if is_json else {"text": await response.text()}


async def upload(session: aiohttp.ClientSession, name: str, data: bytes, query: str = "") -> tuple[int, dict]:
    return await answer(session, "POST", f"{UPLOADS}?uploadType=media&name={name}{query}", data=data)


async def test_one_of_many_creators_wins(http: aiohttp.ClientSession) -> None:
    answers = await asyncio.gather(*(upload(http, "a", b"%d" % n, "&ifGenerationMatch=0") for n in range(32)))
    assert sorted(status for status, _ in answers) == [200, *[412] * 31]


async def test_every_call_obeys_the_generation(http: aiohttp.ClientSession) -> None:
    _, first = await upload(http, "a", b"1")
    _, second = await upload(http, "a", b"2", f"&ifGenerationMatch={first['generation']}")
    stale, live = first["generation"], second["generation"]
    assert (await upload(http, "a", b"3", f"&ifGenerationMatch={stale}"))[0] == 412
    assert (await answer(http, "GET", f"{OBJECTS}/a?ifGenerationMatch={stale}"))[0] == 412
    assert (await answer(http, "GET", f"{OBJECTS}/a?ifGenerationNotMatch={live}"))[0] == 412
    assert (await answer(http, "DELETE", f"{OBJECTS}/a?ifGenerationMatch={stale}"))[0] == 412
    assert (await answer(http, "GET", f"{OBJECTS}/a?generation={stale}"))[0] == 404
    assert (await answer(http, "DELETE", f"{OBJECTS}/a?ifGenerationMatch={live}"))[0] == 204


async def test_a_checksum_that_does_not_fit_is_refused(http: aiohttp.ClientSession) -> None:
    for claimed, status in ((crc32c(b"data"), 200), (crc32c(b"other"), 400)):
        body = (
            f'--x\r\nContent-Type: application/json\r\n\r\n{{"name": "a", "crc32c": "{claimed}"}}\r\n'
            "--x\r\nContent-Type: text/plain\r\n\r\ndata\r\n--x--\r\n"
        )
        headers = {"Content-Type": "multipart/related; boundary=x"}
        found = await answer(http, "POST", f"{UPLOADS}?uploadType=multipart", data=body.encode(), headers=headers)
        assert found[0] == status


@pytest.mark.parametrize(
    ("method", "url"),
    [
        ("GET", f"{OBJECTS}?delimiter=/"),
        ("GET", f"{OBJECTS}?versions=true"),
        ("GET", f"{OBJECTS}/a?ifMetagenerationMatch=1"),
        ("POST", f"{UPLOADS}?uploadType=media&name=a&kmsKeyName=k"),
        ("GET", f"{OBJECTS}/a/b"),
    ],
)
async def test_what_it_does_not_know_it_refuses(http: aiohttp.ClientSession, method: str, url: str) -> None:
    assert (await answer(http, method, url))[0] == 400


async def test_a_resumable_upload_is_not_pretended(http: aiohttp.ClientSession) -> None:
    assert (await answer(http, "POST", f"{UPLOADS}?uploadType=resumable&name=a"))[0] == 501


async def test_listing_is_in_the_order_of_bytes(http: aiohttp.ClientSession) -> None:
    names = ["a", "a/b", "a0", "b", "\uffe0", "\U0001f600"]
    for name in reversed(names):
        await upload(http, name, b"x")
    _, page = await answer(http, "GET", f"{OBJECTS}?maxResults=4")
    _, rest = await answer(http, "GET", OBJECTS, params={"pageToken": page["nextPageToken"]})
    assert [item["name"] for item in (*page["items"], *rest["items"])] == names
    assert "nextPageToken" not in rest


async def test_buckets_are_administered(http: aiohttp.ClientSession) -> None:
    bucket = "/storage/v1/b/worlds"
    taken = await answer(http, "POST", "/storage/v1/b?project=p", json={"name": "worlds", "location": "EU"})
    assert taken[0] == 409
    change = {"versioning": {"enabled": True}, "labels": {"demarkus-world": "handbook"}}
    _, changed = await answer(http, "PATCH", f"{bucket}?ifMetagenerationMatch=1", json=change)
    assert changed["versioning"] == {"enabled": True}
    assert (await answer(http, "PATCH", f"{bucket}?ifMetagenerationMatch=1", json=change))[0] == 412
    assert (await answer(http, "PATCH", bucket, json={"website": {}}))[0] == 400
    _, policy = await answer(http, "GET", f"{bucket}/iam")
    new = {**policy, "bindings": [{"role": "roles/storage.objectUser", "members": ["user:a@example.com"]}]}
    assert (await answer(http, "PUT", f"{bucket}/iam", json=new))[0] == 200
    assert (await answer(http, "PUT", f"{bucket}/iam", json=new))[0] == 412
    await upload(http, "a", b"x")
    assert (await answer(http, "DELETE", bucket))[0] == 409
    await answer(http, "DELETE", f"{OBJECTS}/a")
    assert (await answer(http, "DELETE", bucket))[0] == 204
    assert (await answer(http, "GET", bucket))[0] == 404
