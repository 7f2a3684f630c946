"""Worlds that die: what callers are told meanwhile, and that the gateway finds them again."""

from __future__ import annotations

import re
from typing import Any


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
