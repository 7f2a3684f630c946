"""Prune: what goes, what stays, who may forbid it, and what the log says of it afterwards."""

import asyncio
from collections.abc import Callable
from typing import Any

import pytest

from demarkus_base.blobs.memory import MemoryBlobs
from demarkus_world.engine.engine import DocumentMissing, PruneForbidden, Rules, VersionConflict, Write
from demarkus_world.engine.rules import Hold, Retention

HOUR = 3_600_000

Start = Callable[..., Any]


async def five(process: Any, clock: Any, path: str = "/a.md") -> None:
    """Five versions, an hour apart; the newest is as old as the last of these hours."""
    for number in range(1, 6):
        await process.publish(path, b"%d" % number)
        clock.now += HOUR


async def retained(process: Any, path: str = "/a.md") -> list[int]:
    return [record.version for record in (await process.engine.view(exact=True)).versions(path)]


async def test_a_prune_is_an_entry_with_range_hash_and_author(start: Start, clock: Any, entries: Any) -> None:
    blobs = MemoryBlobs()
    process = await start(blobs)
    await five(process, clock)
    third = (await process.engine.view(exact=True)).version("/a.md", 3)
    written = await process.prune(keep=2)
    assert (written.outcome, written.pruned, written.sequence) == ("pruned", (1, 3), 6)
    entry = (await entries(blobs))[-1]
    del entry["operation"]
    assert entry == {
        "seq": 6,
        "time": clock.now,
        "op": "prune",
        "path": "/a.md",
        "first": 1,
        "version": 3,
        "stored": third.etag,
        "erase": False,
        "by": "local:ann",
        "credential": "local",
    }
    assert await retained(process) == [4, 5]


@pytest.mark.parametrize(
    ("given", "left"),
    [
        ({"keep": 1}, [5]),
        ({"keep": 5}, [1, 2, 3, 4, 5]),
        ({"keep": 99}, [1, 2, 3, 4, 5]),
        ({"before": 3}, [3, 4, 5]),
        ({"before": 1}, [1, 2, 3, 4, 5]),
        ({"before": 99}, [5]),
        ({"older_than": 2 * HOUR}, [3, 4, 5]),
        ({"older_than": 2 * HOUR + 1}, [4, 5]),
        ({"older_than": 0}, [1, 2, 3, 4, 5]),
        ({"older_than": 99 * HOUR}, [5]),
        ({"keep": 2, "before": 3}, [3, 4, 5]),
        ({"keep": 4, "older_than": 99 * HOUR, "before": 5}, [2, 3, 4, 5]),
    ],
)
async def test_only_what_every_given_bound_allows_is_pruned(
    start: Start, clock: Any, given: dict[str, int], left: list[int]
) -> None:
    process = await start()
    begin = clock.now
    await five(process, clock)
    if "older_than" in given:
        given = {**given, "older_than": begin + given["older_than"]}
    written = await process.prune(**given)
    assert written.outcome == ("unchanged" if len(left) == 5 else "pruned")
    assert await retained(process) == left
    again = await process.prune(**given)
    assert (again.outcome, again.sequence) == ("unchanged", None)


async def test_a_pruned_history_survives_a_restart_and_names_its_predecessor(start: Start, clock: Any) -> None:
    """A11.11."""
    blobs = MemoryBlobs()
    process = await start(blobs)
    await five(process, clock)
    second = (await process.engine.view(exact=True)).version("/a.md", 2)
    await process.prune(before=3)
    await process.kill()
    again = await start(blobs)
    assert await retained(again) == [3, 4, 5]
    report = await again.engine.check_chain("/a.md")
    assert (report.state, report.first_retained, report.predecessor_hash) == ("pruned", 3, second.etag)


