"""Names belong to whom they were given first, and objects to whom they were made by."""

from __future__ import annotations

import json
from typing import Any

from demarkus_operator.plan.names import WorldNames
from tests.cluster.home import Home, eventually


def a_world(name: str = "handbook", **spec: Any) -> dict[str, Any]:
    content = {"store": {"volume": {"size": "1Gi"}}, **spec}
    return {"apiVersion": "demarkus.io/v1alpha1", "kind": "World", "metadata": {"name": name}, "spec": content}


def a_universe(**spec: Any) -> dict[str, Any]:
    content = {"publicURL": "https://mark.acme.example", **spec}
    return {"apiVersion": "demarkus.io/v1alpha1", "kind": "Universe", "metadata": {"name": "acme"}, "spec": content}


async def test_the_second_world_of_a_name_is_name_taken(home: Home, other_namespace: str) -> None:
    await home.operator(namespaces=[home.namespace, other_namespace])
    home.apply(a_universe(worlds={"allowedNamespaces": {"selector": {}}}), a_world(universeRef={"name": "acme"}))
    await home.settled(subjects=[home.universe(), home.world()])
    before = await home.versions()
    late = a_world(universeRef={"name": "acme", "namespace": home.namespace})
    home.plane.kubectl("--namespace", other_namespace, "apply", "--filename", "-", input=json.dumps(late))
    second = WorldNames(other_namespace, "handbook")
    condition = await home.reaches(home.world_in(other_namespace), "NameTaken")
    assert condition["status"] == "False"
    assert f"{home.namespace}/handbook" in condition["message"]
    assert await home.find(second.stateful_set) is None
    assert (await home.condition(home.world()))["reason"] == "Starting"
    after = await home.versions()
    assert {ref for ref in before if before[ref] != after[ref]} == set()


async def test_a_world_of_a_namespace_that_is_not_allowed_is_told_so(home: Home, other_namespace: str) -> None:
    await home.operator(namespaces=[home.namespace, other_namespace])
    selector = {"matchLabels": {"team": "docs"}}
    home.apply(a_universe(worlds={"allowedNamespaces": {"selector": selector}}))
    guest = a_world(universeRef={"name": "acme", "namespace": home.namespace})
    home.plane.kubectl("--namespace", other_namespace, "apply", "--filename", "-", input=json.dumps(guest))
    await home.reaches(home.world_in(other_namespace), "NamespaceNotAllowed")
    home.plane.kubectl("label", "namespace", other_namespace, "team=docs")
    home.kubectl("annotate", "universe/acme", "example.com/look=again")
    await home.reaches(home.world_in(other_namespace), "Starting")


async def test_a_foreign_object_of_a_childs_name_is_not_touched(home: Home) -> None:
    names = WorldNames(home.namespace, "handbook")
    home.kubectl("create", "configmap", names.config.name, "--from-literal=a=b")
    before = await home.api.get(names.config)
    await home.operator()
    home.apply(a_world("good"), a_world())
    condition = await home.reaches(home.world(), "NameInUse")
    assert condition["status"] == "False"
    assert names.config.name in condition["message"]
    await home.reaches(home.world("good"), "Starting")
    assert await home.api.get(names.config) == before
    assert await home.find(names.stateful_set) is None
    home.kubectl("delete", "configmap", names.config.name)
    home.kubectl("annotate", "world/handbook", "example.com/look=again")
    await home.reaches(home.world(), "Starting")


async def test_a_foreign_secret_of_a_childs_name_is_not_touched(home: Home) -> None:
    names = WorldNames(home.namespace, "handbook")
    home.kubectl("create", "secret", "generic", names.identity.name, "--from-literal=history=mine")
    before = await home.api.get(names.identity)
    await home.operator()
    home.apply(a_world())
    await home.reaches(home.world(), "NameInUse")
    assert await home.api.get(names.identity) == before


async def test_a_world_without_a_universe_needs_nobody(home: Home) -> None:
    await home.operator()
    home.apply(a_world(reads="public"))
    await home.settled(subjects=[home.world()])
    names = WorldNames(home.namespace, "handbook")
    await home.pods_are_ready(names.stateful_set)
    assert (await home.reaches(home.world(), "Serving"))["status"] == "True"


async def test_ready_follows_the_pods(home: Home) -> None:
    await home.operator()
    home.apply(a_world())
    await home.settled(subjects=[home.world()])
    stateful_set = WorldNames(home.namespace, "handbook").stateful_set
    assert (await home.condition(home.world()))["status"] == "False"
    await home.pods_are_ready(stateful_set)
    assert (await home.reaches(home.world(), "Serving"))["status"] == "True"
    assert home.kubectl("wait", "--for=condition=Ready", "world/handbook", "--timeout=5s")

    async def printed() -> bool:
        return home.kubectl("get", "world", "handbook", "--no-headers").split()[1:3] == ["True", "Serving"]

    await eventually("kubectl get says so", printed)
