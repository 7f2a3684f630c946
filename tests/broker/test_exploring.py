"""mark_explore, mark_discover and mark_resolve: around a document, what a world says of itself, content by hash."""

from __future__ import annotations

import hashlib
from typing import Any

from demarkus_broker.mcp.tools.tool import Kind
from demarkus_broker.worlds.errors import Unavailable
from mark_protocol.listings import Child, render_list
from mark_protocol.response import Response

TEXT = b"Green tea is brewed cool.\n"
HASH = "sha256-" + hashlib.sha256(TEXT).hexdigest()


def a_document(text: bytes, **metadata: str) -> Response:
    return Response("ok", {"version": "3", "title": "Tea", "agent": "pot"} | metadata, text)


def an_index(*rows: tuple[str, str, str]) -> Response:
    table = "".join(f"| {content} | {server} | {path} |\n" for content, server, path in rows)
    head = f"# Content Index\n\n> Source: mark://hub\n> Documents: {len(rows)}\n\n"
    return a_document(f"{head}| Hash | Server | Path |\n|------|--------|------|\n{table}".encode())


async def test_a_card_shows_outline_opening_links_and_siblings(run: Any) -> None:
    links = b"See [black](black.md#hot), [web](https://example.com/) and [here](#tea).\n"
    text = b"# Tea\n\nAll about *tea*.\n\n## Green\n\n" + links
    listing = render_list("/notes", [Child("black.md"), Child("old", is_directory=True), Child("tea.md")])
    reads = {
        "/notes/tea.md": a_document(text, **{"rel-supersedes": "old/tea.md"}),
        "/notes": Response("ok", {}, listing.body),
    }
    outcome, _ = await run("mark_explore", url="mark://kitchen/notes/tea.md", reads=reads)
    assert outcome.keys == {"version": "3", "title": "Tea", "size": f"{len(text)} bytes, 7 lines"}
    assert outcome.body == (
        "## Outline\n\n- Tea (#tea, 7 lines)\n  - Green (#green, 3 lines)\n\n"
        "## Opening\n\nAll about *tea*.\n\n"
        "## Outbound links (3)\n\n- mark://kitchen/notes/old/tea.md [supersedes]\n"
        "- mark://kitchen/notes/black.md#hot\n- https://example.com/\n\n"
        "## Siblings\n\n- mark://kitchen/notes/black.md\n- mark://kitchen/notes/old/\n"
    )


async def test_each_part_of_a_card_has_at_most_ten_rows(run: Any) -> None:
    text = "".join(f"# H{number}\n\n[x](d{number}.md)\n\n" for number in range(30)).encode()
    children = [Child(f"{number:02}.md") for number in range(30)]
    reads = {"/tea.md": a_document(text), "/": Response("ok", {}, render_list("/", children).body)}
    outcome, _ = await run("mark_explore", reads=reads)
    assert outcome.body.count("- ... 20 more\n") == 3
    assert len(outcome.body.splitlines()) < 60


async def test_a_card_without_its_directory_is_still_a_card(run: Any) -> None:
    gone = Unavailable("kitchen", "it can't be reached")
    outcome, _ = await run("mark_explore", reads={"/tea.md": a_document(b"text\n"), "/": gone})
    assert "## Siblings\n\n(none)\n" in outcome.body
    assert "(no headings)" in outcome.body
    outcome, _ = await run("mark_explore", reads={})
    assert outcome.status == "not-found"
    outcome, _ = await run("mark_explore", reads={"/tea.md": a_document(b"\xff")})
    assert outcome.keys["mode"] == "binary"


async def test_discovering_reads_the_manifest_wherever_one_points(run: Any) -> None:
    reads = {"/.well-known/agent-manifest.md": a_document(b"# Kitchen\n")}
    outcome, _ = await run("mark_discover", url="mark://kitchen/notes/", reads=reads)
    assert (outcome.status, outcome.body) == ("ok", "# Kitchen\n")
    outcome, _ = await run("mark_discover", url="mark://kitchen/", reads={})
    assert outcome.status == "not-found"
    assert "no manifest" in outcome.help


