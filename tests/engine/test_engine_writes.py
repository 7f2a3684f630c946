"""What each operation does, on one engine that nobody disturbs."""

import asyncio
import hashlib
from collections.abc import Callable
from typing import Any

import pytest

from demarkus_base.blobs.memory import MemoryBlobs
from demarkus_world.engine.engine import (
    ContentTooLarge,
    DocumentArchived,
    DocumentMissing,
    Engine,
    MetadataRefused,
    PathCollision,
    PathUnstorable,
    Unavailable,
    VersionConflict,
    Write,
    Written,
)
from mark_protocol.versions import parse_version

AWrite = Callable[..., Write]


async def body(engine: Engine, path: str = "/a.md") -> bytes:
    view = await engine.view(exact=True)
    head = view.head(path)
    assert head is not None
    return parse_version(await engine.stored(head.record)).body


async def metadata(engine: Engine, path: str = "/a.md") -> dict[str, str]:
    head = (await engine.view(exact=True)).head(path)
    assert head is not None
    return dict(head.metadata)


async def test_publishing_makes_versions_chained_by_hash(start: Any, a_write: AWrite, clock: Any) -> None:
    engine = await start()
    assert await engine.write(a_write(body=b"one\n")) == Written("created", 1, clock.now)
    clock.now += 1500
    assert await engine.write(a_write(body=b"two\n", expected=1)) == Written("created", 2, clock.now)
    view = await engine.view(exact=True)
    first, second = view.versions("/a.md")
    assert parse_version(await engine.stored(first)).previous is None
    assert parse_version(await engine.stored(second)).previous == first.etag
    assert hashlib.sha256(await engine.stored(second)).hexdigest() == second.etag
    assert (second.modified - first.modified, second.by, second.credential) == (1500, "kettle", "token")
    assert view.by_body(second.body_hash) == ("/a.md",)
    assert view.by_body(first.body_hash) == ()
    assert (await engine.check_chain("/a.md")).state == "intact"


async def test_the_same_body_and_metadata_make_no_version(start: Any, a_write: AWrite, clock: Any) -> None:
    """C10, A27: compared in stored form, tags without their blanks."""
    engine = await start()
    written = await engine.write(a_write(metadata={"tags": "alpha, beta", "title": "T"}))
    clock.now += 5000
    for tags in (" alpha,beta ", "alpha,beta", "alpha,,beta"):
        again = await engine.write(a_write(metadata={"tags": tags, "title": "T"}, expected=1))
        assert again == Written("unchanged", 1, written.modified)
    assert (await engine.write(a_write(metadata={"tags": "alpha", "title": "T"}))).version == 2
    assert (await engine.write(a_write(metadata={"tags": "", "title": "T"}))).version == 3
    assert (await engine.write(a_write(metadata={"tags": "", "title": "T"}))).outcome == "unchanged"


async def test_metadata_is_what_a_restart_would_read(start: Any, a_write: AWrite) -> None:
    """C11: one spelling, from the first answer on."""
    blobs = MemoryBlobs()
    engine = await start(blobs)
    await engine.write(a_write(metadata={"tags": " b , a ", "x": " lead: #x", "importance": "0.7"}))
    live = await metadata(engine)
    assert live == {"tags": "b,a", "x": " lead: #x", "importance": "0.7", "type": "Document"}
    assert await metadata(await start(blobs)) == live


async def test_an_append_joins_and_inherits(start: Any, a_write: AWrite) -> None:
    """C6, C7: tags, type and title stay, retention does not."""
    engine = await start()
    await engine.write(a_write(body=b"one", metadata={"tags": "a", "title": "T", "type": "Note", "retention": "5"}))
    await engine.write(a_write("append", body=b"two\n", expected=1, metadata={"importance": "0.9"}))
    assert await body(engine) == b"one\ntwo\n"
    assert await metadata(engine) == {"tags": "a", "title": "T", "type": "Note", "importance": "0.9"}
    await engine.write(a_write("append", body=b"three", expected=2))
    assert await body(engine) == b"one\ntwo\nthree"


