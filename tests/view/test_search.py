"""LOOKUP's data: the catalog, filters, sections, who may see what, and how the index keeps up."""

import asyncio
import time
from pathlib import Path
from typing import Any

import pytest

from demarkus_base.blobs.memory import MemoryBlobs
from demarkus_world.engine.engine import Engine
from demarkus_world.view.filters import FilterError, conditions
from demarkus_world.view.search import Query, snippet
from demarkus_world.view.words import terms, words
from mark_protocol.lookups import Match
from tests.view.conftest import a_write


def everything(path: str) -> bool:
    return True


async def put(engine: Engine, path: str, body: str = "text", **metadata: str) -> None:
    await engine.write(a_write(path=path, body=body.encode(), metadata=metadata))


async def catalog(engine: Engine, text: str, *, readable: Any = everything, **given: Any) -> list[Match]:
    by_section, found = await engine.lookup(Query(text=text, **given), readable)
    assert not by_section
    return found


async def paths(engine: Engine, text: str, **given: Any) -> list[str]:
    return [match.path for match in await catalog(engine, text, **given)]


async def body(engine: Engine, text: str, *, readable: Any = everything, **given: Any) -> list[str]:
    """Paths with anchors, once the index has all."""
    deadline = time.monotonic() + 10
    while True:
        by_section, found = await engine.lookup(Query(text=text, **given), readable, body=True)
        if by_section:
            return [f"{match.path}#{match.anchor}" if match.anchor else match.path for match in found]
        assert time.monotonic() < deadline, "waited 10 s for the index of sections"
        await asyncio.sleep(0.01)


async def until_found(engine: Engine, text: str, expected: list[str]) -> None:
    deadline = time.monotonic() + 10
    while (found := await body(engine, text)) != expected:
        assert time.monotonic() < deadline, f"waited 10 s for {expected}, found {found}"
        await asyncio.sleep(0.01)


@pytest.fixture(params=["memory", "folder"])
async def engine(open_world: Any, tmp_path: Path, request: pytest.FixtureRequest) -> Engine:
    opened: Engine = await open_world(MemoryBlobs(), view=tmp_path if request.param == "folder" else None, key=None)
    return opened


@pytest.fixture
async def indexed(open_world: Any, tmp_path: Path) -> Engine:
    opened: Engine = await open_world(MemoryBlobs(), view=tmp_path, key=None)
    return opened


async def test_matches_are_ranked_by_hits_importance_age_and_path(engine: Engine, clock: Any) -> None:
    await put(engine, "/one.md", title="Tea and Coffee")
    await put(engine, "/two.md", tags="tea,COFFEE", importance="0.4")
    await put(engine, "/low.md", title="teapot", importance="0.1")
    await put(engine, "/old.md", title="tea")
    clock.now += 5000
    await put(engine, "/new.md", title="tea")
    await put(engine, "/also-new.md", "# Green Tea\n")
    await put(engine, "/other.md", title="water", tags="teas")
    assert await paths(engine, "TEA coffee tea") == [
        "/one.md", "/two.md", "/also-new.md", "/new.md", "/old.md", "/low.md",
    ]  # fmt: skip
    assert (await catalog(engine, "coffee"))[1].tags == ("tea", "COFFEE"), "tags keep their case"
    assert await paths(engine, "tea", limit=2) == ["/also-new.md", "/new.md"]
    assert len(await paths(engine, "*")) == 7
    assert await paths(engine, "* tea") == await paths(engine, "tea"), "C45: only a lone star is everything"


async def test_titles_come_from_metadata_heading_or_name(engine: Engine) -> None:
    await put(engine, "/a/meta.md", "# Heading\n", title="  Given ")
    await put(engine, "/a/heading.md", "```\n# comment\n```\n# Heading `x`\n", title=" ")
    await put(engine, "/a/plain.md", "no heading")
    assert {match.path: match.title for match in await catalog(engine, "*")} == {
        "/a/meta.md": "Given",
        "/a/heading.md": "Heading x",
        "/a/plain.md": "plain.md",
    }


