"""Bounds: of waiting requests, of slow bodies. Nothing grows or waits without end."""

from __future__ import annotations

import asyncio
import socket
from collections.abc import Iterator
from typing import Any

import pytest
from prometheus_client import CollectorRegistry
from starlette.datastructures import Headers

from demarkus_broker import front
from demarkus_broker.metrics import Metrics
from demarkus_broker.worlds import pool as world_pool
from demarkus_broker.worlds.errors import Unavailable
from demarkus_broker.worlds.pool import WorldPool
from mark_protocol.request import Request, Verb


@pytest.fixture
def silence() -> Iterator[str]:
    """An address where somebody listens and never answers."""
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as listener:
        listener.bind(("127.0.0.1", 0))
        yield f"127.0.0.1:{listener.getsockname()[1]}"


async def test_requests_above_the_bound_of_a_world_are_turned_away_at_once(a_world: Any, silence: str) -> None:
    metrics = Metrics(CollectorRegistry())
    pool, world = WorldPool(metrics=metrics), a_world(addresses=[silence])
    pool.adopt([world], b"")
    more = 20
    tasks = [
        asyncio.create_task(pool.ask(world, Request(Verb.FETCH, "/a.md")))
        for _ in range(world_pool.MOST_WAITING + more)
    ]
    done, waiting = await asyncio.wait(tasks, timeout=10, return_when=asyncio.FIRST_COMPLETED)
    assert (len(done), len(waiting)) == (more, world_pool.MOST_WAITING)
    assert all("too many requests" in str(task.exception()) for task in done)
    await pool.close()
    assert all(isinstance(end, Unavailable) for end in await asyncio.gather(*tasks, return_exceptions=True))


async def test_a_world_that_is_taken_out_ends_behind_its_last_request(a_world: Any, silence: str) -> None:
    pool, world = WorldPool(metrics=Metrics(CollectorRegistry())), a_world(addresses=[silence])
    pool.adopt([world], b"")
    last = asyncio.create_task(pool.ask(world, Request(Verb.FETCH, "/a.md")))
    await asyncio.sleep(0)
    pool.adopt([], b"")
    with pytest.raises(Unavailable, match="taken out"):
        await pool.ask(world, Request(Verb.FETCH, "/a.md"))
    assert not last.done()
    await pool.close()
    with pytest.raises(Unavailable, match="can't be reached"):
        await last


async def test_a_body_that_does_not_arrive_is_given_up(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(front, "BODY_DEADLINE", 0.05)

    async def receive() -> Any:
        await asyncio.Event().wait()

    with pytest.raises(front._BodyRefused) as refused:
        await front._whole_body(Headers(), receive)
    assert refused.value.status == 408


async def test_a_body_without_a_declared_length_is_cut_at_the_bound() -> None:
    async def receive() -> Any:
        return {"type": "http.request", "body": b"x" * 65536, "more_body": True}

    with pytest.raises(front._BodyRefused) as refused:
        await front._whole_body(Headers(), receive)
    assert refused.value.status == 413


async def test_a_client_that_goes_away_in_its_body_gets_nothing() -> None:
    async def receive() -> Any:
        return {"type": "http.disconnect"}

    assert await front._whole_body(Headers(), receive) is None