async def test_a_documents_own_front_matter_survives(start: Any, a_write: AWrite) -> None:
    """C12."""
    engine = await start()
    own = b"---\ntitle: mine\n---\ntext"
    await engine.write(a_write(body=own))
    await engine.write(a_write("append", body=b"more", expected=1))
    assert await body(engine) == own + b"\nmore"


async def test_a_merge_over_the_limit_is_refused(start: Any, a_write: AWrite) -> None:
    """C8."""
    engine = await start()
    await engine.write(a_write(metadata={"a": "x" * 800}))
    with pytest.raises(MetadataRefused, match="metadata too large"):
        await engine.write(a_write("append", expected=1, metadata={"b": "y" * 800}))
    assert len((await engine.view(exact=True)).versions("/a.md")) == 1


async def test_archive_and_unarchive_flip_the_state_and_nothing_else(start: Any, a_write: AWrite, clock: Any) -> None:
    engine = await start()
    made = await engine.write(a_write())
    clock.now += 1000
    sequence = (await engine.view(exact=True)).sequence
    assert await engine.write(a_write("archive")) == Written("archived", 1, made.modified)
    assert await engine.write(a_write("archive")) == Written("archived", 1, made.modified)
    view = await engine.view(exact=True)
    assert view.sequence == sequence + 1, "the second archive is a no-op"
    head = view.head("/a.md")
    assert head is not None
    assert head.archived
    assert view.by_body(head.record.body_hash) == ()
    for refused in (a_write(body=b"new"), a_write("append", body=b"new", expected=1)):
        with pytest.raises(DocumentArchived):
            await engine.write(refused)
    with pytest.raises(VersionConflict) as conflict:
        await engine.write(a_write(body=b"new", expected=0))
    assert (conflict.value.expected, conflict.value.current) == (0, 1), "a stale writer learns of the version first"
    assert await engine.write(a_write("unarchive")) == Written("unarchived", 1, made.modified)
    assert await engine.write(a_write("unarchive")) == Written("unarchived", 1, made.modified)
    assert (await engine.view(exact=True)).sequence == sequence + 2
    assert (await engine.view(exact=True)).by_body(head.record.body_hash) == ("/a.md",)


@pytest.mark.parametrize("op", ["append", "archive", "unarchive"])
async def test_what_needs_a_document_says_when_there_is_none(start: Any, a_write: AWrite, op: str) -> None:
    engine = await start()
    with pytest.raises(DocumentMissing):
        await engine.write(a_write(op, expected=1 if op == "append" else None))


@pytest.mark.parametrize(
    ("path", "kind"), [("/docs", "directory"), ("/docs/a.md/b.md", "ancestor"), ("/docs/a.md/b/c.md", "ancestor")]
)
async def test_a_refused_write_leaves_nothing_behind(start: Any, a_write: AWrite, path: str, kind: str) -> None:
    """C13."""
    blobs = MemoryBlobs()
    engine = await start(blobs)
    await engine.write(a_write(path="/docs/a.md"))
    before = [key async for key in blobs.list("")]
    with pytest.raises(PathCollision) as refused:
        await engine.write(a_write(path=path))
    assert refused.value.kind == kind
    assert [key async for key in blobs.list("")] == before
    assert (await engine.view(exact=True)).versions(path) == ()


@pytest.mark.parametrize(
    ("path", "storable"),
    [
        ("/versions/a.md", "compatible"),
        ("/a/versions/b.md", "compatible"),
        (f"/{'x' * 256}.md", "never"),
        (f"/{'x' * 300}/a.md", "never"),
        ("/" + "/".join(["x" * 99] * 9) + ".md", "never"),
        ("/bad\udc80.md", "never"),
        (f"/{'x' * 252}.md", "always"),
        ("/tab\there/100%/é.md", "always"),
    ],
)
async def test_paths_no_store_can_hold_are_refused(start: Any, a_write: AWrite, path: str, storable: str) -> None:
    """A13, A37."""
    for compatible in (False, True):
        engine = await start(compatible=compatible)
        if storable == "always" or (compatible and storable == "compatible"):
            assert (await engine.write(a_write(path=path))).version == 1
        else:
            with pytest.raises(PathUnstorable):
                await engine.write(a_write(path=path))


