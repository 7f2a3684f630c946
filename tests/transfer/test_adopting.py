"""The engine adopts versions of other stores: exact bytes, next number, linked, held to every rule of the store."""

from __future__ import annotations

import json
import random
from collections.abc import Callable, Sequence
from typing import Any

import pytest

from demarkus_world.engine.engine import (
    Adopt,
    ContentTooLarge,
    DocumentArchived,
    Engine,
    EngineError,
    Identity,
    PathCollision,
    PathUnstorable,
    QuotaExceeded,
    VersionConflict,
    VersionRefused,
    Write,
    Written,
)
from demarkus_world.engine.rules import Quota, Rules
from mark_protocol import limits
from mark_protocol.versions import encode_version

MakeTarget = Callable[..., Any]
Versions = Callable[..., list[bytes]]
EARLIER = 1_700_000_000_000


def adopting(stored: Sequence[bytes], path: str = "/tea.md", *, first: int = 1, **given: Any) -> list[Adopt]:
    """One adoption for each version."""
    return [
        Adopt(path=path, number=number, stored=data, by="local:ada", **{"modified": EARLIER + number, **given})
        for number, data in enumerate(stored, first)
    ]


async def adopt(target: Any, stored: Sequence[bytes], **given: Any) -> list[Written | BaseException]:
    return await target.engine.write_all(adopting(stored, **given))


async def entries(target: Any) -> list[list[dict[str, Any]]]:
    """The entries of every slot."""
    return [json.loads(await target.blobs.get(key))["entries"] async for key in target.blobs.list("log/")]


async def test_versions_of_one_document_share_slots_of_at_most_32_entries(
    a_target: MakeTarget, versions: Versions
) -> None:
    target = await a_target()
    stored = versions(*(f"{n}\n" for n in range(100)))
    results = await adopt(target, stored)
    assert [result.version for result in results if isinstance(result, Written)] == list(range(1, 101))
    assert await target.stored("/tea.md") == stored
    slots = await entries(target)
    assert max(map(len, slots)) <= 32
    assert len(slots) <= 10
    assert [entry["version"] for slot in slots for entry in slot] == list(range(1, 101))
    assert {(entry["op"], entry["credential"], entry["by"]) for slot in slots for entry in slot} == {
        ("publish", "local", "local:ada")
    }


async def test_what_follows_does_not_begin_a_document(a_target: MakeTarget, versions: Versions) -> None:
    target = await a_target()
    second, third = adopting(versions("two\n", "three\n", first=2), first=2, follows=True)
    for late in (second, third):
        with pytest.raises(VersionConflict) as refused:
            await target.engine.write(late)
        assert refused.value.current == 0
    [first] = adopting(versions("one\n", first=1))
    await target.engine.write(first)
    with pytest.raises(VersionConflict):
        await target.engine.write(third)


async def test_their_times_are_kept_and_survive_a_restart(a_target: MakeTarget, versions: Versions) -> None:
    target = await a_target()
    await adopt(target, versions("one\n", "two\n"))
    again = await Engine.open(
        target.blobs, Identity("0a" * 16, "1b" * 16), now=lambda: target.clock[0], random=random.Random(2).randbytes
    )
    for engine in (target.engine, again):
        records = (await engine.view(exact=True)).versions("/tea.md")
        assert [record.modified for record in records] == [EARLIER + 1, EARLIER + 2]
    await again.close()
    assert all("modified" in entry and "predecessor" not in entry for slot in await entries(target) for entry in slot)


async def test_what_is_written_afterwards_is_younger(a_target: MakeTarget, versions: Versions) -> None:
    target = await a_target()
    await adopt(target, versions("one\n"), modified=2 * target.clock[0])
    written = await target.engine.write(
        Write(op="append", path="/tea.md", body=b"more\n", expected=1, by="ada", credential="token")
    )
    assert (written.version, written.modified) == (2, target.clock[0])
    assert "modified" not in (await entries(target))[-1][0]


async def test_a_document_may_begin_later_and_names_the_version_before(
    a_target: MakeTarget, versions: Versions
) -> None:
    target = await a_target()
    stored = versions("seven\n", "eight\n", first=7)
    results = await adopt(target, stored, first=7)
    assert all(isinstance(result, Written) for result in results)
    first, second = [entry for slot in await entries(target) for entry in slot]
    assert (first["predecessor"], "predecessor" in second) == ("5e" * 32, False)
    again = await Engine.open(
        target.blobs, Identity("0a" * 16, "1b" * 16), now=lambda: target.clock[0], random=random.Random(2).randbytes
    )
    report = await again.check_chain("/tea.md")
    assert (report.state, report.first_retained, report.predecessor_hash) == ("pruned", 7, "5e" * 32)
    await again.close()


