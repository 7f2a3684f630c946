"""The tools end to end: the official MCP client, the broker, QUIC with grants, a world."""

from __future__ import annotations

import asyncio
import time
from typing import Any

import pytest


def text_of(result: Any) -> str:
    return str(result.content[0].text)


def word(result: Any) -> str:
    """The status of an answer, or the kind of an error."""
    structured = result.structured_content
    assert result.is_error == ("error" in structured)
    return str(structured.get("error") or structured["status"])


async def test_a_document_is_published_fetched_and_its_history_shown(universe: Any, a_path: str) -> None:
    url = f"mark://kitchen{a_path}"
    async with universe.client() as client:
        created = await client.call_tool(
            "mark_publish",
            {"url": url, "body": "# Tea\n", "expected_version": 0, "metadata": {"tags": "drinks, hot", "title": "Tea"}},
        )
        fetched = await client.call_tool("mark_fetch", {"url": url})
        verbose = await client.call_tool("mark_fetch", {"url": url, "verbose": True})
        history = await client.call_tool("mark_versions", {"url": url})
    assert word(created) == "created"
    assert created.structured_content["metadata"]["version"] == "1"
    assert fetched.structured_content == {
        "status": "ok",
        "metadata": {"version": "1", "title": "Tea"},
        "body": "# Tea\n",
    }
    assert text_of(fetched) == "status: ok\nversion: 1\ntitle: Tea\n\n# Tea\n"
    everything = verbose.structured_content["metadata"]
    assert everything["tags"] == "drinks,hot"
    assert list(everything)[:3] == ["version", "modified", "etag"]
    assert history.structured_content["metadata"]["chain-valid"] == "true"
    assert "[v1]" in history.structured_content["body"]


async def test_agent_and_user_are_stamped_whatever_the_caller_says(universe: Any, a_path: str) -> None:
    url = f"mark://kitchen{a_path}"
    async with universe.client("bob") as client:
        metadata = {"agent": "somebody", "user": "ann@example.com"}
        await client.call_tool("mark_publish", {"url": url, "body": "x", "expected_version": 0, "metadata": metadata})
        fetched = await client.call_tool("mark_fetch", {"url": url, "verbose": True})
    stamped = fetched.structured_content["metadata"]
    assert (stamped["user"], stamped["agent"]) == ("bob@example.com", "mcp")


async def test_f15_the_loser_gets_both_texts_and_can_go_on(universe: Any, a_path: str) -> None:
    url = f"mark://kitchen{a_path}"
    async with universe.client("ann") as ann, universe.client("bob") as bob:
        await ann.call_tool("mark_publish", {"url": url, "body": "one\n", "expected_version": 0})
        await bob.call_tool("mark_publish", {"url": url, "body": "one\nbob\n", "expected_version": 1})
        late = await ann.call_tool("mark_publish", {"url": url, "body": "one\nann\n", "expected_version": 1})
        assert word(late) == "merge-candidate"
        assert late.structured_content["metadata"]["publish-at-version"] == "2"
        assert late.structured_content["metadata"]["has-markers"] == "true"
        assert late.structured_content["current"]["body"] == "one\nbob\n"
        assert "bob\n" in text_of(late)
        assert "ann\n" in text_of(late)
        merged = await ann.call_tool("mark_publish", {"url": url, "body": "one\nbob\nann\n", "expected_version": 2})
        assert word(merged) == "created"
        last = await bob.call_tool("mark_fetch", {"url": url})
    assert last.structured_content["body"] == "one\nbob\nann\n"


async def test_creating_what_is_there_writes_nothing(universe: Any, a_path: str) -> None:
    url = f"mark://kitchen{a_path}"
    async with universe.client("ann") as client:
        await client.call_tool("mark_publish", {"url": url, "body": "first", "expected_version": 0})
    async with universe.client("bob") as client:
        second = await client.call_tool("mark_publish", {"url": url, "body": "second", "expected_version": 0})
        there = await client.call_tool("mark_fetch", {"url": url})
    assert word(second) == "merge-candidate"
    assert (there.structured_content["body"], there.structured_content["metadata"]["version"]) == ("first", "1")


async def test_the_same_call_twice_writes_once(universe: Any, a_path: str) -> None:
    """A client that lost the HTTP answer repeats its call."""
    arguments = {"url": f"mark://kitchen{a_path}", "body": "once", "expected_version": 0}
    async with universe.client() as client:
        answers = [await client.call_tool("mark_publish", arguments) for _ in range(2)]
        history = await client.call_tool("mark_versions", {"url": arguments["url"]})
    assert [word(answer) for answer in answers] == ["created", "created"]
    assert "had been made before" in answers[1].structured_content["help"]
    assert history.structured_content["metadata"]["total"] == "1"


