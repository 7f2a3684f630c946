"""What is decided before a verb, and what becomes of the store's faults."""

import asyncio
from collections.abc import Callable
from typing import Any

import pytest

from demarkus_world.engine.engine import OutcomeUnknown, StoreFull, Unavailable
from mark_protocol.response import Response


@pytest.mark.parametrize("verb", ["FETCH", "LIST", "VERSIONS", "PUBLISH", "APPEND", "ARCHIVE", "LOOKUP", "WATCH"])
async def test_parent_segments_are_not_found_before_anything_else(a_world: Callable[..., Any], verb: str) -> None:
    world = await a_world(tokens=None)
    for path in ("/a/../b.md", "/..", "/../etc/passwd"):
        response = await world.ask(verb, path, b"x", auth="")
        assert response == Response("not-found", {}, f"\n# Not found\n\n{path} not found\n".encode())


async def test_names_that_only_look_like_parents_are_names(a_world: Callable[..., Any]) -> None:
    world = await a_world()
    await world.publish("/..a/b..md.md", b"x")
    assert (await world.ask("FETCH", "/..a/b..md.md")).body == b"x"


@pytest.mark.parametrize(
    ("error", "status", "message"),
    [
        (Unavailable("no answer"), "server-error", "store is unavailable; try again later"),
        (OutcomeUnknown("0f" * 16), "server-error", "outcome unknown, operation " + "0f" * 16),
        (StoreFull("no space"), "server-error", "store is full"),
    ],
)
async def test_faults_of_the_store_become_statuses(
    a_world: Callable[..., Any], monkeypatch: pytest.MonkeyPatch, error: Exception, status: str, message: str
) -> None:
    world = await a_world()

    async def fail(*_: Any, **__: Any) -> None:
        raise error

    monkeypatch.setattr(world.engine, "write", fail)
    response = await world.ask("PUBLISH", "/a.md", b"x")
    assert (response.status, response.body.decode().split("\n")[3]) == (status, message)
    assert world.fault == str(error)


async def test_a_read_ends_within_its_time(a_world: Callable[..., Any], monkeypatch: pytest.MonkeyPatch) -> None:
    world = await a_world()
    await world.publish("/a.md")

    async def never(*_: Any, **__: Any) -> None:
        await asyncio.Event().wait()

    monkeypatch.setattr(world.engine, "stored_at_hand", lambda _: None)
    monkeypatch.setattr(world.engine, "stored", never)
    world.timeout = 0.01
    response = await world.ask("FETCH", "/a.md")
    assert (response.status, world.fault) == ("server-error", "not done within 0.01 s")
