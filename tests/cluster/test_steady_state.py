"""What is as it should be is left alone; what somebody changed is put back."""

from __future__ import annotations

import json

from demarkus_operator.plan.names import UniverseNames, WorldNames
from demarkus_operator.plan.objects import Ref
from tests.cluster.home import EXAMPLE, Home, eventually


async def test_second_reconcile_writes_nothing(home: Home) -> None:
    """By the versions of all objects, and by the API server's log of calls, where a vain apply counts too."""
    first = await home.operator()
    home.apply_files(sorted(EXAMPLE.iterdir()))
    await home.settled()
    await first.stop()
    versions, writes = await home.versions(), home.writes()
    second = await home.operator()
    for ref in (home.universe(), home.world(), home.world("packages")):
        await second.looked_at(ref)
    for number in range(3):  # and once more each, for a change that asks for nothing
        home.kubectl("annotate", "worlds,universes", "--all", "--overwrite", f"example.com/touched={number}")
        for ref in (home.universe(), home.world(), home.world("packages")):
            await second.looked_at(ref, times=number + 2)
    after = await home.versions()
    touched = {home.universe(), home.world(), home.world("packages")}
    assert {ref for ref in versions if versions[ref] != after[ref]} == touched
    assert home.writes() == writes
    assert {line["result"] for line in second.lines("reconcile")} == {"unchanged"}


def edits(home: Home) -> list[tuple[Ref, tuple[str, ...]]]:
    """For every kind of child a change by hand: the object, and the arguments of kubectl."""
    world, universe = WorldNames(home.namespace, "handbook"), UniverseNames(home.namespace, "acme")
    patch = ("patch", "--type=merge", "--patch")
    return [
        (world.stateful_set, (*patch, json.dumps({"spec": {"replicas": 3}}))),
        (world.config, (*patch, json.dumps({"data": {"world.yaml": "name: other"}}))),
        (world.service, (*patch, json.dumps({"spec": {"selector": {"app.kubernetes.io/name": "other"}}}))),
        (world.pods_service, ("label", "app.kubernetes.io/managed-by-")),
        (world.network_policy, (*patch, json.dumps({"spec": {"ingress": [{}]}}))),
        (world.service_account, (*patch, json.dumps({"automountServiceAccountToken": True}))),
        (world.claim, ("label", "demarkus.io/world=other", "--overwrite")),
        (universe.config, (*patch, json.dumps({"data": {"ca.crt": ""}}))),
        (universe.deployment, ("set", "image", "*=somebody/else:1")),
        (universe.disruption_budget, (*patch, json.dumps({"spec": {"maxUnavailable": 2}}))),
        (universe.record, ("delete",)),
        (universe.service, ("delete",)),
        (world.network_policy, ("delete",)),
    ]


async def test_hand_edited_children_are_put_back(home: Home) -> None:
    await home.operator()
    home.apply_files(sorted(EXAMPLE.iterdir()))
    await home.settled()
    for ref, (verb, *arguments) in edits(home):
        before = without_server_fields(await home.api.get(ref))
        image = ["image"] if verb == "set" else []
        call = (verb, *image, f"{ref.kind.lower()}/{ref.name}", *[a for a in arguments if a != "image"])
        if verb == "delete":
            home.kubectl(*call)
        else:  # what the edit made of it, as told by the edit: the operator may be faster than a second look
            edited = json.loads(home.kubectl(*call, "--output=json"))
            assert without_server_fields(edited) != before, f"{ref}: {verb} changed nothing"

        async def restored(ref: Ref = ref, before: object = before) -> bool:
            return without_server_fields(await home.find(ref)) == before

        await eventually(f"{ref} as it was before `{verb}`", restored, seconds=15)


async def test_labels_of_other_teams_stay(home: Home) -> None:
    operator = await home.operator()
    home.apply_files(sorted(EXAMPLE.iterdir()))
    await home.settled()
    service = WorldNames(home.namespace, "handbook").service
    writes = home.writes()
    before = len(operator.lines("reconcile"))
    home.kubectl("label", f"service/{service.name}", "team=docs")

    async def looked() -> bool:
        return len(operator.lines("reconcile")) > before

    await eventually("a reconcile after the change", looked)
    assert home.writes() == writes
    assert (await home.api.get(service))["metadata"]["labels"]["team"] == "docs"


def without_server_fields(found: object) -> object:
    """What of an object somebody decides: not its versions, its status, or who set what."""
    if not isinstance(found, dict):
        return None
    server = ("uid", "resourceVersion", "generation", "creationTimestamp", "managedFields")
    metadata = {key: value for key, value in found["metadata"].items() if key not in server}
    metadata.get("annotations", {}).pop("deployment.kubernetes.io/revision", None)
    spec = {k: v for k, v in found.get("spec", {}).items() if k not in ("clusterIP", "clusterIPs")}
    return {**{k: v for k, v in found.items() if k != "status"}, "metadata": metadata, "spec": spec}
