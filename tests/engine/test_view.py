"""Directories, bodies and what listings may show, as the view keeps them."""

from collections.abc import Callable
from typing import Any

import pytest

from demarkus_world.engine.engine import Write

AWrite = Callable[..., Write]


async def filled(start: Any, a_write: AWrite, *paths: str, archived: tuple[str, ...] = ()) -> Any:
    engine = await start()
    for path in paths:
        await engine.write(a_write(path=path))
    for path in archived:
        await engine.write(a_write("archive", path=path))
    return await engine.view(exact=True)


def shown(view: Any, path: str, **given: str) -> list[tuple[str, str, bool, bool]]:
    return [(child.name, child.kind, child.has_visible, child.has_live) for child in view.children(path, **given)]


async def test_children_are_in_byte_order_with_directories_by_name_alone(start: Any, a_write: AWrite) -> None:
    view = await filled(start, a_write, "/b.md", "/a/x.md", "/a-b.md", "/a.md", "/é.md", "/Z.md", "/\U0001f600.md")
    names = [child.name for child in view.children("/")]
    assert names == sorted(["b.md", "a", "a-b.md", "a.md", "é.md", "Z.md", "\U0001f600.md"], key=str.encode)
    assert [child.name for child in view.children("/", after="a-b.md")] == names[names.index("a-b.md") + 1 :]
    assert [child.name for child in view.children("/", after="aa")] == ["b.md", "é.md", "\U0001f600.md"]


async def test_a_directory_is_what_has_a_document_below(start: Any, a_write: AWrite) -> None:
    view = await filled(start, a_write, "/d/e/a.md", archived=("/d/e/a.md",))
    assert [view.is_directory(path) for path in ("/", "/d", "/d/e", "/d/e/a.md", "/x", "/d/")] == [
        True,
        True,
        True,
        False,
        False,
        False,
    ]
    assert (await filled(start, a_write)).is_directory("/"), "the root of an empty world"
    assert shown(view, "/x") == []


@pytest.mark.parametrize(
    ("paths", "archived", "expected"),
    [
        (("/d/a.md",), (), (True, True)),
        (("/d/a.md",), ("/d/a.md",), (True, False)),
        (("/d/a.md", "/d/e/b.md"), ("/d/a.md",), (True, True)),
        (("/d/.a.md",), (), (False, False)),
        (("/d/.e/a.md",), (), (False, False)),
        (("/d/versions/a.md",), (), (False, False)),
        (("/d/.e/a.md", "/d/b.md"), ("/d/b.md",), (True, False)),
    ],
)
async def test_a_directory_knows_whether_anything_in_it_shows(
    start: Any, a_write: AWrite, paths: tuple[str, ...], archived: tuple[str, ...], expected: tuple[bool, bool]
) -> None:
    """C3: hidden names hide what is below them, archived documents are not live."""
    engine = await start(compatible=True)
    for path in paths:
        await engine.write(a_write(path=path))
    for path in archived:
        await engine.write(a_write("archive", path=path))
    assert shown(await engine.view(exact=True), "/") == [("d", "directory", *expected)]


async def test_inside_a_hidden_directory_its_own_documents_show(start: Any, a_write: AWrite) -> None:
    view = await filled(start, a_write, "/.well-known/demarkus/policy.md", "/.well-known/a.md")
    assert shown(view, "/") == [(".well-known", "directory", True, True)]
    assert shown(view, "/.well-known") == [("a.md", "file", True, True), ("demarkus", "directory", True, True)]


async def test_unarchiving_brings_a_directory_back(start: Any, a_write: AWrite) -> None:
    engine = await start()
    await engine.write(a_write(path="/d/a.md"))
    view = await engine.view(exact=True)
    for _ in range(3):
        await engine.write(a_write("archive", path="/d/a.md"))
        assert shown(view, "/") == [("d", "directory", True, False)]
        await engine.write(a_write("unarchive", path="/d/a.md"))
        assert shown(view, "/") == [("d", "directory", True, True)]


async def test_bodies_are_found_by_hash_in_path_order(start: Any, a_write: AWrite) -> None:
    engine = await start()
    for path in ("/b.md", "/a.md", "/Z/c.md"):
        await engine.write(a_write(path=path, body=b"same", metadata={"title": path}))
    view = await engine.view(exact=True)
    body_hash = view.head("/a.md").record.body_hash
    assert view.by_body(body_hash) == ("/Z/c.md", "/a.md", "/b.md")
    await engine.write(a_write("archive", path="/a.md"))
    await engine.write(a_write(path="/b.md", body=b"other"))
    assert view.by_body(body_hash) == ("/Z/c.md",)
    await engine.write(a_write(path="/Z/c.md", body=b"other"))
    assert view.by_body(body_hash) == ()


async def test_only_retained_versions_are_known(start: Any, a_write: AWrite) -> None:
    engine = await start()
    for number in range(1, 6):
        await engine.write(a_write(body=b"%d" % number, metadata={"retention": "3"}))
    view = await engine.view(exact=True)
    assert [record.version for record in view.versions("/a.md")] == [3, 4, 5]
    assert [view.version("/a.md", n) is not None for n in (0, 1, 2, 3, 5, 6)] == [
        False,
        False,
        False,
        True,
        True,
        False,
    ]
    assert view.version("/none.md", 1) is None