async def test_sizes_are_bounded_at_publish_and_append(start: Any, a_write: AWrite) -> None:
    engine = await start()
    limit = 1024 * 1024
    await engine.write(a_write(body=b"x" * limit))
    with pytest.raises(ContentTooLarge):
        await engine.write(a_write(path="/b.md", body=b"x" * (limit + 1)))
    with pytest.raises(ContentTooLarge):
        await engine.write(a_write("append", body=b"y", expected=1))
    assert len((await engine.view(exact=True)).versions("/a.md")) == 1


async def test_retention_prunes_in_the_same_slot_and_is_recorded(start: Any, a_write: AWrite) -> None:
    """A1, A3: the log keeps what was removed, and the check names it."""
    blobs = MemoryBlobs()
    engine = await start(blobs)
    for number in range(1, 5):
        await engine.write(a_write(body=b"%d" % number))
    third = (await engine.view(exact=True)).version("/a.md", 3)
    slots = [key async for key in blobs.list("log/")]
    assert (await engine.write(a_write(body=b"5", metadata={"retention": "2"}))).version == 5
    assert len([key async for key in blobs.list("log/")]) == len(slots) + 1
    assert [record.version for record in (await engine.view(exact=True)).versions("/a.md")] == [4, 5]
    report = await engine.check_chain("/a.md")
    assert third is not None
    assert (report.valid, report.state, report.first_retained) == (True, "pruned", 4)
    assert report.predecessor_hash == third.etag
    assert (await engine.write(a_write(body=b"6"))).version == 6
    assert [r.version for r in (await engine.view(exact=True)).versions("/a.md")] == [4, 5, 6], "not inherited"
    await engine.write(a_write(body=b"7", metadata={"retention": "9"}))
    assert [r.version for r in (await engine.view(exact=True)).versions("/a.md")] == [4, 5, 6, 7]
    await engine.write(a_write(body=b"8", metadata={"retention": "+1"}))
    assert [r.version for r in (await engine.view(exact=True)).versions("/a.md")] == [8]
    assert (await engine.check_chain("/a.md")).valid
    assert await body(await start(blobs)) == b"8"


async def test_writes_in_one_slot_see_one_another(start: Any, a_write: AWrite) -> None:
    """All offered at once: decided in their order, each against those before it."""
    engine = await start()
    results = await asyncio.gather(
        engine.write(a_write(body=b"1", expected=0)),
        engine.write(a_write(body=b"2", expected=1)),
        engine.write(a_write("append", body=b"3", expected=2)),
        engine.write(a_write(body=b"x", expected=2)),
        engine.write(a_write("archive")),
        engine.write(a_write(body=b"x")),
        engine.write(a_write(path="/a.md/b.md")),
        engine.write(a_write("unarchive")),
        engine.write(a_write(body=b"2\n3")),
        return_exceptions=True,
    )
    kinds = [result.outcome if isinstance(result, Written) else type(result) for result in results]
    assert kinds == [
        "created",
        "created",
        "created",
        VersionConflict,
        "archived",
        DocumentArchived,
        PathCollision,
        "unarchived",
        "unchanged",
    ]
    assert await body(engine) == b"2\n3"


async def test_time_never_goes_back(start: Any, a_write: AWrite, clock: Any) -> None:
    engine = await start()
    first = await engine.write(a_write(body=b"1"))
    clock.now -= 3_600_000
    second = await engine.write(a_write(body=b"2"))
    assert second.modified == first.modified


async def test_the_line_is_bounded(start: Any, a_write: AWrite) -> None:
    engine = await start()
    results = await asyncio.gather(
        *(engine.write(a_write(path=f"/{n}.md")) for n in range(1200)), return_exceptions=True
    )
    refused = [result for result in results if isinstance(result, Unavailable)]
    assert len(refused) == 1200 - 1024
    assert str(refused[0]) == "too many writes are waiting"
    assert (await engine.write(a_write(path="/later.md"))).version == 1


async def test_closing_answers_the_writes_in_line(start: Any, a_write: AWrite) -> None:
    engine = await start()
    writes = [asyncio.create_task(engine.write(a_write(path=f"/{n}.md"))) for n in range(100)]
    await writes[0]
    await engine.close()
    assert {(await write).outcome for write in writes} == {"created"}
    with pytest.raises(Unavailable, match="shutting down"):
        await engine.write(a_write())