async def test_publishing_what_is_there_already_makes_no_version(universe: Any, a_path: str) -> None:
    url = f"mark://kitchen{a_path}"
    async with universe.client() as client:
        await client.call_tool("mark_publish", {"url": url, "body": "same", "expected_version": 0})
        again = await client.call_tool("mark_publish", {"url": url, "body": "same", "expected_version": 1})
    assert (word(again), again.structured_content["metadata"]["version"]) == ("ok", "1")


async def test_appends_add_up(universe: Any, a_path: str) -> None:
    url = f"mark://kitchen{a_path}"
    async with universe.client() as client:
        nothing = await client.call_tool("mark_append", {"url": url, "body": "x"})
        tags = {"tags": "log"}
        await client.call_tool("mark_publish", {"url": url, "body": "one", "expected_version": 0, "metadata": tags})
        second = await client.call_tool("mark_append", {"url": url, "body": "two\n"})
        third = await client.call_tool("mark_append", {"url": url, "body": "three", "expected_version": 2})
        late = await client.call_tool("mark_append", {"url": url, "body": "late", "expected_version": 1})
        there = await client.call_tool("mark_fetch", {"url": url, "verbose": True})
    assert word(nothing) == "not-found"
    assert "mark_publish" in nothing.structured_content["help"]
    assert [answer.structured_content["metadata"]["version"] for answer in (second, third)] == ["2", "3"]
    assert word(late) == "conflict"
    assert late.structured_content["current"]["body"] == "one\ntwo\nthree"
    assert there.structured_content["body"] == "one\ntwo\nthree"
    assert there.structured_content["metadata"]["tags"] == "log"


async def test_archive_and_back(universe: Any, a_path: str) -> None:
    url = f"mark://kitchen{a_path}"
    async with universe.client() as client:
        await client.call_tool("mark_publish", {"url": url, "body": "text", "expected_version": 0})
        archived = await client.call_tool("mark_archive", {"url": url})
        again = await client.call_tool("mark_archive", {"url": url})
        gone = await client.call_tool("mark_fetch", {"url": url})
        old = await client.call_tool("mark_fetch", {"url": f"{url}/v1"})
        refused = await client.call_tool("mark_publish", {"url": url, "body": "new", "expected_version": 1})
        back = await client.call_tool("mark_publish", {"url": url, "body": "", "expected_version": 1})
        there = await client.call_tool("mark_fetch", {"url": url})
    assert [word(answer) for answer in (archived, again, gone, old, refused, back, there)] == [
        "ok", "ok", "archived", "ok", "archived", "ok", "ok",
    ]  # fmt: skip
    assert "empty body" in gone.structured_content["help"]
    assert "Nothing was written" in back.structured_content["help"]
    assert there.structured_content["metadata"]["version"] == "1"


async def test_what_is_not_there_is_no_error_of_the_tool(universe: Any, a_path: str) -> None:
    async with universe.client() as client:
        for tool in ("mark_fetch", "mark_versions", "mark_list", "mark_archive"):
            answer = await client.call_tool(tool, {"url": f"mark://kitchen{a_path}"})
            assert word(answer) == "not-found", tool


async def test_a_version_one_holds_is_not_sent_again(universe: Any, a_path: str) -> None:
    url = f"mark://kitchen{a_path}"
    async with universe.client() as client:
        await client.call_tool("mark_publish", {"url": url, "body": "text", "expected_version": 0})
        known = await client.call_tool("mark_fetch", {"url": url, "known_version": 1})
        await client.call_tool("mark_append", {"url": url, "body": "more"})
        newer = await client.call_tool("mark_fetch", {"url": url, "known_version": 1})
    assert word(known) == "unchanged"
    assert "body" not in known.structured_content
    assert newer.structured_content["body"] == "text\nmore"


async def test_a_directory_is_listed_page_by_page(universe: Any, a_path: str) -> None:
    folder = f"mark://kitchen{a_path.removesuffix('.md')}"
    async with universe.client() as client:
        for name in ("a", "b", "c"):
            await client.call_tool("mark_publish", {"url": f"{folder}/{name}.md", "body": name, "expected_version": 0})
        await client.call_tool("mark_archive", {"url": f"{folder}/b.md"})
        first = await client.call_tool("mark_list", {"url": f"{folder}/", "page_size": 1})
        cursor = first.structured_content["metadata"]["next-cursor"]
        second = await client.call_tool("mark_list", {"url": folder, "page_size": 1, "cursor": cursor})
        everything = await client.call_tool("mark_list", {"url": folder, "include_archived": True})
        index = await client.call_tool("mark_fetch", {"url": folder})
        wrong = await client.call_tool("mark_list", {"url": folder, "cursor": "x"})
    assert "call again with cursor" in first.structured_content["help"]
    assert first.structured_content["metadata"]["complete"] == "false"
    assert "(a.md)" in first.structured_content["body"]
    assert second.structured_content["metadata"]["complete"] == "true"
    assert "(c.md)" in second.structured_content["body"]
    assert everything.structured_content["metadata"]["entries"] == "3"
    assert index.structured_content["metadata"] == {"entries": "2"}
    assert word(wrong) == "bad-request"


