"""Quotas: only what grows is refused, with every commit path, and again after a lost race."""

import asyncio
from collections.abc import Callable
from typing import Any

import pytest

from demarkus_base.blobs.memory import MemoryBlobs
from demarkus_world.engine.engine import Adopt, DocumentArchived, QuotaExceeded, Rules, VersionConflict, Write
from demarkus_world.engine.rules import Quota
from mark_protocol.versions import encode_version

Start = Callable[..., Any]


def documents(limit: int) -> Rules:
    return Rules(quota=Quota(max_documents=limit))


def size(limit: int) -> Rules:
    return Rules(quota=Quota(max_bytes=limit))


async def used(process: Any) -> int:
    return (await process.engine.view(exact=True)).stored_bytes


async def test_documents_are_counted_by_path_archived_ones_too(start: Start) -> None:
    process = await start(rules=documents(2))
    await process.publish("/a.md")
    await process.publish("/b.md")
    await process.engine.write(Write(op="archive", path="/a.md", by="kettle", credential="token"))
    with pytest.raises(QuotaExceeded, match=r"^quota exceeded: maxDocuments$"):
        await process.publish("/c.md")
    # What does not grow goes on.
    assert (await process.publish("/b.md", b"2")).version == 2
    assert (
        await process.engine.write(Write(op="unarchive", path="/a.md", by="kettle", credential="token"))
    ).version == 1
    assert (await process.publish("/a.md", b"2")).version == 2


async def test_other_refusals_come_first(start: Start) -> None:
    process = await start(rules=documents(1))
    await process.publish("/a.md")
    with pytest.raises(VersionConflict):
        await process.publish("/c.md", expected=4)
    assert (await process.publish("/a.md")).outcome == "unchanged"
    await process.engine.write(Write(op="archive", path="/a.md", by="kettle", credential="token"))
    with pytest.raises(DocumentArchived):
        await process.publish("/a.md", b"2")


async def test_bytes_are_those_of_all_retained_versions(start: Start) -> None:
    process = await start(rules=size(1000))
    await process.publish(body=b"x" * 300)
    await process.publish(body=b"y" * 300)
    with pytest.raises(QuotaExceeded, match=r"^quota exceeded: maxBytes$"):
        await process.publish(body=b"z" * 400)
    before = await used(process)
    # A version that takes away more than it brings is no growth.
    assert (await process.publish(body=b"z" * 250, metadata={"retention": "1"})).pruned == (1, 2)
    assert await used(process) < before
    assert (await process.publish(body=b"v" * 300)).version == 4


async def test_a_prune_makes_room_and_is_itself_never_refused(start: Start) -> None:
    blobs = MemoryBlobs()
    unlimited = await start(blobs)
    for number in range(4):
        await unlimited.publish(body=b"%d" % number * 300)
    await unlimited.kill()
    process = await start(blobs, rules=size(900))
    with pytest.raises(QuotaExceeded):
        await process.publish(body=b"n")
    assert (await process.prune(keep=1)).pruned == (1, 3)
    assert (await process.publish(body=b"n")).version == 5


async def test_an_append_counts_the_whole_version_it_makes(start: Start) -> None:
    process = await start(rules=size(1000))
    await process.publish(body=b"x" * 400)
    with pytest.raises(QuotaExceeded, match="maxBytes"):
        await process.engine.write(
            Write(op="append", path="/a.md", body=b"y" * 100, expected=1, by="kettle", credential="token")
        )


@pytest.mark.parametrize("rules", [documents(3), size(700)])
async def test_writes_in_one_line_count_one_another(start: Start, rules: Rules) -> None:
    process = await start(rules=rules)
    results = await asyncio.gather(
        *(process.publish(f"/{name}.md", b"x" * 150) for name in range(9)), return_exceptions=True
    )
    made = [result for result in results if not isinstance(result, Exception)]
    assert 0 < len(made) < 9
    assert all(isinstance(result, QuotaExceeded) for result in results if isinstance(result, Exception))
    view = await process.engine.view(exact=True)
    assert view.documents == len(made)
    assert view.documents <= 3 or view.stored_bytes <= 700


async def test_a_quota_is_decided_anew_after_a_lost_race(start: Start) -> None:
    """A11.6."""
    blobs = MemoryBlobs()
    processes = [await start(blobs, rules=documents(5)) for _ in range(3)]
    results = await asyncio.gather(
        *(process.publish(f"/{name}-{number}.md") for number, process in enumerate(processes) for name in range(5)),
        return_exceptions=True,
    )
    assert sum(not isinstance(result, Exception) for result in results) == 5
    assert (await processes[0].engine.view(exact=True)).documents == 5


async def test_an_import_is_held_to_it(start: Start) -> None:
    process = await start(rules=documents(1))

    def version(path: str) -> Adopt:
        return Adopt(path=path, number=1, stored=encode_version(1, None, {}, b"text\n"), modified=1, by="local:ann")

    assert (await process.engine.write(version("/a.md"))).version == 1
    assert (await process.engine.write(version("/a.md"))).outcome == "unchanged"
    with pytest.raises(QuotaExceeded):
        await process.engine.write(version("/b.md"))


async def test_sums_survive_a_restart(start: Start) -> None:
    blobs = MemoryBlobs()
    process = await start(blobs)
    for number in range(5):
        await process.publish(body=b"%d" % number * 100)
    await process.publish("/b.md")
    await process.prune(keep=2)
    before = await used(process)
    view = await process.engine.view(exact=True)
    assert before == sum(record.size for path in ("/a.md", "/b.md") for record in view.versions(path))
    await process.kill()
    again = await start(blobs)
    assert await used(again) == before
    assert (await again.engine.view(exact=True)).documents == 2
