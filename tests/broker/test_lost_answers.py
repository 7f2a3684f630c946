"""Writes whose answer is lost, and writes that come too late: looked up, never sent again (pitfalls C34, F15)."""

from __future__ import annotations

from typing import Any

import pytest

from demarkus_broker.mcp.tools.tool import Kind
from demarkus_broker.worlds.errors import AnswerLost, GrantRefused, Unavailable
from mark_protocol.response import Response

LOST = AnswerLost("kitchen", "its answer was lost")
GONE = Unavailable("kitchen", "it can't be reached", after=3.0)
MISSING = Response("not-found", {}, b"\n# Not found\n\n/tea.md not found\n")


def a_version(number: int, body: bytes, **metadata: str) -> Response:
    keys = {"version": str(number), "modified": "2026-11-30T09:00:00Z", "agent": "kettle"}
    return Response("ok", keys | metadata, body)


async def test_a_lost_publish_that_is_there_is_reported_as_made(run: Any) -> None:
    reads = {"/tea.md/v3": a_version(3, b"new", tags="a,b"), "/tea.md/v2": a_version(2, b"old", tags="a,b")}
    outcome, worlds = await run(
        "mark_publish", write=LOST, reads=reads, body="new", expected_version=2, metadata={"tags": " a, b,"}
    )
    assert (outcome.status, outcome.keys["version"]) == ("created", "3")
    assert "lost on the way" in outcome.help
    assert len(worlds.writes) == 1


async def test_a_lost_publish_that_is_not_there_may_be_repeated(run: Any) -> None:
    refusal, worlds = await run("mark_publish", write=LOST, body="new", expected_version=2)
    assert refusal.kind is Kind.TRY_LATER
    assert "can't be applied twice" in refusal.help
    assert len(worlds.writes) == 1


@pytest.mark.parametrize(
    "other",
    [
        a_version(3, b"theirs"),
        a_version(3, b"new", tags="other"),
        a_version(3, b"new", tags="a", agent="toaster"),
    ],
    ids=["another body", "other metadata", "another agent"],
)
async def test_a_lost_publish_whose_version_is_anothers_is_a_conflict_with_their_text(
    run: Any, other: Response
) -> None:
    outcome, worlds = await run(
        "mark_publish",
        write=LOST,
        reads={"/tea.md/v3": other, "/tea.md": other},
        body="new",
        expected_version=2,
        metadata={"tags": "a"},
    )
    assert (outcome.status, outcome.keys) == ("conflict", {"your-version": "2", "server-version": "3"})
    assert outcome.data["current"]["body"] == other.body.decode()
    assert len(worlds.writes) == 1


async def test_with_the_world_gone_the_outcome_stays_unknown(run: Any) -> None:
    refusal, worlds = await run("mark_publish", write=LOST, reads={"/tea.md/v3": GONE}, body="new", expected_version=2)
    assert refusal.kind is Kind.OUTCOME_UNKNOWN
    assert "look before you write again" in refusal.help
    assert len(worlds.writes) == 1


@pytest.mark.parametrize(
    ("base", "whole"),
    [(b"one\n", b"one\ntwo"), (b"one", b"one\ntwo"), (b"", b"two")],
    ids=["ends in LF", "no LF", "empty"],
)
async def test_a_lost_append_is_judged_by_the_whole_body(run: Any, base: bytes, whole: bytes) -> None:
    reads = {"/tea.md/v3": a_version(3, whole), "/tea.md/v2": a_version(2, base)}
    outcome, _ = await run("mark_append", write=LOST, reads=reads, body="two", expected_version=2)
    assert (outcome.status, outcome.keys["version"]) == ("created", "3")


async def test_a_lost_append_is_not_taken_for_another_that_ends_alike(run: Any) -> None:
    theirs = a_version(3, b"one\nalso two")
    reads = {"/tea.md/v3": theirs, "/tea.md/v2": a_version(2, b"one\n"), "/tea.md": theirs}
    outcome, worlds = await run("mark_append", write=LOST, reads=reads, body="two", expected_version=2)
    assert outcome.status == "conflict"
    assert len(worlds.writes) == 1


async def test_a_lost_append_onto_a_pruned_version_can_not_be_claimed(run: Any) -> None:
    there = a_version(3, b"one\ntwo")
    outcome, _ = await run(
        "mark_append", write=LOST, reads={"/tea.md/v3": there, "/tea.md": there}, body="two", expected_version=2
    )
    assert outcome.status == "conflict"


async def test_a_conflict_brings_the_text_that_is_there(run: Any) -> None:
    conflict = Response("conflict", {"your-version": "2", "server-version": "4"}, b"# Version Conflict\n")
    outcome, _ = await run(
        "mark_publish",
        write=conflict,
        reads={"/tea.md": a_version(4, b"theirs\n")},
        body="mine",
        expected_version=2,
    )
    assert outcome.keys == {"your-version": "2", "server-version": "4"}
    assert "theirs\n" in outcome.body
    assert "expected_version 4" in outcome.help
    assert outcome.data["current"]["version"] == "4"