async def test_c_44_a_scope_ends_at_a_slash(engine: Engine) -> None:
    for path in ("/docs/a.md", "/docs/b/c.md", "/docsx/a.md", "/docs-a.md", "/docs0.md"):
        await put(engine, path)
    assert await paths(engine, "*", scope="/docs") == ["/docs/a.md", "/docs/b/c.md"]
    assert await paths(engine, "*", scope="/docs/a.md") == ["/docs/a.md"]
    assert await paths(engine, "*", scope="/other") == []


async def test_rows_are_authorised_before_the_limit(engine: Engine) -> None:
    for number in range(30):
        await put(engine, f"/{'open' if number % 10 == 9 else 'secret'}/{number:02}.md")
    found = await paths(engine, "*", limit=3, readable=lambda path: path.startswith("/open/"))
    assert found == ["/open/09.md", "/open/19.md", "/open/29.md"]


async def test_archived_documents_are_in_no_answer(engine: Engine) -> None:
    await put(engine, "/a.md", title="tea")
    await engine.write(a_write("archive"))
    assert await paths(engine, "tea") == []
    await engine.write(a_write("unarchive"))
    assert await paths(engine, "tea") == ["/a.md"]


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("", ["/a.md", "/b.md"]),
        (" , ", ["/a.md", "/b.md"]),
        ("tag=ALPHA", ["/a.md"]),
        ("tag=alph", []),
        ("stage=draft", ["/a.md"]),
        ("stage=draf", []),
        ("stage = draft , tag=alpha", ["/a.md"]),
        ("stage=draft,tag=beta", []),
        ('note=say "hi"\\', ["/b.md"]),
        ("note=", []),
        ("nothing=", []),
        ("type=Document", ["/a.md", "/b.md"]),
        ("modified-after=2000-01-01", ["/a.md", "/b.md"]),
        ("modified-before=2000-01-01", []),
        ("modified-after=2026-09-21T14:13:20Z", []),
        ("modified-after=2026-09-21T14:13:19Z", ["/a.md", "/b.md"]),
    ],
)
async def test_every_clause_of_a_filter_must_hold(open_world: Any, clock: Any, text: str, expected: list[str]) -> None:
    clock.now = 1_790_000_000_000
    assert clock.now == 1_790_000_000_000, "2026-09-21T14:13:20Z"
    engine = await open_world(MemoryBlobs(), key=None)
    await put(engine, "/a.md", tags="Alpha, gamma", stage="draft")
    await put(engine, "/b.md", tags="beta", note='say "hi"\\', other='x","stage":"draft')
    assert sorted(await paths(engine, "*", conditions=conditions(text))) == expected


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("a=1, b", 'malformed filter clause "b"'),
        ("=x", 'malformed filter clause "=x"'),
        ("modified-after=yesterday", 'filter modified-after: invalid date "yesterday" (want RFC 3339 or YYYY-MM-DD)'),
        ("modified-before=2026-1-1", 'filter modified-before: invalid date "2026-1-1" (want RFC 3339 or YYYY-MM-DD)'),
    ],
)
def test_a_filter_that_can_not_be_read_is_told(text: str, message: str) -> None:
    with pytest.raises(FilterError) as error:
        conditions(text)
    assert str(error.value) == message


TEA = "# Tea\n\nHow to make it.\n\n## Green\n\nCooler *water*.\n\n## Black\n\nSteep **four** minutes.\n"


async def test_a_section_is_found_by_its_text_and_headings(indexed: Engine) -> None:
    await put(indexed, "/notes/tea.md", TEA, tags="drinks,kitchen", importance="0.8")
    await until_found(indexed, "steep", ["/notes/tea.md#black"])
    _, (match,) = await indexed.lookup(Query(text="steep"), everything, body=True)
    assert (match.title, match.heading, match.snippet) == ("Tea", "Black", "Steep four minutes.")
    assert await body(indexed, "steep green") == [], "no section has both"
    assert await body(indexed, "cooler green") == ["/notes/tea.md#green"]
    assert await body(indexed, "steep kitchen") == ["/notes/tea.md#black"], "a word may be the document's"
    assert await body(indexed, "tea kitchen") == ["/notes/tea.md"], "title and tags have all: one row by itself"
    assert await body(indexed, "x !") == [], "no word to look for"
    assert await body(indexed, "steep", scope="/other") == []
    assert await body(indexed, "steep", readable=lambda path: False) == []
    assert await body(indexed, "steep", conditions=conditions("tag=garden")) == []


