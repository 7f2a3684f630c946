"""Running processes are asked where they are, and what they say becomes a report, whatever they say."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping, Sequence
from typing import Any

import pytest

from demarkus_base.health import HealthServer, Readiness
from demarkus_operator.plan import labels
from demarkus_operator.plan.objects import Manifest, Ref
from demarkus_operator.plan.reports import Report, all_gone_on, all_loaded
from demarkus_operator.processes.asked import Asked, Place
from demarkus_operator.processes.pods import in_cluster, place_of

TEA = Ref("demarkus.io/v1alpha1", "World", "acme", "tea")
SAID = {
    "history": "0a" * 16,
    "incarnation": "1b" * 16,
    "loaded": {"tokens": "ff" * 32},
    "tokenUses": {"importer": 1_800_000_000_000},
}


def a_pod(name: str = "tea-world-0", **status: Any) -> Manifest:
    return {
        "metadata": {"name": name, "resourceVersion": "7", "annotations": {labels.SYNCED: "abc"}},
        "status": {"phase": "Running", "podIP": "10.0.0.7", **status},
    }


async def ask(*places: Place) -> Sequence[Report]:
    async def found(ref: Ref) -> Sequence[Place]:
        return places

    return await Asked(found, timeout=20.0).reports(TEA)


@pytest.mark.parametrize("ready", [True, False])
async def test_process_tells_of_itself_whether_it_serves_or_not(ready: bool) -> None:
    async with HealthServer("127.0.0.1", 0, lambda: Readiness(ready, () if ready else ("StoreLost: x",), SAID)) as one:
        place = Place(pod="tea-world-0", address="{}:{}".format(*one.address), resource_version="7", synced="abc")
        (report,) = await ask(place)
    assert report == Report(
        pod="tea-world-0",
        ready=ready,
        history="0a" * 16,
        incarnation="1b" * 16,
        loaded={"tokens": "ff" * 32},
        used={"importer": 1_800_000_000_000},
        problems=() if ready else ("StoreLost: x",),
        resource_version="7",
        synced="abc",
    )


async def test_whoever_does_not_answer_is_told_of_in_the_order_of_names() -> None:
    async def hang_up(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await reader.read(1)
        writer.write(b"HTTP/1.1 200 OK\r\n\r\nno json")
        writer.close()

    server = await asyncio.start_server(hang_up, "127.0.0.1", 0)
    async with server:
        address = "{}:{}".format(*server.sockets[0].getsockname())
        reports = await ask(
            Place(pod="c", address=None),
            Place(pod="b", address="127.0.0.1:1", ready=False),
            Place(pod="a", address=address),
        )
    assert [(report.pod, report.reached, report.ready) for report in reports] == [
        ("a", False, True),
        ("b", False, False),
        ("c", False, True),
    ]


@pytest.mark.parametrize("odd", [{"loaded": 3, "tokenUses": [], "reasons": {}}, {"loaded": {"a": 1}, "history": 5}])
async def test_odd_answer_is_left_out(odd: dict[str, Any]) -> None:
    async with HealthServer("127.0.0.1", 0, lambda: Readiness(True, (), odd)) as one:
        (report,) = await ask(Place(pod="a", address="{}:{}".format(*one.address)))
    assert (report.reached, report.loaded, report.used, report.history) == (True, {}, {}, None)


class Pods:
    """A port that has pods."""

    def __init__(self, *pods: Manifest) -> None:
        self.pods = pods
        self.asked: list[Any] = []

    async def list(
        self, api_version: str, kind: str, *, namespace: str | None = None, labels: Mapping[str, str] | None = None
    ) -> Sequence[Manifest]:
        self.asked.append((api_version, kind, namespace, labels))
        return self.pods


async def test_pods_are_found_by_one_list_and_only_those_that_run_are_asked() -> None:
    port: Any = Pods(a_pod(), a_pod("b", phase="Pending"), a_pod("c", podIP="fd00::7"), a_pod("d", podIP=None))
    places = await in_cluster(port)(TEA)
    assert [(place.pod, place.address) for place in places] == [
        ("tea-world-0", "10.0.0.7:8081"),
        ("c", "[fd00::7]:8081"),
        ("d", None),
    ]
    assert port.asked == [("v1", "Pod", "acme", labels.world_selector("tea"))]


def test_pod_is_ready_when_the_cluster_says_so() -> None:
    assert not place_of(a_pod()).ready
    ready = place_of(a_pod(conditions=[{"type": "Ready", "status": "True"}]))
    assert (ready.ready, ready.resource_version, ready.synced) == (True, "7", "abc")


LOADED = Report(pod="a", ready=True, loaded={"tls": "x"})


@pytest.mark.parametrize(
    ("other", "agreed", "gone_on"),
    [
        (Report(pod="b", ready=True, loaded={"tls": "x"}), True, True),
        (Report(pod="b", ready=True, loaded={"tls": "y"}), False, False),
        (Report(pod="b", ready=True, reached=False), False, False),
        (Report(pod="b", ready=False, loaded={"tls": "y"}), True, False),
        (Report(pod="b", ready=False, reached=False), True, True),
    ],
    ids=["all", "one-behind", "one-silent", "one-not-serving", "one-gone"],
)
def test_who_counts_when_something_is_to_be_known_by_all(other: Report, agreed: bool, gone_on: bool) -> None:
    assert all_loaded([LOADED, other], "tls", "x") is agreed
    assert all_gone_on([LOADED, other], "tls", "x") is gone_on
