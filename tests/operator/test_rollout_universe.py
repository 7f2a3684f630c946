"""A new version of a Universe reaches its pods one after the other, by way of the record."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable
from datetime import timedelta
from typing import Any

import pytest

Build = Callable[..., dict[str, Any]]
NAMES = ("a", "b", "c")


class Rolling:
    """A Universe of three Worlds whose pods get ready, but for those that a version breaks."""

    def __init__(self, cluster: Any, a_world: Build, a_universe: Build) -> None:
        self.cluster = cluster
        self.a_universe = a_universe
        self.order: list[str] = []
        self.broken: set[tuple[str, str]] = set()
        self.images: dict[str, str] = {}
        cluster.put(a_universe(version="1"))
        for name in NAMES:
            cluster.put(a_world(name))
        cluster.settle()
        self.kubelet()
        self.order.clear()

    def kubelet(self) -> None:
        for kind, name in (("Deployment", "acme-broker"), *(("StatefulSet", f"{world}-world") for world in NAMES)):
            workload = self.cluster.get(kind, name)
            image = workload["spec"]["template"]["spec"]["containers"][0]["image"]
            who, version = name.rpartition("-")[0], image.rpartition(":")[2]
            if self.images.get(who) != image:
                self.images[who] = image
                self.order.append(who)
            ready = 0 if (who, version) in self.broken else workload["spec"]["replicas"]
            self.cluster.set_status(kind, name, {"readyReplicas": ready, "updatedReplicas": ready})

    def step(self, seconds: float = 40) -> None:
        """Some time later: everybody is reconciled, pods follow, everybody is reconciled."""
        self.cluster.now += timedelta(seconds=seconds)
        self.cluster.settle()
        self.kubelet()
        self.cluster.settle()

    def ask(self, version: str, **rollout: Any) -> None:
        spec = {"rollout": rollout} if rollout else {}
        self.cluster.put(self.a_universe(version=version, **spec))

    def tags(self) -> dict[str, str]:
        return {who: image.rpartition(":")[2] for who, image in self.images.items()}

    def condition(self, type_: str) -> tuple[str, str, str]:
        found: tuple[str, str, str] = self.cluster.condition("Universe", "acme", type_)
        return found


@pytest.fixture
def rolling(cluster: Any, a_world: Build, a_universe: Build) -> Rolling:
    made = Rolling(cluster, a_world, a_universe)
    made.step()
    return made


def test_canary_gateway_and_then_the_others_get_it(rolling: Rolling) -> None:
    rolling.ask("2", canary=["b"])
    for expected in (["b"], ["b", "acme"], ["b", "acme", "a"], ["b", "acme", "a", "c"]):
        rolling.step()
        assert rolling.order == expected
    assert rolling.condition("Progressing")[0] == "False"
    assert "rollout" not in rolling.cluster.get("Universe", "acme")["status"]
    assert set(rolling.cluster.get("ConfigMap", "acme-record")["data"]) == {"bindings.json"}
    rolling.cluster.writes.clear()
    rolling.step()
    assert rolling.cluster.writes == []


def test_the_status_says_how_far_it_is(rolling: Rolling) -> None:
    rolling.ask("2", canary=["b"])
    rolling.cluster.settle()
    status = rolling.cluster.get("Universe", "acme")["status"]
    assert status["version"] == "2"
    message = status["rollout"].pop("message")
    assert message.startswith("World b")
    assert status["rollout"] == {"version": "2", "updated": 1, "total": 4, "reason": "RollingOut"}
    assert rolling.condition("Progressing")[:2] == ("True", "RollingOut")
    assert rolling.cluster.get("World", "b")["status"]["version"] == "2"
    assert rolling.cluster.get("World", "a")["status"]["version"] == "1"


def test_a_version_that_breaks_the_canary_reaches_nobody_else_and_is_taken_back(rolling: Rolling) -> None:
    rolling.broken = {("b", "2")}
    rolling.ask("2", canary=["b"])
    for _ in range(20):
        rolling.step(60)
    assert rolling.order == ["b"]
    assert rolling.condition("Degraded")[:2] == ("True", "RolloutHalted")
    assert "World b does not serve with it" in rolling.condition("Degraded")[2]
    assert rolling.condition("Ready")[0] == "True"
    rolling.ask("1", canary=["b"])
    rolling.step()
    assert set(rolling.tags().values()) == {"1"}
    rolling.step()
    assert rolling.condition("Degraded")[0] == "False"
    assert "rollout" not in rolling.cluster.get("Universe", "acme")["status"]


def test_a_world_with_a_version_of_its_own_takes_no_part(rolling: Rolling, a_world: Build) -> None:
    rolling.cluster.put(a_world("a", version="7"))
    rolling.step()
    rolling.order.clear()
    rolling.ask("2")
    for _ in range(4):
        rolling.step()
    assert rolling.order == ["acme", "b", "c"]
    assert rolling.tags()["a"] == "7"


def test_a_new_operator_in_the_middle_goes_on_from_the_record_and_changes_nothing_else(rolling: Rolling) -> None:
    rolling.ask("2", canary=["b"])
    rolling.step()
    site = dataclasses.replace(rolling.cluster.site, version="9")
    rolling.cluster.site = site
    for _ in range(4):
        rolling.step()
    assert rolling.order == ["b", "acme", "a", "c"]
    assert set(rolling.tags().values()) == {"2"}


def test_a_paused_universe_takes_no_new_version(rolling: Rolling) -> None:
    universe = rolling.a_universe(version="2")
    universe["metadata"]["annotations"] = {"demarkus.io/paused": "true"}
    rolling.cluster.put(universe)
    for _ in range(3):
        rolling.step()
    assert rolling.order == []
    rolling.ask("2")
    for _ in range(4):
        rolling.step()
    assert len(rolling.order) == 4


def test_a_world_that_was_deleted_is_not_waited_for(rolling: Rolling) -> None:
    rolling.broken = {("b", "2")}
    rolling.ask("2", canary=["b"])
    rolling.step()
    rolling.cluster.drop("World", "b")
    rolling.cluster.now += timedelta(seconds=40)
    rolling.cluster.settle()
    message = rolling.cluster.get("Universe", "acme")["status"]["rollout"]["message"]
    assert message.startswith("the gateway")


def test_worlds_whose_universe_is_gone_keep_the_version_they_have(rolling: Rolling) -> None:
    rolling.ask("2", canary=["b"])
    rolling.step()
    rolling.cluster.drop("Universe", "acme")
    rolling.cluster.settle()
    for name, version in (("a", "1"), ("b", "2"), ("c", "1")):
        assert rolling.cluster.get("World", name)["status"]["version"] == version
