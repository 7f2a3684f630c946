"""The crash matrix of volumes that grow and of versions that are rolled out."""

from __future__ import annotations

import pytest

from demarkus_operator.plan.names import UniverseNames, WorldNames
from tests.reconcile.acme import Acme, a_universe, a_world, an_example
from tests.reconcile.crash import Put, Story, survives, told

NAMES = ("handbook", "packages")
TURN = 120
"""Seconds: more than a World has to serve before the next one follows."""


def pods_follow(acme: Acme) -> None:
    """Time passes; every controller has replaced its pods, and they serve."""
    acme.seconds += TURN
    workloads = [WorldNames("acme", name).stateful_set for name in NAMES]
    workloads.append(UniverseNames("acme", "acme").deployment)
    for ref in workloads:
        found = acme.port.objects[ref]
        replicas, generation = found["spec"]["replicas"], found["metadata"]["generation"]
        for field, value in (
            ("observedGeneration", generation),
            ("readyReplicas", replicas),
            ("updatedReplicas", replicas),
        ):
            acme.port.edit(ref, "status", field, value=value)


def volume_has_grown(acme: Acme) -> None:
    """The volume has the size that its claim asks for."""
    acme.port.edit(WorldNames("acme", "handbook").claim, "status", "capacity", value={"storage": "2Gi"})


LARGER = a_world(store={"volume": {"size": "2Gi"}})
ROLLED = [pods_follow] * 4

STORIES = [
    Story(
        name="grow a volume",
        before=[Put(*an_example()), pods_follow],
        steps=[Put(LARGER), volume_has_grown, pods_follow],
    ),
    Story(
        name="roll out a version",
        before=[Put(*an_example()), pods_follow, pods_follow],
        steps=[Put(a_universe(version="2", rollout={"canary": ["packages"]})), *ROLLED],
    ),
    Story(
        name="take a version back in the middle",
        before=[Put(*an_example()), pods_follow, pods_follow],
        steps=[Put(a_universe(version="2")), pods_follow, Put(a_universe(version="0.1.0")), *ROLLED],
    ),
]


@pytest.mark.parametrize("story", STORIES, ids=str)
async def test_a_death_after_any_write_leads_to_the_same_end(story: Story) -> None:
    deaths = await survives(story)
    print(f"{story}: {deaths} deaths")


@pytest.mark.parametrize(("story", "version"), [(STORIES[1], "2"), (STORIES[2], "0.1.0")], ids=str)
async def test_everybody_has_the_version_in_the_end(story: Story, version: str) -> None:
    acme, _ = await told(story)
    for name in NAMES:
        pod = acme.port.objects[WorldNames("acme", name).stateful_set]["spec"]["template"]["spec"]
        assert pod["containers"][0]["image"] == f"demarkus/world:{version}"
    assert "rollout.json" not in acme.port.objects[UniverseNames("acme", "acme").record]["data"]
