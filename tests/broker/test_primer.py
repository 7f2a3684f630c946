"""`mark://<world>/.context`: a primer from a world's own documents."""

from __future__ import annotations

from typing import Any

from demarkus_broker.mcp.tools.tool import Kind
from demarkus_broker.worlds.errors import Unavailable
from mark_protocol.listings import Child, render_list
from mark_protocol.response import Response

URL = "mark://kitchen/.context"


def a_document(text: str, version: int = 1) -> Response:
    return Response("ok", {"version": str(version)}, text.encode())


async def test_index_newest_journal_entries_and_roadmap_in_this_order(run: Any) -> None:
    names = ["2026-11-27.md", "2026-11-28.md", "2026-11-29.md", "2026-11-30.md", "index.md"]
    journal = render_list("/journal", [*map(Child, names), Child("old", is_directory=True)])
    reads = {"/index.md": a_document("# Home\n", 7), "/roadmap.md": a_document("# Plans\n")}
    reads |= {"/journal": Response("ok", {}, journal.body)}
    reads |= {f"/journal/{name}": a_document(f"{name} says\n") for name in names}
    outcome, _ = await run("mark_fetch", url=URL, reads=reads)
    assert (outcome.status, outcome.keys) == ("ok", {"mode": "context"})
    assert [line for line in outcome.body.splitlines() if line.startswith(">>> ")] == [
        ">>> mark://kitchen/index.md/v7",
        ">>> mark://kitchen/journal/2026-11-30.md/v1",
        ">>> mark://kitchen/journal/2026-11-29.md/v1",
        ">>> mark://kitchen/journal/2026-11-28.md/v1",
        ">>> mark://kitchen/roadmap.md/v1",
    ]
    assert "# Home" in outcome.body


async def test_each_document_is_clipped_at_a_line(run: Any) -> None:
    outcome, _ = await run("mark_fetch", url=URL, reads={"/index.md": a_document("é line\n" * 3000)})
    assert len(outcome.body.encode()) < 4200
    assert outcome.body.endswith("é line\n... clipped\n")


async def test_a_long_journal_is_read_to_its_end(run: Any) -> None:
    def page(request: Any) -> Response:
        if request.metadata.get("cursor") == "next":
            return Response("ok", {}, render_list("/journal", [Child("2026-12-01.md")]).body)
        return Response("ok", {"next-cursor": "next"}, render_list("/journal", [Child("2026-01-01.md")]).body)

    reads = {
        "/journal": page,
        "/journal/2026-12-01.md": a_document("new\n"),
        "/journal/2026-01-01.md": a_document("old\n"),
    }
    outcome, _ = await run("mark_fetch", url=URL, reads=reads)
    assert outcome.body.index("new") < outcome.body.index("old")


async def test_an_empty_world_says_so_and_one_that_is_gone_is_an_error(run: Any) -> None:
    outcome, _ = await run("mark_fetch", url=URL)
    assert "mark_list" in outcome.body
    gone = Unavailable("kitchen", "it can't be reached")
    refusal, _ = await run("mark_fetch", url=URL, reads={"/journal": gone})
    assert refusal.kind is Kind.TRY_LATER
