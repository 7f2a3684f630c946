"""A client for works of many requests: how it deals with a server that is too busy."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import AsyncExitStack

import pytest

from mark_protocol.client import patience
from mark_protocol.client.patience import PatientClient
from mark_protocol.client.pool import Pool
from mark_protocol.response import Response, encode_response
from mark_protocol.transport.port import Trust

OK = Response("ok", {"version": "1"}, b"# Tea\n")
BUSY = Response("rate-limited")


@pytest.fixture
async def a_client(kit, trust: Trust, monkeypatch: pytest.MonkeyPatch) -> AsyncIterator:
    """Makes (client, server, the pauses it was told of) of the responses that the server gives one after the other."""
    monkeypatch.setattr(patience, "SHORTEST", 0.01)
    monkeypatch.setattr(patience, "LONGEST", 0.04)
    async with AsyncExitStack() as stack:

        async def make(*responses: Response, **given):
            left = list(responses)
            server = await kit.listener(answer=lambda data: (encode_response(left.pop(0) if left[1:] else left[0]),))
            pool = Pool([server.listener.address], server_name="localhost", trust=trust)
            stack.push_async_callback(pool.close)
            pauses: list[float] = []
            return PatientClient(pool, waiting=pauses.append, **given), server, pauses

        yield make


async def test_what_a_server_is_too_busy_for_is_asked_again_later_and_later(a_client):
    client, server, pauses = await a_client(BUSY, BUSY, BUSY, BUSY, OK)
    assert await client.fetch("/tea.md") == OK
    assert pauses == [0.01, 0.02, 0.04, 0.04]
    assert len(server.requests) == 5


async def test_a_write_was_not_done_so_it_is_asked_again_too(a_client):
    client, server, _ = await a_client(BUSY, OK)
    assert (await client.publish("/tea.md", b"x")).status == "ok"
    assert server.requests[0] == server.requests[1]


async def test_a_server_may_say_when_it_wants_to_be_asked(a_client):
    client, _, pauses = await a_client(Response("rate-limited", {"retry-after": "0.1"}), OK)
    assert await client.fetch("/tea.md") == OK
    assert pauses == [0.1]


@pytest.mark.parametrize("asked", ["", "soon", "-1", "nan", "inf"])
async def test_what_it_says_may_be_nonsense(a_client, asked):
    client, _, pauses = await a_client(Response("rate-limited", {"retry-after": asked}), OK)
    assert await client.fetch("/tea.md") == OK
    assert pauses == [0.01]


async def test_patience_ends(a_client):
    client, server, pauses = await a_client(BUSY, patience=0.1)
    assert await client.fetch("/tea.md") == BUSY
    assert pauses == [0.01, 0.02, 0.04], "the next pause would be too much"
    assert len(server.requests) == 4


@pytest.mark.parametrize("asked", ["3600", "0.2"])
async def test_it_does_not_wait_longer_than_its_patience(a_client, asked):
    client, _, pauses = await a_client(Response("rate-limited", {"retry-after": asked}), patience=0.1)
    assert (await client.fetch("/tea.md")).status == "rate-limited"
    assert pauses == []


async def test_other_refusals_are_not_repeated(a_client):
    client, server, _ = await a_client(Response.error("not-found", "/tea.md not found"))
    assert (await client.fetch("/tea.md")).status == "not-found"
    assert len(server.requests) == 1
