"""Where a document may be: the same for every way in, and again after a lost race (Mark protocol 4.2, 4.4)."""

import asyncio
from collections.abc import Callable
from typing import Any

import pytest

from demarkus_base.blobs.memory import MemoryBlobs
from demarkus_world.engine.engine import Adopt, PathCollision, PathUnstorable, Write, WriteRefused
from mark_protocol.versions import encode_version

Start = Callable[..., Any]


def publish(path: str) -> Write:
    return Write(op="publish", path=path, body=b"text\n", by="kettle", credential="token")


def adopt(path: str) -> Adopt:
    return Adopt(path=path, number=1, stored=encode_version(1, None, {}, b"text\n"), modified=1, by="local:ann")


WAYS_IN = {"published": publish, "imported": adopt}


@pytest.mark.parametrize("way", WAYS_IN)
@pytest.mark.parametrize(
    ("there", "path", "kind"),
    [
        ("/a.md", "/a.md/b.md", "ancestor"),
        ("/a.md", "/a.md/b/c/d.md", "ancestor"),
        ("/a.md/b.md", "/a.md", "directory"),
        ("/a.md/b/c/d.md", "/a.md/b", "directory"),
        ("/.hidden.md", "/.hidden.md/b.md", "ancestor"),
        ("/.hidden.md/b.md", "/.hidden.md", "directory"),
    ],
)
@pytest.mark.parametrize("archived", [False, True])
async def test_no_document_is_below_another_one(
    start: Start, way: str, there: str, path: str, kind: str, archived: bool
) -> None:
    """Archived documents keep their place, hidden ones as well."""
    blobs = MemoryBlobs()
    process = await start(blobs)
    await process.engine.write(publish(there))
    if archived:
        await process.engine.write(Write(op="archive", path=there, by="kettle", credential="token"))
    before = [key async for key in blobs.list("")]
    with pytest.raises(PathCollision) as refused:
        await process.engine.write(WAYS_IN[way](path))
    assert refused.value.kind == kind
    assert [key async for key in blobs.list("")] == before  # C13: nothing is made before it is refused


@pytest.mark.parametrize("way", WAYS_IN)
@pytest.mark.parametrize(
    "path", ["/versions/a.md", "/a/versions/b.md", "/" + "x" * 256 + ".md", "/a" * 451, "/a\udcff.md"]
)
async def test_names_that_no_store_can_hold_get_in_nowhere(start: Start, way: str, path: str) -> None:
    """A13, A37."""
    blobs = MemoryBlobs()
    process = await start(blobs)
    with pytest.raises(PathUnstorable):
        await process.engine.write(WAYS_IN[way](path))
    assert [key async for key in blobs.list("")] == ["world.json"]


@pytest.mark.parametrize("way", WAYS_IN)
async def test_hidden_names_are_stored_and_not_shown(start: Start, way: str) -> None:
    process = await start()
    for path in ("/a/.draft.md", "/b/.private/c.md", "/d/e.md"):
        await process.engine.write(WAYS_IN[way](path))
    view = await process.engine.view(exact=True)
    assert view.head("/b/.private/c.md") is not None
    assert [(child.name, child.has_visible) for child in view.children("/")] == [
        ("a", False),
        ("b", False),
        ("d", True),
    ]


@pytest.mark.parametrize("ways", [("published", "imported"), ("imported", "published"), ("published", "published")])
async def test_of_two_that_exclude_each_other_one_gets_in(start: Start, ways: tuple[str, str]) -> None:
    """A11.6: both are decided before either is there."""
    for paths in (("/a.md", "/a.md/b.md"), ("/a.md/b.md", "/a.md")):
        blobs = MemoryBlobs()
        processes = [await start(blobs), await start(blobs)]
        results = await asyncio.gather(
            *(
                process.engine.write(WAYS_IN[way](path))
                for process, way, path in zip(processes, ways, paths, strict=True)
            ),
            return_exceptions=True,
        )
        assert sum(isinstance(result, WriteRefused) for result in results) == 1
        view = await processes[0].engine.view(exact=True)
        assert view.documents == 1
