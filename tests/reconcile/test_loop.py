"""The loop over a cluster in memory: it converges, falls silent, and puts back what was changed."""

from __future__ import annotations

import itertools

import pytest

from demarkus_operator.cluster.port import Conflict
from demarkus_operator.plan.names import UniverseNames, WorldNames
from demarkus_operator.plan.objects import Ref
from demarkus_operator.reconcile.world import world_ref
from tests.reconcile.acme import Acme, a_settled, a_universe, a_world, an_example, shape

HANDBOOK = world_ref("acme", "handbook")


async def test_makes_every_child(acme: Acme) -> None:
    await a_settled(acme)
    assert acme.children("packages") == {
        "World/packages",
        "Secret/packages-identity",
        "Secret/packages-tls",
        "Secret/packages-tokens",
        "Secret/packages-token-importer",
        "ServiceAccount/packages-world",
        "ConfigMap/packages-world-config",
        "NetworkPolicy/packages-world",
        "Service/packages",
        "Service/packages-pods",
        "PersistentVolumeClaim/packages-data",
        "StatefulSet/packages-world",
    }
    assert acme.children("acme") == {
        "Namespace/acme",
        "Universe/acme",
        "Secret/acme-broker-keys",
        "ConfigMap/acme-record",
        "ServiceAccount/acme-broker",
        "ConfigMap/acme-broker-config",
        "NetworkPolicy/acme-broker",
        "Service/acme-broker",
        "Deployment/acme-broker",
        "PodDisruptionBudget/acme-broker",
    }


@pytest.mark.parametrize("order", list(itertools.permutations(range(3))), ids=str)
async def test_order_of_creation_does_not_matter(order: tuple[int, ...]) -> None:
    acme, reference = Acme(), await a_settled(Acme())
    for index in order:
        acme.port.put(an_example()[index])
        await acme.one_pass()
    await acme.converge()
    assert shape(acme) == shape(reference)


async def test_second_run_writes_nothing(acme: Acme) -> None:
    await a_settled(acme)
    versions = acme.port.versions()
    acme.port.writes.clear()
    for _ in range(3):
        await acme.one_pass()
    assert acme.port.writes == []
    assert acme.port.versions() == versions


async def test_every_reconcile_of_a_new_process_has_other_randomness_and_changes_no_secret(acme: Acme) -> None:
    await a_settled(acme)
    secrets = acme.port.secrets()
    for _ in range(3):
        await acme.one_pass()
    assert acme.port.secrets() == secrets


async def test_hand_edited_children_are_put_back(acme: Acme) -> None:
    await a_settled(acme)
    names = WorldNames("acme", "handbook")
    wanted = shape(acme)
    acme.port.edit(names.stateful_set, "spec", "replicas", value=3)
    acme.port.edit(names.service, "spec", "selector", "app.kubernetes.io/name", value="other")
    acme.port.edit(names.config, "data", "world.yaml", value="name: other\n")
    acme.port.edit(names.network_policy, "metadata", "labels", "demarkus.io/world", value="other")
    acme.port.remove(names.pods_service)
    await acme.converge()
    assert shape(acme) == wanted


async def test_a_field_of_somebody_else_stays(acme: Acme) -> None:
    await a_settled(acme)
    service = WorldNames("acme", "handbook").service
    acme.port.edit(service, "metadata", "annotations", "team.example/owner", value="docs")
    acme.port.writes.clear()
    await acme.one_pass()
    assert acme.port.writes == []
    assert acme.port.objects[service]["metadata"]["annotations"]["team.example/owner"] == "docs"


async def test_a_field_that_the_plan_drops_is_removed(acme: Acme) -> None:
    limits = {"rate": {"perSecond": 5, "burst": 10}}
    await a_settled(acme, [a_world(universe=None, limits=limits)])
    config = WorldNames("acme", "handbook").config
    assert "rate" in acme.port.objects[config]["data"]["world.yaml"]
    acme.port.put(a_world(universe=None))
    await acme.converge()
    assert "rate" not in acme.port.objects[config]["data"]["world.yaml"]


