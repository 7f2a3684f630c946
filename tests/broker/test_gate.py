"""The gate: arguments, then authorization; nothing that does not pass reaches a world."""

from __future__ import annotations

from typing import Annotated, Any

import pytest
from pydantic import Field

from demarkus_broker.mcp.gate import admit
from demarkus_broker.mcp.tools.table import TOOLS, table
from demarkus_broker.mcp.tools.tool import Arguments, Cost, Kind, Refusal, Tool
from demarkus_broker.worlds.directory import Directory


@pytest.fixture
def refused(a_world: Any, a_person: Any) -> Any:
    """Takes a call to the gate of a universe of two worlds and gives its refusal."""
    kitchen = a_world(access={"writers": [{"emails": ["ann@example.com"], "paths": ["/notes/**"]}]})
    vault = a_world("vault", access={"readers": [{"emails": ["bob@example.com"]}]})
    directory = Directory([kitchen, vault], generation=0)

    def ask(tool: str, who: str = "ann", **arguments: Any) -> Refusal:
        with pytest.raises(Refusal) as caught:
            admit(TOOLS[tool], arguments, person=a_person(who), agent="kettle", worlds=directory)
        return caught.value

    return ask


URL = "mark://kitchen/notes/tea.md"


@pytest.mark.parametrize(
    ("tool", "arguments", "says"),
    [
        ("mark_fetch", {}, "url: is required"),
        ("mark_fetch", {"url": 7}, "url: Input should be a valid string"),
        ("mark_fetch", {"url": None}, "url: Input should be a valid string"),
        ("mark_fetch", {"url": "kitchen"}, "url: expected mark://"),
        ("mark_fetch", {"url": URL, "verbos": True}, "verbos: is not an argument of this tool"),
        ("mark_fetch", {"url": URL, "verbose": "yes"}, "verbose:"),
        ("mark_fetch", {"url": URL, "known_version": 0}, "known_version:"),
        ("mark_fetch", {"url": "mark://kitchen/\ud800"}, "url:"),
        ("mark_list", {"url": URL, "page_size": 1001}, "page_size:"),
        ("mark_list", {"url": URL, "page_size": 0}, "page_size:"),
        ("mark_publish", {"url": URL, "body": "x"}, "expected_version: is required"),
        ("mark_publish", {"url": URL, "body": "x", "expected_version": -1}, "expected_version:"),
        ("mark_publish", {"url": URL, "body": "x", "expected_version": "1"}, "expected_version:"),
        ("mark_publish", {"url": URL, "body": "x", "expected_version": True}, "expected_version:"),
        ("mark_publish", {"url": URL, "body": "x", "expected_version": 2**31}, "expected_version:"),
        ("mark_publish", {"url": URL, "body": "\ud800", "expected_version": 0}, "body:"),
        ("mark_publish", {"url": URL, "body": "x", "expected_version": 0, "metadata": {"n": 1}}, "metadata.n:"),
        ("mark_publish", {"url": URL, "body": "x", "expected_version": 0, "metadata": ["a"]}, "metadata:"),
        ("mark_append", {"url": URL, "body": ""}, "body:"),
        ("mark_worlds", {"url": URL}, "url: is not an argument of this tool"),
    ],
    ids=str,
)
def test_arguments_that_do_not_hold_are_named(refused: Any, tool: str, arguments: dict[str, Any], says: str) -> None:
    refusal = refused(tool, **arguments)
    assert refusal.kind is Kind.ARGUMENT
    assert says in refusal.message


def test_a_refused_argument_is_not_shown_again(refused: Any) -> None:
    refusal = refused("mark_publish", url=URL, body="x", expected_version="hunter2")
    assert "hunter2" not in refusal.message + refusal.help


def test_a_world_one_may_not_read_looks_like_one_that_is_not_there(refused: Any) -> None:
    hidden, missing = (refused("mark_fetch", url=f"mark://{name}/a.md") for name in ("vault", "nowhere"))
    assert hidden.kind is missing.kind is Kind.NO_SUCH_WORLD
    assert hidden.message.replace("vault", "X") == missing.message.replace("nowhere", "X")
    assert hidden.help == missing.help


def test_arguments_come_before_authorization(refused: Any) -> None:
    assert refused("mark_publish", url="mark://vault/a.md", body="x").kind is Kind.ARGUMENT


@pytest.mark.parametrize("tool", ["mark_publish", "mark_append", "mark_archive"])
def test_a_reader_writes_nothing(refused: Any, tool: str) -> None:
    more = {"mark_publish": {"body": "x", "expected_version": 0}, "mark_append": {"body": "x"}}.get(tool, {})
    refusal = refused(tool, "bob", url=URL, **more)
    assert refusal.kind is Kind.NOT_PERMITTED
    assert "mark_worlds" in refusal.help


def test_a_writer_is_told_where_they_may_write(refused: Any) -> None:
    refusal = refused("mark_append", url="mark://kitchen/plans.md", body="x")
    assert refusal.kind is Kind.NOT_PERMITTED
    assert "/notes/**" in refusal.help


def test_an_empty_body_needs_the_right_to_archive(a_world: Any, a_person: Any) -> None:
    world = a_world(access={"writers": [{"emails": ["ann@example.com"], "operations": ["archive"]}]})
    directory = Directory([world], generation=0)

    def ask(body: str) -> Any:
        given = {"url": URL, "body": body, "expected_version": 0}
        return admit(TOOLS["mark_publish"], given, person=a_person(), agent="kettle", worlds=directory)

    assert ask("").targets["url"].path == "/notes/tea.md"
    with pytest.raises(Refusal):
        ask("text")


class WorldArguments(Arguments):
    url: Annotated[str, Field()]


def a_tool(**fields: Any) -> Tool[Any]:
    defaults = {
        "name": "mark_x",
        "title": "",
        "description": "",
        "arguments": WorldArguments,
        "world_arguments": ("url",),
        "cost": Cost.READ,
        "operation": lambda _: "read",
        "handler": lambda _: None,
    }
    return Tool(**(defaults | fields))


@pytest.mark.parametrize("world_arguments", [(), ("url", "target"), ("other",)])
def test_a_row_that_hides_a_world_from_the_gate_is_no_row(world_arguments: tuple[str, ...]) -> None:
    with pytest.raises(ValueError, match="mark_x"):
        table([a_tool(world_arguments=world_arguments)])


def test_a_name_is_used_once() -> None:
    with pytest.raises(ValueError, match="two tools"):
        table([a_tool(), a_tool()])


def test_these_are_the_tools() -> None:
    reading = ["fetch", "explore", "list", "versions", "lookup", "lookup_all", "worlds", "discover", "resolve"]
    assert list(TOOLS) == [f"mark_{name}" for name in (*reading, "publish", "append", "archive")]