async def test_words_keep_their_punctuation_and_have_parts(indexed: Engine) -> None:
    await put(indexed, "/a.md", "# One\n\nUse `kube-proxy` v1.2.3, don't panic: snake_case “naïve” Größe.\n")
    await put(indexed, "/b.md", "# Two\n\nA proxy for kube.\n")
    await until_found(indexed, "kube-proxy", ["/a.md#one"])
    for text in ("v1.2.3", "DON'T", "snake_case", "naïve", "größe", "kube-proxy v1.2.3"):
        assert await body(indexed, text) == ["/a.md#one"], text
    assert sorted(await body(indexed, "kube")) == ["/a.md#one", "/b.md#two"]
    assert await body(indexed, "kube NOT proxy") == [], "no operators"
    assert await body(indexed, 'kube" OR "x') == []


async def test_the_index_follows_writes_archives_and_restarts(open_world: Any, tmp_path: Path) -> None:
    blobs = MemoryBlobs()
    engine = await open_world(blobs, view=tmp_path, key=None)
    await put(engine, "/a.md", "# A\n\nmountain\n")
    await put(engine, "/b.md", "# B\n\nmountain\n")
    await until_found(engine, "mountain", ["/a.md#a", "/b.md#b"])
    await put(engine, "/a.md", "# A\n\nvalley\n")
    await until_found(engine, "mountain", ["/b.md#b"])
    await engine.write(a_write("archive", path="/b.md"))
    await until_found(engine, "mountain", [])
    await engine.close()
    other = await open_world(blobs, key=None)
    await other.write(a_write("unarchive", path="/b.md"))
    await put(other, "/c.md", "# C\n\nmountain\n")
    again = await open_world(blobs, view=tmp_path, key=None)
    await until_found(again, "mountain", ["/b.md#b", "/c.md#c"])
    assert await body(again, "valley") == ["/a.md#a"]


async def test_body_search_answers_from_the_catalog_until_sections_are_there(open_world: Any) -> None:
    engine = await open_world(MemoryBlobs(), key=None)
    await put(engine, "/a.md", "# Mountain\n\nvalley\n")
    by_section, found = await engine.lookup(Query(text="mountain"), everything, body=True)
    assert not by_section
    assert [match.path for match in found] == ["/a.md"]


async def test_a_damaged_index_is_made_anew(open_world: Any, tmp_path: Path) -> None:
    blobs = MemoryBlobs()
    engine = await open_world(blobs, view=tmp_path, key=None)
    await put(engine, "/a.md", "# A\n\nmountain\n")
    await until_found(engine, "mountain", ["/a.md#a"])
    await engine.close()
    (tmp_path / "sections.db").write_bytes(b"no database" * 500)
    again = await open_world(blobs, view=tmp_path, key=None)
    await until_found(again, "mountain", ["/a.md#a"])


async def test_importance_is_a_prior(indexed: Engine) -> None:
    await put(indexed, "/a.md", "# A\n\nmountain hut\n", importance="0.1")
    await put(indexed, "/b.md", "# B\n\nmountain hut\n", importance="0.9")
    await put(indexed, "/journal/c.md", "# C\n\nmountain hut\n", importance="0.9")
    await until_found(indexed, "mountain hut", ["/b.md#b", "/journal/c.md#c", "/a.md#a"])


@pytest.mark.parametrize(
    ("query", "expected"),
    [
        ("Tea tea, (TEA)", ["tea"]),
        ("a b cd", ["cd"]),
        ("... !", []),
        ("x" * 33, ["x" * 33]),
        ("a-very-long-word-of-more-than-thirty-two", ["very", "long", "word", "of", "more", "than", "thirty", "two"]),
    ],
)
def test_terms_of_a_query(query: str, expected: list[str]) -> None:
    assert terms(query) == expected


def test_words_of_a_text() -> None:
    assert list(words("Don't (stop-it) x " + "y" * 33)) == ["don't", "don", "stop-it", "stop", "it"]


def test_a_snippet_is_the_best_line_and_not_too_long() -> None:
    assert snippet("# H\none tea\n\n**two** [tea](x) cup\n", ["tea", "cup"]) == "two tea cup"
    long = snippet("é" * 300, ["tea"])
    assert len(long.encode()) <= 240
    assert long.endswith("é...")
