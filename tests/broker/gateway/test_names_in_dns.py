"""A world behind a Service: its name is resolved again and again, and a DNS that fails takes nothing away."""

from __future__ import annotations

import time
from collections.abc import Sequence
from typing import Any

import pytest
from prometheus_client import CollectorRegistry

from demarkus_broker.identity import person_of
from demarkus_broker.metrics import Metrics
from demarkus_broker.settings import HostPort, WorldSettings
from demarkus_broker.worlds import pool as world_pool
from demarkus_broker.worlds.directory import Directory
from demarkus_broker.worlds.errors import Unavailable
from demarkus_broker.worlds.grants import Grants
from demarkus_broker.worlds.pool import WorldPool
from mark_protocol.request import Request, Verb


class Names:
    """A DNS that answers what it is told."""

    def __init__(self, answer: Sequence[HostPort] | Exception) -> None:
        self.answer = answer
        self.asked = 0

    async def __call__(self, service: HostPort) -> Sequence[HostPort]:
        self.asked += 1
        if isinstance(self.answer, Exception):
            raise self.answer
        return self.answer


@pytest.fixture
async def ask(universe: Any, key_files: Any, monkeypatch: pytest.MonkeyPatch) -> Any:
    """Asks the world kitchen through a pool of its own whose names come from a `Names`."""
    monkeypatch.setattr(world_pool, "RESOLVE_EVERY", 0.0)
    route = {key: value for key, value in universe["kitchen"].route().items() if key != "addresses"}
    world = WorldSettings.model_validate(route | {"service": "kitchen-pods.team.svc:6309"})
    person = person_of({"iss": universe.url, "sub": "ann"})
    entry = Directory([world], generation=0).find("kitchen", person)
    grant = Grants(now=time.time).grant(person, entry, keys=key_files.load(), issuer=universe.url)
    pools = []

    def through(names: Names) -> Any:
        pool = WorldPool(metrics=Metrics(CollectorRegistry()), resolve=names)
        pool.adopt([world], universe.authority.pem)
        pools.append(pool)
        return lambda: pool.ask(world, Request(Verb.FETCH, "/", {"auth": grant.text}))

    yield through
    for pool in pools:
        await pool.close()


def there(universe: Any) -> HostPort:
    return HostPort("127.0.0.1", universe["kitchen"].port)


async def test_a_name_that_is_not_known_yet_is_asked_for_again(universe: Any, ask: Any) -> None:
    names = Names(OSError("no such name"))
    request = ask(names)
    with pytest.raises(Unavailable):
        await request()
    names.answer = [there(universe)]
    assert (await request()).status in ("ok", "not-found")


async def test_a_dns_that_fails_later_takes_no_address_away(universe: Any, ask: Any) -> None:
    names = Names([there(universe)])
    request = ask(names)
    await request()
    names.answer = OSError("DNS is down")
    assert (await request()).status in ("ok", "not-found")
    assert names.asked == 2


async def test_a_pod_that_comes_back_elsewhere_is_found(universe: Any, ask: Any) -> None:
    names = Names([HostPort("127.0.0.1", 1)])
    request = ask(names)
    with pytest.raises(Unavailable):
        await request()
    names.answer = [there(universe)]
    assert (await request()).status in ("ok", "not-found")