async def test_content_comes_from_the_first_place_that_gives_it(run: Any) -> None:
    reads = {
        "/tea.md": an_index(
            (HASH, "mark://elsewhere", "/x.md"),
            (HASH, "mark://garden", "/g.md"),
            (HASH, "mark://kitchen.team.svc", "/k.md"),
        ),
        f"garden/{HASH}": Unavailable("garden", "it can't be reached"),
        f"kitchen/{HASH}": a_document(TEXT),
    }
    outcome, worlds = await run("mark_resolve", worlds=("kitchen", "garden"), reads=reads, hash=HASH)
    assert (outcome.status, outcome.body) == ("ok", TEXT.decode())
    assert outcome.keys == {"url": "mark://kitchen/k.md", "content-hash": HASH}
    assert len(worlds.asked) == 3


async def test_content_that_is_not_what_its_hash_says_is_refused(run: Any) -> None:
    reads = {"/tea.md": an_index((HASH, "mark://kitchen", "/k.md")), f"/{HASH}": a_document(b"forged\n")}
    refusal, _ = await run("mark_resolve", reads=reads, hash=HASH)
    assert refusal.kind is Kind.BUG
    assert "other content" in refusal.message


async def test_a_hash_that_is_nowhere_open_is_not_found(run: Any) -> None:
    outcome, _ = await run("mark_resolve", reads={"/tea.md": an_index((HASH, "mark://elsewhere", "/x.md"))}, hash=HASH)
    assert (outcome.status, "open to you" in outcome.help) == ("not-found", True)
    outcome, _ = await run("mark_resolve", reads={"/tea.md": an_index()}, hash=HASH)
    assert (outcome.status, "open to you" in outcome.help) == ("not-found", False)


async def test_what_is_no_index_or_no_hash_is_refused(run: Any) -> None:
    refusal, _ = await run("mark_resolve", reads={"/tea.md": a_document(b"# Tea\n")}, hash=HASH)
    assert refusal.kind is Kind.ARGUMENT
    assert "no hash index" in refusal.message
    refusal, worlds = await run("mark_resolve", hash="sha256-ABC")
    assert refusal.kind is Kind.ARGUMENT
    assert not worlds.asked


async def test_an_index_in_shards_is_read_where_the_hash_can_be(run: Any) -> None:
    prefix = HASH.removeprefix("sha256-")[:2]
    other = "00" if prefix != "00" else "01"
    shard = (
        f"# Content Index Shard\n\n> Format: demarkus-hash-index-shard/v1\n> Prefix: {prefix}\n> Part: 0\n> Rows: 1\n\n"
        f"| Hash | Server | Path |\n|---|---|---|\n| {HASH} | mark://kitchen | /a%20b.md |\n"
    ).encode()
    rows = sorted(
        [
            (prefix, f"/tea.shards/a/{prefix}-000.md", "sha256-" + hashlib.sha256(shard).hexdigest(), len(shard)),
            (other, f"/tea.shards/a/{other}-000.md", "sha256-" + "0" * 64, 5),
        ]
    )
    table = "".join(f"| {name} | {path} | 2 | {content} | 1 | {size} |\n" for name, path, content, size in rows)
    manifest = (
        "# Content Index Manifest\n\n> Format: demarkus-hash-index/v2\n> Complete: true\n> Documents: 2\n"
        "> Active-Slot: a\n\n| Prefix | Path | Version | Content Hash | Rows | Bytes |\n|---|---|---|---|---|---|\n"
    )
    reads = {
        "/tea.md": a_document((manifest + table).encode()),
        f"/tea.shards/a/{prefix}-000.md/v2": a_document(shard),
        f"/{HASH}": a_document(TEXT),
    }
    outcome, worlds = await run("mark_resolve", reads=reads, hash=HASH)
    assert outcome.keys["url"] == "mark://kitchen/a%20b.md"
    assert len(worlds.asked) == 3
    reads[f"/tea.shards/a/{prefix}-000.md/v2"] = a_document(shard + b"\n")
    refusal, _ = await run("mark_resolve", reads=reads, hash=HASH)
    assert "not the shard" in refusal.message
    reads["/tea.md"] = a_document((manifest.replace("true", "false") + table).encode())
    refusal, _ = await run("mark_resolve", reads=reads, hash=HASH)
    assert "not complete" in refusal.message
