"""A new version goes through a real control plane one after the other, and stops at one that does not serve."""

from __future__ import annotations

import json
from typing import Any

from demarkus_operator.plan.names import UniverseNames, WorldNames
from demarkus_operator.plan.objects import Ref
from tests.cluster.home import Home, eventually

WORLDS = ("ink", "tea")


def _a_universe(version: str) -> dict[str, Any]:
    return {
        "apiVersion": "demarkus.io/v1alpha1",
        "kind": "Universe",
        "metadata": {"name": "acme"},
        "spec": {
            "publicURL": "https://mark.example.com",
            "version": version,
            "broker": {"replicas": 1},
            "rollout": {"canary": ["tea"], "delay": "1s"},
        },
    }


def _a_world(name: str) -> dict[str, Any]:
    return {
        "apiVersion": "demarkus.io/v1alpha1",
        "kind": "World",
        "metadata": {"name": name},
        "spec": {"universeRef": {"name": "acme"}, "store": {"volume": {"size": "1Gi"}}},
    }


async def _versions(home: Home) -> dict[str, str]:
    """The image tags of everybody's pods as their controllers are told them."""
    found = {}
    for name, ref in _workloads(home).items():
        containers = (await home.api.get(ref))["spec"]["template"]["spec"]["containers"]
        found[name] = containers[0]["image"].rpartition(":")[2]
    return found


def _workloads(home: Home) -> dict[str, Ref]:
    worlds = {name: WorldNames(home.namespace, name).stateful_set for name in WORLDS}
    return {**worlds, "gateway": UniverseNames(home.namespace, "acme").deployment}


async def _has(home: Home, **versions: str) -> None:
    async def probe() -> bool:
        return await _versions(home) == versions

    await eventually(f"the versions {versions}", probe)


async def _becomes_ready(home: Home, name: str, version: str) -> None:
    """The new pods of a workload get ready, and those of before are gone."""
    ref = _workloads(home)[name]

    async def replaced() -> bool:
        selector = ",".join(
            f"{key}={value}" for key, value in (await home.api.get(ref))["spec"]["selector"]["matchLabels"].items()
        )
        pods = json.loads(home.kubectl("get", "pods", f"--selector={selector}", "--output=json"))["items"]
        ready = {"status": {"phase": "Running", "conditions": [{"type": "Ready", "status": "True"}]}}
        new = [pod for pod in pods if pod["spec"]["containers"][0]["image"].endswith(f":{version}")]
        for pod in new:
            patch = ("--subresource=status", "--type=merge", "--patch", json.dumps(ready))
            home.kubectl("patch", "pod", pod["metadata"]["name"], *patch)
        for pod in pods:  # no kubelet ends them
            if "deletionTimestamp" in pod["metadata"]:
                home.kubectl("delete", "pod", pod["metadata"]["name"], "--force", "--grace-period=0")
        return bool(new) and len(pods) == len(new)

    await eventually(f"pods of {name} with version {version}", replaced)


async def test_a_version_reaches_canary_gateway_and_world_in_turn_and_goes_back_to_who_it_broke_at_once(
    home: Home,
) -> None:
    await home.operator()
    home.apply(_a_universe("1.0"), *map(_a_world, WORLDS))
    for world in WORLDS:
        await home.reaches(home.world(world), "Starting")
    for name in ("tea", "ink", "gateway"):
        await _becomes_ready(home, name, "1.0")
    for ref in (home.world("tea"), home.world("ink"), home.universe()):
        await home.reaches(ref, "Settled", type_="Progressing")

    home.apply(_a_universe("2.0"))
    await _has(home, tea="2.0", gateway="1.0", ink="1.0")
    await home.reaches(home.universe(), "RollingOut", type_="Progressing")
    assert (await home.api.get(home.universe()))["status"]["rollout"]["total"] == 3
    await _becomes_ready(home, "tea", "2.0")
    await _has(home, tea="2.0", gateway="2.0", ink="1.0")
    await _becomes_ready(home, "gateway", "2.0")
    await _has(home, tea="2.0", gateway="2.0", ink="2.0")

    # The last one never gets ready: with the version set back it is repaired at once, and waited for.
    home.apply(_a_universe("1.0"))
    await _has(home, tea="2.0", gateway="2.0", ink="1.0")
    await _becomes_ready(home, "ink", "1.0")
    await _has(home, tea="1.0", gateway="2.0", ink="1.0")