@pytest.mark.parametrize(
    ("retention", "given", "reason"),
    [
        (Retention(keep_versions=3), {"keep": 2}, "the newest 3 versions of /a.md have to be kept"),
        (Retention(keep_versions=3), {"keep": 3}, None),
        (Retention(keep_for=7 * HOUR // 2), {"before": 4}, "version 3 of /a.md has to be kept until"),
        (Retention(keep_for=7 * HOUR // 2), {"before": 3}, None),
        (Retention(holds=[Hold(paths=["/a.md"], reason="audit 7")]), {"before": 2}, "/a.md is on hold: audit 7"),
        (Retention(holds=[Hold(paths=["/legal/**", "/**"], reason="audit")]), {"before": 2}, "/a.md is on hold: audit"),
        (Retention(holds=[Hold(paths=["/b/**"], reason="audit")]), {"before": 2}, None),
    ],
)
@pytest.mark.parametrize("erase", [False, True])
async def test_floors_and_holds_forbid_it(
    start: Start, clock: Any, retention: Retention, given: dict[str, int], reason: str | None, erase: bool
) -> None:
    process = await start(rules=Rules(retention=retention))
    await five(process, clock)
    if reason is None:
        assert (await process.prune(**given, erase=erase)).outcome == "pruned"
        return
    with pytest.raises(PruneForbidden, match=reason):
        await process.prune(**given, erase=erase)
    assert await retained(process) == [1, 2, 3, 4, 5]


async def test_a_version_that_would_prune_what_has_to_stay_is_refused(start: Start, clock: Any) -> None:
    process = await start(rules=Rules(retention=Retention(keep_versions=2)))
    await five(process, clock)
    with pytest.raises(PruneForbidden, match="newest 2 versions"):
        await process.publish(body=b"6", metadata={"retention": "1"})
    assert (await process.publish(body=b"6", metadata={"retention": "2"})).pruned == (1, 4)
    assert await retained(process) == [5, 6]


async def test_a_retention_key_that_does_not_act_is_stored_and_nothing_more(start: Start, clock: Any) -> None:
    process = await start()
    await five(process, clock)
    written = await process.publish(body=b"6", metadata={"retention": "1"}, retention_acts=False)
    assert (written.version, written.pruned) == (6, None)
    assert (await process.engine.view(exact=True)).head("/a.md").metadata["retention"] == "1"
    assert await retained(process) == [1, 2, 3, 4, 5, 6]


async def test_there_has_to_be_a_document(start: Start) -> None:
    process = await start()
    with pytest.raises(DocumentMissing):
        await process.prune(keep=1)


async def test_an_archived_document_is_pruned_and_stays_archived(start: Start, clock: Any) -> None:
    process = await start()
    await five(process, clock)
    await process.publish("/a.md", b"6")
    await process.engine.write(Write(op="archive", path="/a.md", by="kettle", credential="token"))
    assert (await process.prune(keep=1)).pruned == (1, 5)
    assert (await process.engine.view(exact=True)).head("/a.md").archived


async def test_a_prune_that_lost_the_race_is_decided_anew(start: Start, clock: Any) -> None:
    """A11.6: another process commits a version first; what is kept counts from there."""
    blobs = MemoryBlobs()
    one, other = await start(blobs), await start(blobs)
    await five(one, clock)
    await other.engine.view(exact=True)
    await one.publish(body=b"6")
    # `other` has not seen that version when it decides.
    assert (await other.prune(keep=2)).pruned == (1, 4)
    with pytest.raises(VersionConflict):
        await other.publish(body=b"7", expected=5)


async def test_prunes_and_versions_in_one_line_build_on_one_another(start: Start, clock: Any) -> None:
    process = await start()
    await five(process, clock)
    results = await asyncio.gather(
        process.prune(keep=2),
        process.publish(body=b"6"),
        process.prune(keep=1),
        process.publish(body=b"7", metadata={"retention": "1"}),
        process.prune(keep=1),
    )
    assert [result.pruned for result in results] == [(1, 3), None, (4, 5), (6, 6), None]
    assert await retained(process) == [7]
