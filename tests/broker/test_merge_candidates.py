"""Writes that come too late: a merge to look through, and metadata changed key by key (F15)."""

from __future__ import annotations

from typing import Any

import pytest

from demarkus_broker.mcp.tools.tool import Kind
from demarkus_broker.worlds.errors import Unavailable
from mark_protocol.response import Response

CONFLICT = Response("conflict", {"your-version": "1", "server-version": "2"}, b"# Version Conflict\n")
CREATED = Response("created", {"version": "3"})


def a_version(number: int, body: bytes, **metadata: str) -> Response:
    return Response("ok", {"version": str(number), "modified": "2026-11-30T09:00:00Z", "agent": "pot"} | metadata, body)


def history(*bodies: bytes) -> dict[str, Any]:
    """A document with these versions, as it is read."""
    reads = {f"/tea.md/v{number}": a_version(number, body) for number, body in enumerate(bodies, 1)}
    return {**reads, "/tea.md": a_version(len(bodies), bodies[-1])}


async def test_f15_changes_in_different_places_come_back_as_one_text(run: Any) -> None:
    reads = history(b"one\ntwo\nthree\n", b"ONE\ntwo\nthree\n")
    outcome, worlds = await run(
        "mark_publish", write=CONFLICT, reads=reads, body="one\ntwo\nTHREE\n", expected_version=1
    )
    assert outcome.status == "merge-candidate"
    assert outcome.keys == {
        "your-version": "1",
        "current-version": "2",
        "publish-at-version": "2",
        "has-markers": "false",
    }
    assert outcome.body == "ONE\ntwo\nTHREE\n"
    assert outcome.data["current"]["body"] == "ONE\ntwo\nthree\n"
    assert len(worlds.writes) == 1, "a merge is never written without its caller"


async def test_f15_changes_of_one_line_come_back_with_both_texts(run: Any) -> None:
    reads = history(b"one\n", b"theirs\n")
    outcome, _ = await run("mark_publish", write=CONFLICT, reads=reads, body="mine\n", expected_version=1)
    assert outcome.keys["has-markers"] == "true"
    assert outcome.body == "<<<<<<< yours\nmine\n=======\ntheirs\n>>>>>>> version 2\n"
    assert "expected_version 2" in outcome.help


async def test_f15_two_who_create_one_document_get_both_texts(run: Any) -> None:
    outcome, _ = await run(
        "mark_publish", write=CONFLICT, reads=history(b"theirs\n"), body="mine\n", expected_version=0
    )
    assert outcome.status == "merge-candidate"
    assert "mine\n" in outcome.body
    assert "theirs\n" in outcome.body
    assert outcome.keys["publish-at-version"] == "1"


@pytest.mark.parametrize("why", ["asked to fail", "pruned base", "not text", "base can't be read"])
async def test_f15_without_a_merge_it_is_a_conflict_with_the_current_text(run: Any, why: str) -> None:
    reads = history(b"one\n", b"\xff" if why == "not text" else b"theirs\n")
    arguments: dict[str, Any] = {"on_conflict": "fail"} if why == "asked to fail" else {}
    if why == "pruned base":
        del reads["/tea.md/v1"]
    if why == "base can't be read":
        reads["/tea.md/v1"] = Unavailable("kitchen", "gone")
    outcome, worlds = await run(
        "mark_publish", write=CONFLICT, reads=reads, body="mine\n", expected_version=1, **arguments
    )
    assert outcome.status == "conflict"
    assert outcome.keys == {"your-version": "1", "server-version": "2"}
    assert len(worlds.writes) == 1


async def test_f15_a_publish_has_to_say_what_it_was_made_for(run: Any) -> None:
    refusal, worlds = await run("mark_publish", write=CREATED, body="mine")
    assert refusal.kind is Kind.ARGUMENT
    assert "expected_version: is required" in refusal.message
    assert not worlds.asked


async def test_f15_a_late_append_is_a_conflict_with_the_current_text(run: Any) -> None:
    outcome, _ = await run(
        "mark_append", write=CONFLICT, reads=history(b"one\n", b"one\nbob\n"), body="ann\n", expected_version=1
    )
    assert (outcome.status, outcome.data["current"]["body"]) == ("conflict", "one\nbob\n")


async def test_ones_own_write_is_recognised_under_anothers(run: Any) -> None:
    """The first answer was lost, somebody went on from there, and the call comes again."""
    reads = history(b"one\n", b"mine\n", b"mine\nbob\n")
    reads["/tea.md/v2"] = a_version(2, b"mine\n", agent="kettle")
    outcome, _ = await run("mark_publish", write=CONFLICT, reads=reads, body="mine\n", expected_version=1)
    assert (outcome.status, outcome.keys["version"]) == ("created", "2")
    assert "at version 3 by now" in outcome.help


async def test_a_patch_sets_and_drops_single_keys_and_keeps_the_rest(run: Any) -> None:
    reads = {"/tea.md/v2": a_version(2, b"text", tags="a,b", title="Tea", importance="0.9", retention="3", user="bob")}
    outcome, worlds = await run(
        "mark_publish",
        write=CREATED,
        reads=reads,
        body=None,
        expected_version=2,
        metadata_patch={"importance": None, "tags": "a", "status": "done"},
    )
    assert outcome.status == "created"
    (write,) = worlds.writes
    assert write.body == b"text"
    expected = {"tags": "a", "title": "Tea", "status": "done", "agent": "kettle", "expected-version": "2"}
    assert write.metadata == expected, "retention is never carried over"


async def test_a_patch_goes_with_a_new_text_too(run: Any) -> None:
    _, worlds = await run("mark_publish", write=CREATED, body="x", expected_version=0, metadata_patch={"tags": "a"})
    assert worlds.writes[0].metadata == {"tags": "a", "agent": "kettle", "expected-version": "0"}


async def test_a_patch_of_a_version_that_is_gone_writes_nothing(run: Any) -> None:
    outcome, worlds = await run(
        "mark_publish", write=CREATED, body="x", expected_version=2, metadata_patch={"tags": "a"}
    )
    assert outcome.status == "not-found"
    assert "whole" in outcome.help
    assert not worlds.writes


@pytest.mark.parametrize(
    ("arguments", "says"),
    [
        ({"body": "x", "metadata": {"a": "b"}, "metadata_patch": {"a": None}}, "not both"),
        ({}, "body: is required"),
        ({"body": None}, "metadata_patch only"),
        ({"body": None, "metadata_patch": {"a": "b"}, "expected_version": 0}, "metadata_patch needs a body"),
        ({"metadata_patch": {"a": "b"}, "body": ""}, "metadata_patch needs a body"),
        ({"body": None, "metadata_patch": {"version": "9"}}, "metadata.version"),
        ({"body": None, "metadata_patch": {"auth": None}}, "metadata.auth"),
        ({"body": "x", "on_conflict": "overwrite"}, "on_conflict:"),
    ],
    ids=str,
)
async def test_arguments_that_do_not_go_together_are_refused(run: Any, arguments: Any, says: str) -> None:
    refusal, worlds = await run("mark_publish", write=CREATED, **{"expected_version": 2} | arguments)
    assert refusal.kind is Kind.ARGUMENT
    assert says in refusal.message
    assert not worlds.asked


async def test_tags_that_a_publish_drops_are_named(run: Any) -> None:
    reads = {"/tea.md/v2": a_version(2, b"old", tags="a,b", type="Document")}
    outcome, _ = await run(
        "mark_publish", write=CREATED, reads=reads, body="new", expected_version=2, metadata={"tags": "b, c"}
    )
    assert "the tag a." in outcome.help