@pytest.mark.parametrize(
    "body",
    ["\n\nempty lines first", "---\ntitle: mine\n---\n# Own\n", "no end", "Ünï¢ode \U0001f375\n", "a\r\nb\n"],
    ids=["empty lines", "front matter", "no line feed", "unicode", "crlf"],
)  # fmt: skip
async def test_a_text_comes_back_as_it_went(universe: Any, a_path: str, body: str) -> None:
    url = f"mark://kitchen{a_path}"
    async with universe.client() as client:
        made = await client.call_tool("mark_publish", {"url": url, "body": body, "expected_version": 0})
        there = await client.call_tool("mark_fetch", {"url": url})
    assert word(made) == "created"
    assert there.structured_content["body"] == body
    assert text_of(there).endswith(f"\n\n{body}")


async def test_the_largest_document_fits_and_a_larger_one_is_refused_here(universe: Any, a_path: str) -> None:
    url = f"mark://kitchen{a_path}"
    whole = "é\n" * (1_048_576 // 3)
    async with universe.client() as client:
        made = await client.call_tool("mark_publish", {"url": url, "body": whole, "expected_version": 0})
        there = await client.call_tool("mark_fetch", {"url": url, "force": True})
        more = await client.call_tool("mark_publish", {"url": url, "body": whole + "éé", "expected_version": 1})
    assert word(made) == "created"
    assert there.structured_content["body"] == whole
    assert word(more) == "bad-argument"


@pytest.mark.parametrize(
    ("path", "arguments"),
    [
        ("/x.txt", {"body": "not markdown", "expected_version": 0}),
        ("/x.md", {"body": "text", "expected_version": 0, "metadata": {"Bad Key": "x"}}),
        ("/x.md", {"body": "text", "expected_version": 0, "metadata": {"k": "x" * 2000}}),
        ("/x.md", {"body": "text", "expected_version": 0, "metadata": {"k": "two\nlines"}}),
        ("/versions/x.md", {"body": "text", "expected_version": 0}),
    ],
    ids=["not .md", "bad key", "too much metadata", "line feed in a value", "reserved segment"],
)
async def test_what_a_world_refuses_is_passed_on_with_its_reason(universe: Any, path: str, arguments: Any) -> None:
    async with universe.client() as client:
        answer = await client.call_tool("mark_publish", {"url": f"mark://kitchen{path}"} | arguments)
        assert word(answer) == "bad-request"
        assert answer.structured_content["body"]
        assert word(await client.call_tool("mark_fetch", {"url": f"mark://kitchen{path}"})) == "not-found"


async def test_names_with_odd_characters_are_one_document(universe: Any, a_path: str) -> None:
    name = a_path.removesuffix(".md") + " #1? 100%.md"
    printed = f"mark://kitchen{name}".replace("%", "%25").replace("#", "%23").replace("?", "%3F")
    async with universe.client() as client:
        made = await client.call_tool("mark_publish", {"url": printed, "body": "x", "expected_version": 0})
        there = await client.call_tool("mark_fetch", {"url": printed.replace(" ", "%20")})
    assert (word(made), word(there)) == ("created", "ok")


async def test_documents_are_found_in_one_world_and_in_all(universe: Any, a_path: str) -> None:
    word_of_its_own = a_path.removeprefix("/t/").removesuffix(".md")
    publish = {"body": f"# About {word_of_its_own}\n\n## Part\n\nText.\n", "expected_version": 0}
    async with universe.client("bob") as client:
        for world in ("kitchen", "garden"):
            await client.call_tool("mark_publish", {"url": f"mark://{world}{a_path}"} | publish)

        async def rows(tool: str, **arguments: Any) -> int:
            answer = await client.call_tool(tool, {"query": word_of_its_own} | arguments)
            assert word(answer) == "ok"
            return int(answer.structured_content["metadata"]["matches"])

        await eventually_found(rows, 1, "mark_lookup", url="mark://kitchen/")
        await eventually_found(rows, 2, "mark_lookup_all")
        answer = await client.call_tool("mark_lookup_all", {"query": word_of_its_own, "budget": 400})
    assert f">>> mark://garden{a_path}/v1\n# About" in answer.structured_content["body"]
    async with universe.client("ann") as client:
        assert await rows_for(client, word_of_its_own) == 1, "the garden is bob's alone"


async def rows_for(client: Any, query: str) -> int:
    answer = await client.call_tool("mark_lookup_all", {"query": query})
    return int(answer.structured_content["metadata"]["matches"])


async def eventually_found(rows: Any, count: int, tool: str, **arguments: Any) -> None:
    """Catalogs lag behind their worlds by up to a second."""
    deadline = time.monotonic() + 60
    while await rows(tool, **arguments) != count:
        assert time.monotonic() < deadline, f"waited for {count} rows of {tool}"
        await asyncio.sleep(0.1)