async def test_deleting_a_world_keeps_its_volume_and_secrets(acme: Acme) -> None:
    await a_settled(acme)
    secrets = acme.port.secrets()
    acme.port.remove(HANDBOOK)
    await acme.converge()
    assert acme.children("handbook") == {
        "Secret/handbook-identity",
        "Secret/handbook-tls",
        "Secret/handbook-tokens",
        "PersistentVolumeClaim/handbook-data",
    }
    assert acme.port.secrets() == secrets
    broker_config = acme.port.objects[UniverseNames("acme", "acme").config]["data"]["broker.yaml"]
    assert "handbook" not in broker_config
    assert "packages" in broker_config


async def test_a_world_made_again_takes_up_its_history(acme: Acme) -> None:
    await a_settled(acme)
    history = acme.port.objects[HANDBOOK]["status"]["history"]
    secrets = acme.port.secrets()
    acme.port.remove(HANDBOOK)
    await acme.converge()
    await a_settled(acme, [a_world()])
    assert acme.port.objects[HANDBOOK]["status"]["history"] == history
    assert acme.port.secrets() == secrets


async def test_ready_follows_the_pods(acme: Acme) -> None:
    await a_settled(acme)
    assert (acme.condition(HANDBOOK)["status"], acme.condition(HANDBOOK)["reason"]) == ("False", "Starting")
    acme.port.edit(WorldNames("acme", "handbook").stateful_set, "status", "readyReplicas", value=1)
    await acme.converge()
    ready = acme.condition(HANDBOOK)
    assert (ready["status"], ready["reason"]) == ("True", "Serving")
    moved = ready["lastTransitionTime"]
    await acme.one_pass()
    assert acme.condition(HANDBOOK)["lastTransitionTime"] == moved


async def test_the_second_world_of_a_name_is_refused_and_touches_nothing(acme: Acme) -> None:
    acme.port.namespace("other")
    await a_settled(acme, [a_universe(worlds={"allowedNamespaces": {"selector": {}}}), a_world()])
    late = acme.port.put(a_world(namespace="other"))
    await acme.converge()
    assert acme.condition(late)["reason"] == "NameTaken"
    assert acme.condition(HANDBOOK)["reason"] == "Starting"
    assert [ref for ref in acme.port.objects if ref.namespace == "other" and ref.kind == "StatefulSet"] == []


async def test_a_foreign_object_of_a_childs_name_is_not_touched(acme: Acme) -> None:
    names = WorldNames("acme", "handbook")
    foreign = {
        "apiVersion": "v1",
        "kind": "ConfigMap",
        "metadata": {"name": names.config.name, "namespace": "acme", "labels": {"app": "mine"}},
        "data": {"a": "b"},
    }
    acme.port.put(foreign)
    before = dict(acme.port.objects[names.config])
    await a_settled(acme)
    assert acme.condition(HANDBOOK)["reason"] == "NameInUse"
    assert "ConfigMap acme/handbook-world-config" in acme.condition(HANDBOOK)["message"]
    assert acme.port.objects[names.config] == before
    assert acme.condition(world_ref("acme", "packages"))["reason"] == "Starting"


async def test_an_object_that_was_exchanged_in_between_is_not_touched(acme: Acme) -> None:
    await a_settled(acme)
    config = WorldNames("acme", "handbook").config
    acme.port.edit(config, "data", "world.yaml", value="drift")
    foreign = {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": config.name, "namespace": "acme"}}

    def exchange(verb: str, ref: Ref | None) -> None:
        if (verb, ref) == ("apply", config):
            acme.port.remove(config)
            acme.port.put(foreign)

    acme.port.before = exchange
    with pytest.raises(Conflict):
        await acme.reconcile(HANDBOOK)
    assert "data" not in acme.port.objects[config]


async def test_nothing_is_made_for_a_world_that_is_being_deleted(acme: Acme) -> None:
    acme.port.put(a_world())
    acme.port.edit(HANDBOOK, "metadata", "deletionTimestamp", value="2026-12-01T00:00:00Z")
    assert (await acme.reconcile(HANDBOOK)).written == []


async def test_a_world_that_is_gone_is_no_error(acme: Acme) -> None:
    assert (await acme.reconcile(HANDBOOK)).generation is None
