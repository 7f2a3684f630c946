"""Worlds whose store is a bucket, as processes against the stand-in."""

import json
import os
import socket
import time
import urllib.error
import urllib.request
from collections.abc import Callable, Iterator
from typing import Any

import pytest

from dev.gcs.faults import Fault
from dev.gcs.process import StandIn, started


@pytest.fixture
def stand_in() -> Iterator[StandIn]:
    with started("kettles") as running:
        yield running


@pytest.fixture
def bucket_world(
    start_world: Callable[..., Any], token_file: Callable[..., str], stand_in: StandIn
) -> Callable[..., Any]:
    """Starts worlds of one history on the same bucket."""

    def start(**fields: Any) -> Any:
        store = {"gcs": {"url": "gs://kettles/tea", "service": stand_in.address}}
        tokens = token_file(("admin", "/**", ("publish",)))
        return start_world(**{"store": store, "tokens": tokens, "reads": "public", **fields})

    return start


def metric(world: Any, line: str) -> float:
    """The value of one sample, named with its labels as `/metrics` shows it."""
    found = [text for text in world.health("/metrics").splitlines() if text.startswith(line + " ")]
    return float(found[0].rpartition(" ")[2]) if found else 0.0


async def test_worlds_share_a_bucket_and_survive_each_other(bucket_world: Any, stand_in: StandIn) -> None:
    first, second = bucket_world(), bucket_world()
    assert (await first.request("PUBLISH", "/tea.md", b"# Tea\n", auth="admin")).status == "created"
    assert (await second.request("PUBLISH", "/tea.md", b"# Green tea\n", auth="admin")).status == "created"
    assert (await first.request("FETCH", "/tea.md")).body == b"# Green tea\n"
    first.kill()
    assert (
        await second.request("APPEND", "/tea.md", b"Hot.\n", auth="admin", expected_version="2")
    ).status == "created"
    first.start()
    assert (await first.request("FETCH", "/tea.md")).body == b"# Green tea\nHot.\n"
    assert first.health()["sequence"] == 3
    assert {name.split("/")[0] for name in stand_in.names("kettles")} == {"tea"}


async def test_an_unreachable_bucket_is_told_and_no_reason_to_be_taken_out(
    bucket_world: Any, stand_in: StandIn, wait_until: Any
) -> None:
    world = bucket_world(limits={"requestTimeout": "1s"})
    await world.request("PUBLISH", "/tea.md", b"# Tea\n", auth="admin")
    assert world.health()["store"] == {"reachable": True}
    stand_in.fail(Fault(kind="refuse", status=503))
    for verb, body in (("PUBLISH", b"# Other\n"), ("FETCH", b"")):
        assert (await world.request(verb, "/tea.md", body, auth="admin")).status == "server-error"
    told = world.health()
    assert told["ready"]
    assert not told["store"]["reachable"]
    assert "HTTP 503" in told["store"]["problem"]
    assert metric(world, "demarkus_world_store_reachable") == 0
    assert metric(world, 'demarkus_world_store_calls_total{call="get",outcome="unavailable"}') > 0
    stand_in.fail()
    wait_until("the bucket to be reachable", lambda: world.health()["store"]["reachable"])
    assert (await world.request("PUBLISH", "/tea.md", b"# Other\n", auth="admin")).status == "created"


async def test_a_world_waits_for_its_bucket(bucket_world: Any, stand_in: StandIn, wait_until: Any) -> None:
    world = bucket_world()
    await world.request("PUBLISH", "/tea.md", b"# Tea\n", auth="admin")
    world.stop()
    stand_in.fail(Fault(kind="refuse", status=503))
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        health = f"127.0.0.1:{free.getsockname()[1]}"
    world.write_config(listen={"mark": "127.0.0.1:0", "health": health})

    def probe() -> Any:
        try:
            with urllib.request.urlopen(f"http://{health}/readyz?verbose", timeout=5) as answer:
                return json.load(answer)
        except urllib.error.HTTPError as refused:
            return json.load(refused)
        except OSError:
            return None

    def begun() -> bool:
        told = probe()
        return told is not None and not told["ready"] and "can't be reached" in told["reasons"][0]

    world.start(wait=False)
    wait_until("the world to say what it waits for", begun)
    stand_in.fail()
    world.wait()
    assert (await world.request("FETCH", "/tea.md")).body == b"# Tea\n"


async def test_slow_reads_are_hedged_and_counted(bucket_world: Any, stand_in: StandIn) -> None:
    world = bucket_world()
    await world.request("PUBLISH", "/tea.md", b"# Tea\n", auth="admin")
    stand_in.fail(Fault(kind="slow", calls=("get",), times=1, seconds=5))
    assert (await world.request("FETCH", "/tea.md")).status == "ok"
    assert metric(world, 'demarkus_world_store_hedged_reads_total{result="sent"}') == 1
    assert metric(world, 'demarkus_world_store_hedged_reads_total{result="won"}') == 1


@pytest.mark.parametrize("prefix", ["tea/docs/", "tea/log/"])
async def test_a_throttled_bucket_costs_time_and_no_write(bucket_world: Any, stand_in: StandIn, prefix: str) -> None:
    """What was said not to be done is not there when the bucket takes calls again, what was left open may be.

    `make test-stress` keeps the bucket throttled for a minute.
    """
    world = bucket_world(limits={"requestTimeout": "1s"})
    await world.request("PUBLISH", "/before.md", b"# Before\n", auth="admin")
    told: dict[str, str] = {}
    stand_in.fail(Fault(kind="refuse", calls=("insert",), prefix=prefix, status=429))
    until = time.monotonic() + float(os.environ.get("DEMARKUS_THROTTLE_SECONDS", "3"))
    while time.monotonic() < until or not told:
        path = f"/during-{len(told)}.md"
        response = await world.request("PUBLISH", path, b"# During\n", auth="admin")
        assert response.status == "server-error"
        told[path] = response.body.decode()
        assert world.health()["ready"]
        assert (await world.request("FETCH", "/before.md")).status == "ok", "reading goes on"
    stand_in.fail()
    for _ in range(10):  # the next try of what is left open may be some seconds away
        written = await world.request("PUBLISH", "/after.md", b"# After\n", auth="admin")
        if written.status != "server-error":
            break
    assert written.status in ("created", "ok"), "and writing goes on again"
    for path, text in told.items():
        there = (await world.request("FETCH", path)).status == "ok"
        assert there == ("unknown" in text), f"{path}: {text}"
    assert metric(world, 'demarkus_world_store_calls_total{call="create",outcome="throttled"}') > 0
