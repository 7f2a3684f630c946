"""mark_lookup and mark_lookup_all: the table, merging worlds, worlds that fail, text within a budget."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from demarkus_broker.mcp.tools import expansion
from demarkus_broker.mcp.tools.tool import Kind
from demarkus_broker.worlds.errors import Unavailable
from mark_protocol.lookups import Match, render_matches
from mark_protocol.response import Response

GONE = Unavailable("garden", "it can't be reached", after=3.0)


def found(*rows: Match, body: bool = False, searched: str = "") -> Response:
    keys = {"matches": str(len(rows)), "match": searched or ("body" if body else "catalog")}
    return Response("ok", keys, render_matches("tea", "/", rows, body=body))


def a_match(path: str = "/tea.md", importance: float = 0.5, **fields: Any) -> Match:
    return Match(path=path, importance=importance, **{"title": path.strip("/"), **fields})


def a_document(text: str, version: int = 1, **metadata: str) -> Response:
    return Response("ok", {"version": str(version)} | metadata, text.encode())


def rows_of(body: str) -> list[list[str]]:
    lines = [line for line in body.split("\n\n")[0].splitlines() if line.startswith("|")]
    return [[cell.strip() for cell in line.strip("|").split(" | ")] for line in lines[2:]]


async def test_a_lookup_sends_its_arguments_and_answers_a_table(run: Any) -> None:
    outcome, worlds = await run(
        "mark_lookup",
        url="mark://kitchen/notes/",
        reads={"/notes": found(a_match("/notes/a b.md", 0.9, title="A | b", tags=("x", "y")))},
        query="tea",
        filter="tag=x",
        limit=3,
    )
    assert outcome.keys == {"matches": "1", "match": "catalog"}
    assert outcome.body.splitlines()[0] == "| Path | Importance | Title | Tags |"
    assert "| /notes/a b.md | 0.90 | A \\| b | x, y |" in outcome.body
    assert worlds.asked[0].metadata == {"query": "tea", "filter": "tag=x", "limit": "3", "match": "catalog"}


async def test_superseded_documents_are_found_when_asked_for(run: Any) -> None:
    _, worlds = await run("mark_lookup_all", reads={"/": found()}, query="tea", include_superseded=True)
    assert worlds.asked[0].metadata["include-superseded"] == "true"


async def test_a_slow_document_costs_its_text_and_not_the_table(run: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(expansion, "PATIENCE", 0.05)

    async def never(_: Any) -> Response:
        await asyncio.Event().wait()
        raise AssertionError

    reads = {"/": found(a_match("/a.md"), a_match("/b.md")), "/a.md": a_document("first\n"), "/b.md": never}
    outcome, _ = await run("mark_lookup", url="mark://kitchen/", reads=reads, query="tea", budget=500)
    assert outcome.keys["matches"] == "2"
    assert "first\n" in outcome.body
    assert outcome.body.endswith(">>> More could not be fetched in time.\n")


async def test_tags_beyond_ten_are_counted_unless_all_are_asked_for(run: Any) -> None:
    reads = {"/": found(a_match(tags=tuple(f"t{number}" for number in range(13))))}
    lean, _ = await run("mark_lookup", url="mark://kitchen/", reads=reads, query="tea")
    verbose, _ = await run("mark_lookup", url="mark://kitchen/", reads=reads, query="tea", verbose=True)
    assert "t9 +3 more" in lean.body
    assert "t12" in verbose.body


async def test_a_search_of_the_text_names_sections_and_says_when_it_fell_back(run: Any) -> None:
    section = a_match(anchor="green", heading="Green", snippet="cool water")
    outcome, _ = await run("mark_lookup", reads={"/tea.md": found(section, body=True)}, query="tea", match="body")
    assert "| /tea.md#green | 0.50 |" in outcome.body
    assert "cool water" in outcome.body
    assert not outcome.help
    outcome, _ = await run("mark_lookup", reads={"/tea.md": found(a_match())}, query="tea", match="body")
    assert outcome.keys["match"] == "catalog"
    assert "can't be searched" in outcome.help


async def test_what_a_world_refuses_is_passed_on(run: Any) -> None:
    no = Response("bad-request", {}, b"# Bad Request\n\nquery must be at least 2 characters\n")
    for tool in ("mark_lookup", "mark_lookup_all"):
        outcome, _ = await run(tool, reads={"/": no, "/tea.md": no}, query="t")
        assert outcome.status == "bad-request"
        assert "2 characters" in outcome.body


async def test_worlds_are_merged_by_rank_then_importance_then_name(run: Any) -> None:
    reads = {
        "kitchen/": found(a_match("/k1.md", 0.2), a_match("/k2.md", 0.9)),
        "garden/": found(a_match("/g1.md", 0.2), a_match("/g2.md", 0.1)),
        "attic/": found(a_match("/a1.md", 0.7)),
    }
    outcome, _ = await run("mark_lookup_all", worlds=("kitchen", "garden", "attic"), reads=reads, query="tea", limit=4)
    assert outcome.status == "ok"
    assert outcome.keys == {"worlds": "3", "succeeded": "3", "failed": "0", "matches": "4", "match": "catalog"}
    assert [row[0] for row in rows_of(outcome.body)] == [
        "mark://attic/a1.md",
        "mark://garden/g1.md",
        "mark://kitchen/k1.md",
        "mark://kitchen/k2.md",
    ]


async def test_some_worlds_failing_is_partial_and_they_are_named(run: Any) -> None:
    reads = {"kitchen/": found(a_match()), "garden/": GONE, "attic/": Response("not-found")}
    outcome, _ = await run("mark_lookup_all", worlds=("kitchen", "garden", "attic"), reads=reads, query="tea")
    assert outcome.status == "partial"
    assert (outcome.keys["succeeded"], outcome.keys["failed"]) == ("2", "1")
    assert "| World | Failure |" in outcome.body
    assert "| garden | " in outcome.body


async def test_all_worlds_failing_is_an_error(run: Any) -> None:
    refusal, _ = await run("mark_lookup_all", worlds=("garden",), reads={"/": GONE}, query="tea")
    assert refusal.kind is Kind.TRY_LATER
    assert "garden" in refusal.message


async def test_worlds_that_one_may_not_read_are_not_asked(run: Any, a_world: Any, a_person: Any) -> None:
    outcome, worlds = await run("mark_lookup_all", worlds=("kitchen",), reads={"/": found()}, query="tea")
    assert outcome.keys["worlds"] == "1"
    assert len(worlds.asked) == 1


@pytest.mark.parametrize("scope", ["/../x", "a?b", "a#b"])
async def test_a_scope_that_is_no_path_is_refused(run: Any, scope: str) -> None:
    refusal, worlds = await run("mark_lookup_all", query="tea", scope=scope)
    assert refusal.kind is Kind.ARGUMENT
    assert refusal.message.startswith("scope:")
    assert not worlds.asked


async def test_a_budget_brings_whole_sections_with_pinned_locations(run: Any) -> None:
    text = "# Tea\n\nlead\n\n## Green\n\ncool\n\n## Black\n\nhot\n"
    reads = {
        "/": found(a_match(anchor="green", snippet="cool"), a_match("/b.md", snippet=""), body=True),
        "/tea.md": a_document(text, version=4),
        "/b.md": a_document("# B\n"),
    }
    outcome, _ = await run("mark_lookup", url="mark://kitchen/", reads=reads, query="cool", match="body", budget=200)
    assert ">>> mark://kitchen/tea.md/v4#green\n## Green\n\ncool\n" in outcome.body
    assert ">>> mark://kitchen/b.md/v1\n# B\n" in outcome.body
    assert "hot" not in outcome.body


async def test_no_section_is_cut_and_the_budget_holds(run: Any) -> None:
    reads = {
        "/": found(a_match("/a.md"), a_match("/b.md")),
        "/a.md": a_document("a" * 2000),
        "/b.md": a_document("b" * 100),
    }
    outcome, _ = await run("mark_lookup", url="mark://kitchen/", reads=reads, query="tea", budget=100)
    blocks = outcome.body.partition(">>>")[2]
    assert "aaa" not in blocks
    assert "b" * 100 in blocks
    assert len(blocks) <= 400


async def test_of_a_large_document_come_the_sections_with_every_word_else_the_outline(run: Any) -> None:
    large = "# Tea\n\n" + "leaves\n" * 1500 + "\n## Green\n\ncool water\n\n## Black\n\nhot water\n"
    reads = {"/": found(a_match()), "/tea.md": a_document(large)}
    outcome, _ = await run("mark_lookup", url="mark://kitchen/", reads=reads, query="Cool water", budget=500)
    assert ">>> mark://kitchen/tea.md/v1#green\n" in outcome.body
    assert "hot water" not in outcome.body
    outcome, _ = await run("mark_lookup", url="mark://kitchen/", reads=reads, query="juice", budget=500)
    assert ">>> mark://kitchen/tea.md/v1 (outline)\n- Tea (#tea, " in outcome.body


async def test_what_is_left_goes_to_related_documents_superseded_ones_first(run: Any) -> None:
    reads = {
        "/": found(a_match()),
        "/tea.md": a_document("new\n", **{"rel-cites": "c.md", "rel-supersedes": "old.md, mark://vault/x.md"}),
        "/old.md": a_document("old\n"),
        "/c.md": a_document("cited\n"),
    }
    outcome, worlds = await run("mark_lookup", url="mark://kitchen/", reads=reads, query="tea", budget=500)
    assert [request.path for request in worlds.asked] == ["/", "/tea.md", "/old.md", "/c.md"]
    assert outcome.body.index("old\n") < outcome.body.index("cited\n")


async def test_at_most_ten_documents_are_fetched(run: Any) -> None:
    rows = [a_match(f"/{number}.md") for number in range(30)]
    reads = {"/": found(*rows)} | {row.path: a_document("x\n") for row in rows}
    _, worlds = await run("mark_lookup", url="mark://kitchen/", reads=reads, query="tea", limit=30, budget=5000)
    assert len(worlds.asked) == 11