async def test_a_conflict_with_ones_own_earlier_write_is_success(run: Any) -> None:
    """A client repeats a call whose HTTP answer it lost: the first one had been made."""
    conflict = Response("conflict", {"your-version": "2", "server-version": "3"}, b"# Version Conflict\n")
    mine = a_version(3, b"mine")
    outcome, worlds = await run(
        "mark_publish", write=conflict, reads={"/tea.md": mine, "/tea.md/v3": mine}, body="mine", expected_version=2
    )
    assert (outcome.status, outcome.keys["version"]) == ("created", "3")
    assert len(worlds.writes) == 1


async def test_a_conflict_whose_world_goes_away_is_still_a_conflict(run: Any) -> None:
    conflict = Response("conflict", {"your-version": "2", "server-version": "4"}, b"# Version Conflict\n")
    outcome, _ = await run("mark_publish", write=conflict, reads={"/tea.md": GONE}, body="mine", expected_version=2)
    assert (outcome.status, outcome.keys["server-version"]) == ("conflict", "4")
    assert "mark_fetch" in outcome.help


async def test_a_conflict_with_an_archived_document_says_how_to_go_on(run: Any) -> None:
    conflict = Response("conflict", {"your-version": "2", "server-version": "4"}, b"# Version Conflict\n")
    outcome, _ = await run(
        "mark_publish", write=conflict, reads={"/tea.md": Response("archived")}, body="mine", expected_version=2
    )
    assert (outcome.status, outcome.body) == ("conflict", "")


async def test_a_lost_archive_is_settled_by_looking(run: Any) -> None:
    outcome, worlds = await run("mark_archive", write=LOST, reads={"/tea.md": Response("archived")})
    assert (outcome.status, outcome.keys) == ("ok", {"archived": "true"})
    refusal, worlds = await run("mark_archive", write=LOST, reads={"/tea.md": a_version(1, b"x")})
    assert refusal.kind is Kind.TRY_LATER
    refusal, worlds = await run("mark_archive", write=LOST, reads={"/tea.md": GONE})
    assert refusal.kind is Kind.OUTCOME_UNKNOWN
    assert len(worlds.writes) == 1


async def test_a_world_that_can_not_be_reached_says_when_to_try_again(run: Any) -> None:
    refusal, _ = await run("mark_publish", write=GONE, body="x", expected_version=0)
    assert refusal.kind is Kind.TRY_LATER
    assert "nothing was done" in refusal.message
    assert "3 s" in refusal.help


async def test_a_world_that_refuses_the_gateway_does_not_make_people_sign_in_again(run: Any) -> None:
    """F12: clients that read this as a fault of their token would refresh it for ever."""
    refusal, _ = await run("mark_publish", write=GrantRefused("kitchen", "no"), body="x", expected_version=0)
    assert refusal.kind is Kind.TRY_LATER
    assert "sign-in is fine" in refusal.help


async def test_an_append_without_a_version_takes_the_current_one(run: Any) -> None:
    history = Response("ok", {"current": "7", "total": "7"})
    _, worlds = await run(
        "mark_append", write=Response("created", {"version": "8"}), reads={"/tea.md": history}, body="x"
    )
    assert [request.verb for request in worlds.asked] == ["VERSIONS", "APPEND"]
    assert worlds.asked[1].metadata["expected-version"] == "7"


async def test_metadata_that_a_publish_drops_is_named(run: Any) -> None:
    before = a_version(2, b"old", tags="a", importance="0.9", type="Document", user="bob@example.com", etag="e" * 64)
    outcome, _ = await run(
        "mark_publish",
        write=Response("created", {"version": "3"}),
        reads={"/tea.md/v2": before},
        body="new",
        expected_version=2,
        metadata={"tags": "a"},
    )
    assert "importance" in outcome.help
    assert not any(key in outcome.help for key in ("tags", "user", "agent", "type", "etag"))


async def test_the_stamps_are_the_gateways_and_control_keys_are_refused(run: Any) -> None:
    made = Response("created", {"version": "1"})
    _, worlds = await run(
        "mark_publish", write=made, body="x", expected_version=0, metadata={"agent": "boss", "user": "boss@corp"}
    )
    assert worlds.writes[0].metadata == {"agent": "kettle", "expected-version": "0"}
    for key in ("auth", "expected-version", "if-none-match", "version", "previous-hash", "archived"):
        refusal, worlds = await run("mark_publish", write=made, body="x", expected_version=0, metadata={key: "1"})
        assert refusal.kind is Kind.ARGUMENT
        assert key in refusal.message
        assert not worlds.asked
