"""Worlds that die or fall silent: what callers are told meanwhile, and that nothing is lost or written twice."""

from __future__ import annotations

import asyncio
import re
from collections.abc import AsyncIterator
from typing import Any

import pytest


class Relay(asyncio.DatagramProtocol):
    """Passes datagrams between clients and a server; while `deaf`, nothing of the server comes back."""

    def __init__(self, server: tuple[str, int]) -> None:
        self.deaf = False
        self._server = server
        self._ways: dict[Any, asyncio.DatagramTransport] = {}
        self._transport: asyncio.DatagramTransport | None = None

    async def start(self) -> int:
        loop = asyncio.get_running_loop()
        self._transport, _ = await loop.create_datagram_endpoint(lambda: self, local_addr=("127.0.0.1", 0))
        return int(self._transport.get_extra_info("sockname")[1])

    def close(self) -> None:
        for way in (self._transport, *self._ways.values()):
            way.close()

    def datagram_received(self, data: bytes, address: Any) -> None:
        asyncio.get_running_loop().create_task(self._forward(data, address))

    async def _forward(self, data: bytes, client: Any) -> None:
        if client not in self._ways:
            relay = self

            class Back(asyncio.DatagramProtocol):
                def datagram_received(self, data: bytes, address: Any) -> None:
                    if not relay.deaf:
                        relay._transport.sendto(data, client)

            loop = asyncio.get_running_loop()
            self._ways[client], _ = await loop.create_datagram_endpoint(Back, remote_addr=self._server)
        self._ways[client].sendto(data)


@pytest.fixture
async def relay(site: Any) -> AsyncIterator[Relay]:
    """A running site whose world kitchen is reached through a relay."""
    relay = Relay(("127.0.0.1", site.world("kitchen").port))
    port = await relay.start()
    site.start_broker(site["kitchen"].route(addresses=[f"127.0.0.1:{port}"]))
    yield relay
    relay.close()


async def test_a_write_whose_answer_dies_with_the_world_is_found_again(
    site: Any, relay: Relay, eventually: Any
) -> None:
    """The world has stored it and is killed before the answer is through; its successor knows it."""
    kitchen = site["kitchen"]
    await site.call("mark_publish", url="mark://kitchen/a.md", body="one\n", expected_version=0)
    relay.deaf = True
    publish = asyncio.create_task(
        site.call("mark_publish", url="mark://kitchen/a.md", body="one\ntwo\n", expected_version=1)
    )

    async def stored() -> bool:
        return (
            len(list((kitchen.config.parent / "data").rglob("v2-*.md"))) == 1 and kitchen.text().count('"created"') == 2
        )

    await eventually("the second version to be stored", stored)
    kitchen.kill()
    await asyncio.to_thread(kitchen.start)
    relay.deaf = False
    result = (await publish).structured_content
    assert (result["status"], result["metadata"]["version"]) == ("created", "2")
    assert "lost on the way" in result["help"]
    history = await site.call("mark_versions", url="mark://kitchen/a.md")
    assert history.structured_content["metadata"]["total"] == "2"


async def test_a_world_that_is_down_says_try_later_and_comes_back(site: Any, eventually: Any) -> None:
    kitchen, garden = site.world("kitchen"), site.world("garden")
    site.start_broker(kitchen.route(), garden.route())
    await site.call("mark_publish", url="mark://kitchen/a.md", body="x", expected_version=0)
    kitchen.kill()
    for _ in range(4):
        refused = (await site.call("mark_fetch", url="mark://kitchen/a.md")).structured_content
        assert refused["error"] == "try-later"
        assert "does not answer" in refused["message"]
        assert re.search(r"again in \d+ s", refused["help"])
    assert 'demarkus_broker_circuit_open{world="kitchen"} 1.0' in site.broker.metrics()
    assert site.broker.facts()["ready"]
    assert await site.fetch("garden") in ("ok", "not-found")
    kitchen.start()

    async def answered() -> bool:
        return await site.fetch("kitchen", "/a.md") == "ok"

    await eventually("the world to be reached again", answered, seconds=60)
    assert 'demarkus_broker_circuit_open{world="kitchen"} 0.0' in site.broker.metrics()


async def test_a_write_to_a_world_that_is_down_was_not_made(site: Any) -> None:
    kitchen = site.world("kitchen")
    site.start_broker(kitchen.route())
    assert kitchen.stop() == 0
    refused = await site.call("mark_publish", url="mark://kitchen/a.md", body="x", expected_version=0)
    assert refused.structured_content["error"] == "try-later"
    assert "nothing was done" in refused.structured_content["message"]
    kitchen.start()
    assert await site.fetch("kitchen", "/a.md") == "not-found"
