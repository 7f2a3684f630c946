"""mark_fetch: what is sent of a document, in which order that is decided."""

from __future__ import annotations

from typing import Any

import pytest

from demarkus_broker.mcp.tools.tool import Kind
from mark_protocol.response import Response

SMALL = b"# Tea\n\nAll about it.\n\n## Green tea\n\nCool.\n\n### Sencha\n\n## Black\n\nHot.\n"
LARGE = SMALL + b"\n## More\n\n" + b"tea leaves\n" * 800


def a_document(body: bytes = SMALL, **metadata: str) -> dict[str, Any]:
    keys = {"version": "3", "title": "Tea", "etag": "e" * 64, "modified": "2026-11-30T09:00:00Z", "agent": "pot"}
    return {"/tea.md": Response("ok", keys | metadata, body)}


async def test_lean_keys_are_version_and_title(run: Any) -> None:
    outcome, _ = await run("mark_fetch", reads=a_document())
    assert (outcome.status, outcome.keys, outcome.body) == ("ok", {"version": "3", "title": "Tea"}, SMALL.decode())


async def test_verbose_keys_begin_with_version_modified_etag(run: Any) -> None:
    outcome, _ = await run("mark_fetch", reads=a_document(), verbose=True)
    assert list(outcome.keys) == ["version", "modified", "etag", "agent", "title"]


async def test_a_large_document_is_an_outline(run: Any) -> None:
    outcome, _ = await run("mark_fetch", reads=a_document(LARGE))
    assert outcome.keys["mode"] == "outline"
    assert outcome.keys["size"] == f"{len(LARGE)} bytes, {LARGE.count(bytes([10]))} lines"
    assert outcome.body.splitlines()[:4] == [
        f"- Tea (#tea, {LARGE.count(bytes([10]))} lines)",
        "  - Green tea (#green-tea, 6 lines)",
        "    - Sencha (#sencha, 2 lines)",
        "  - Black (#black, 4 lines)",
    ]


async def test_a_document_one_byte_below_the_bound_is_sent_whole(run: Any) -> None:
    outcome, _ = await run("mark_fetch", reads=a_document(b"x" * 8191))
    assert outcome.body == "x" * 8191
    outcome, _ = await run("mark_fetch", reads=a_document(b"x" * 8192))
    assert outcome.keys["mode"] == "outline"


async def test_a_directory_is_never_an_outline(run: Any) -> None:
    index = Response("ok", {"entries": "900", "etag": "e" * 64}, b"- [a](a)\n" * 900)
    outcome, _ = await run("mark_fetch", reads={"/tea.md": index})
    assert outcome.body == index.body.decode()


@pytest.mark.parametrize("anchor", ["green-tea", "Green tea", "Green%20tea"])
async def test_a_section_goes_to_the_next_heading_that_is_not_deeper(run: Any, anchor: str) -> None:
    outcome, worlds = await run(
        "mark_fetch", reads=a_document(LARGE), url=f"mark://kitchen/tea.md#{anchor}", known_version=3
    )
    assert outcome.body == "## Green tea\n\nCool.\n\n### Sencha\n\n"
    assert outcome.keys["section"] == f"#{anchor.replace('%20', ' ')}"
    assert worlds.asked[0].path == "/tea.md"


async def test_an_unknown_section_is_an_error_that_lists_those_there_are(run: Any) -> None:
    refusal, _ = await run("mark_fetch", reads=a_document(), url="mark://kitchen/tea.md#oolong")
    assert refusal.kind is Kind.ARGUMENT
    assert "#oolong" in refusal.message
    assert refusal.help == "Its sections: #tea, #green-tea, #sencha, #black"


async def test_a_version_one_holds_is_unchanged_unless_forced(run: Any) -> None:
    outcome, _ = await run("mark_fetch", reads=a_document(LARGE), known_version=3)
    assert (outcome.status, outcome.body) == ("unchanged", "")
    assert outcome.keys == {"version": "3", "etag": "e" * 64}
    outcome, _ = await run("mark_fetch", reads=a_document(LARGE), known_version=3, force=True)
    assert outcome.body == LARGE.decode()
    outcome, _ = await run("mark_fetch", reads=a_document(), known_version=2)
    assert (outcome.status, outcome.body) == ("ok", SMALL.decode())


@pytest.mark.parametrize("body", [b"\xff\xfe", b"a\0b"], ids=["not UTF-8", "a zero byte"])
async def test_what_is_no_text_is_a_notice_whatever_is_asked(run: Any, body: bytes) -> None:
    for arguments in ({}, {"force": True}, {"known_version": 3}, {"url": "mark://kitchen/tea.md#a"}):
        outcome, _ = await run("mark_fetch", reads=a_document(body), **arguments)
        assert (outcome.status, outcome.body, outcome.keys["mode"]) == ("ok", "", "binary")


async def test_what_the_world_says_instead_comes_first(run: Any) -> None:
    gone = {"/tea.md": Response("archived")}
    outcome, _ = await run("mark_fetch", reads=gone, url="mark://kitchen/tea.md#a", known_version=3)
    assert outcome.status == "archived"


async def test_other_tools_take_whole_documents(run: Any) -> None:
    refusal, _ = await run("mark_versions", url="mark://kitchen/tea.md#green-tea")
    assert refusal.kind is Kind.ARGUMENT