async def test_it_is_archived_in_the_same_slot(a_target: MakeTarget, versions: Versions) -> None:
    target = await a_target()
    (result,) = await adopt(target, versions("one\n"), archived=True)
    assert isinstance(result, Written)
    assert [[entry["op"] for entry in slot] for slot in await entries(target)] == [["publish", "archive"]]
    assert await target.archived("/tea.md") is True
    (later,) = await adopt(target, versions("one\n", "two\n")[1:], first=2)
    assert isinstance(later, DocumentArchived)


async def test_the_same_version_again_is_no_change(a_target: MakeTarget, versions: Versions) -> None:
    target = await a_target()
    stored = versions("one\n", "two\n")
    await adopt(target, stored)
    sequence = target.engine.statistics.sequence
    (again,) = await adopt(target, stored[1:], first=2)
    assert isinstance(again, Written)
    assert (again.outcome, again.version, target.engine.statistics.sequence) == ("unchanged", 2, sequence)
    (archived,) = await adopt(target, stored[1:], first=2, archived=True)
    assert isinstance(archived, Written)
    assert (archived.outcome, await target.archived("/tea.md")) == ("archived", True)


@pytest.mark.parametrize(
    ("stored", "refusal"),
    [
        (b"no block", VersionRefused),
        (b"---\nversion: 2\narchived: false\n---\nx", VersionRefused),
        (b"---\nversion: 01\narchived: false\n---\nx", VersionRefused),
        (b"---\narchived: false\nversion: 1\n---\nx", VersionRefused),
        (b"---\nversion: 1\narchived: false\nprevious-hash: sha256-" + b"a" * 64 + b"\n---\nx", VersionRefused),
        (b"---\nversion: 1\narchived: false\nmeta.b: x\nmeta.a: x\n---\nx", VersionRefused),
        (b"---\nversion: 1\narchived: false\nweather: fine\n---\nx", VersionRefused),
        (b"---\nversion: 1\narchived: false\nmeta.a: " + b"x" * 1024 + b"\n---\nx", VersionRefused),
        (b"---\nversion: 1\narchived: false\ntitle: \xff\n---\nx", VersionRefused),
        (b"---\nversion: 1\narchived: false\n---\n\xff", VersionRefused),
        (encode_version(1, None, {}, b"x" * (limits.BODY + 1)), ContentTooLarge),
    ],
)
async def test_bytes_that_are_not_well_formed_are_refused(
    a_target: MakeTarget, stored: bytes, refusal: type[EngineError]
) -> None:
    target = await a_target()
    (result,) = await adopt(target, [stored])
    assert isinstance(result, refusal)
    assert await target.paths() == []


async def test_numbers_and_links_have_to_follow(a_target: MakeTarget, versions: Versions) -> None:
    target = await a_target()
    stored, other = versions("one\n", "two\n", "three\n"), versions("eins\n", "zwei\n")
    await adopt(target, stored[:1])
    for wrong, first, refusal in (
        (stored[2:], 3, VersionConflict),
        (other[:1], 1, VersionConflict),
        (other[1:], 2, VersionRefused),
    ):
        (result,) = await adopt(target, wrong, first=first)
        assert isinstance(result, refusal)
    after_a_gap = await target.engine.write_all([*adopting(stored[2:], first=3), *adopting(stored[1:2], first=2)])
    assert [isinstance(result, Written) for result in after_a_gap] == [False, True]


async def test_paths_are_held_to_the_same_rules(a_target: MakeTarget, versions: Versions) -> None:
    target = await a_target()
    (stored,) = versions("one\n")
    await adopt(target, [stored], path="/a/b.md")
    for path, refusal in (
        ("/a", PathCollision),
        ("/a/b.md/c.md", PathCollision),
        ("/versions/a.md", PathUnstorable),
        (f"/{'x' * 256}.md", PathUnstorable),
    ):
        (result,) = await adopt(target, [stored], path=path)
        assert isinstance(result, refusal), path


async def test_quotas_hold_within_one_batch(a_target: MakeTarget, versions: Versions) -> None:
    stored = versions("one\n", "two\n", "three\n")
    size = len(stored[0]) + len(stored[1])
    target = await a_target(rules=lambda: Rules(quota=Quota(max_documents=2, max_bytes=size + len(stored[0]))))
    results = await adopt(target, stored[:2])
    results += await adopt(target, stored[:1], path="/cup.md")
    assert all(isinstance(result, Written) for result in results)
    more, another = await adopt(target, stored[2:], first=3), await adopt(target, stored[:1], path="/pot.md")
    assert isinstance(more[0], QuotaExceeded)
    assert isinstance(another[0], QuotaExceeded)
    both = await (await a_target(rules=lambda: Rules(quota=Quota(max_documents=1)))).engine.write_all(
        [*adopting(stored[:1]), *adopting(stored[:1], "/cup.md")]
    )
    assert [isinstance(result, Written) for result in both] == [True, False]


async def test_a_retention_key_that_comes_along_prunes_nothing(a_target: MakeTarget, versions: Versions) -> None:
    target = await a_target()
    await adopt(target, versions("one\n", "two\n", "three\n", metadata={"retention": "1"}))
    assert len(await target.stored("/tea.md")) == 3
