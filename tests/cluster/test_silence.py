"""Where nothing has to be done nothing is written, and who can't be helped is in nobody's way."""

from __future__ import annotations

import contextlib
import time
from typing import Any

from demarkus_operator.cluster.port import Conflict
from demarkus_operator.plan.objects import Ref
from tests.cluster.home import Home, eventually

WORLDS = 50
ROUNDS = 10
NAMES = [f"world-{number}" for number in range(WORLDS)]


def a_world(name: str, **spec: Any) -> dict[str, Any]:
    content = {"store": {"volume": {"size": "1Gi"}}, "universeRef": {"name": "acme"}, **spec}
    return {"apiVersion": "demarkus.io/v1alpha1", "kind": "World", "metadata": {"name": name}, "spec": content}


def a_universe() -> dict[str, Any]:
    spec = {"publicURL": "https://mark.acme.example"}
    return {"apiVersion": "demarkus.io/v1alpha1", "kind": "Universe", "metadata": {"name": "acme"}, "spec": spec}


def apply_all(home: Home, manifests: list[dict[str, Any]]) -> None:
    """`kubectl apply` of many at once."""
    home.apply({"apiVersion": "v1", "kind": "List", "items": manifests})


async def test_row_3_ten_reconciles_of_fifty_worlds_write_nothing(home: Home) -> None:
    """Row 3: fields that the API server filled in are no difference."""
    operator = await home.operator()
    apply_all(home, [a_universe(), *map(a_world, NAMES)])
    subjects = [home.universe(), *(home.world(name) for name in NAMES)]
    await home.settled(subjects=subjects)
    versions, writes = await home.versions(), home.writes()
    for number in range(ROUNDS):
        before = len(operator.lines("reconcile"))
        home.kubectl("annotate", "worlds", "--all", "--overwrite", f"example.com/touched={number}")

        async def all_looked_at(before: int = before) -> bool:
            return {line["name"] for line in operator.lines("reconcile")[before:]} >= set(NAMES)

        await eventually(f"round {number} of all Worlds", all_looked_at)
    after = await home.versions()
    assert {ref for ref in versions if versions[ref] != after[ref]} == set(subjects[1:])  # by the annotation
    assert home.writes() == writes


async def test_fifty_broken_worlds_are_in_nobodys_way(home: Home) -> None:
    """The good are as fast as alone, the broken say why, and none of them is looked at all the time."""
    operator = await home.operator()
    apply_all(home, [a_universe(), *(a_world(f"alone-{n}") for n in range(10))])
    await home.settled(subjects=[home.universe(), *(home.world(f"alone-{n}") for n in range(10))])

    async def seconds_of(prefix: str) -> float:
        started = time.monotonic()
        apply_all(home, [a_world(f"{prefix}-{n}", reads="scoped") for n in range(10)])

        async def made() -> bool:
            found = await home.api.list("apps/v1", "StatefulSet", namespace=home.namespace)
            return len([one for one in found if one["metadata"]["name"].startswith(f"{prefix}-")]) == 10

        await eventually(f"the Worlds {prefix}-*", made)
        return time.monotonic() - started

    alone = await seconds_of("before")
    bad_pattern = [{"name": "robot", "operations": ["read"], "paths": ["/[a"]}]
    broken = [a_world(f"broken-{n}", tokens=bad_pattern) for n in range(WORLDS // 2)]
    taken = [f"taken-{n}" for n in range(WORLDS // 2)]
    for name in taken:  # somebody else's object bears the name of a child
        config = {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": f"{name}-world-config"}}
        broken += [config, a_world(name)]
    apply_all(home, broken)
    for n in range(WORLDS // 2):
        assert "spec.tokens[0].paths[0]" in (await home.reaches(home.world(f"broken-{n}"), "InvalidSpec"))["message"]
        assert "taken" in (await home.reaches(home.world(taken[n]), "NameInUse"))["message"]
    beside = await seconds_of("beside")
    print(f"ten Worlds alone: {alone:.1f} s; beside {WORLDS} broken ones: {beside:.1f} s")
    looks = [line["name"] for line in operator.lines("reconcile") if line["name"].startswith(("broken-", "taken-"))]
    assert max(looks.count(name) for name in set(looks)) <= 8, "a broken World is looked at all the time"


async def test_row_23_the_last_of_a_hundred_quick_edits_counts(home: Home) -> None:
    await home.operator()
    home.apply(a_universe(), a_world("handbook"))
    await home.settled(subjects=[home.universe(), home.world()])
    for number in range(1, 101):
        spec = {"spec": {"limits": {"maxStreams": number}}}
        while True:
            seen = await home.api.get(home.world())
            with contextlib.suppress(Conflict):  # the operator writes its status in between
                await home.api.patch(home.world(), spec, seen["metadata"]["resourceVersion"])
                break

    async def last() -> bool:
        world = await home.api.get(home.world())
        config = await home.api.get(Ref("v1", "ConfigMap", home.namespace, "handbook-world-config"))
        told: str = config["data"]["world.yaml"]
        seen, newest = world["status"]["observedGeneration"], world["metadata"]["generation"]
        return "maxStreams: 100\n" in told and bool(seen == newest)

    await eventually("the hundredth edit", last)
