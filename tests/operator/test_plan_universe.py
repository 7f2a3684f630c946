"""What a Universe gets, whose names it keeps, and where its gateway leads."""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import Any

import pytest
import yaml

Build = Callable[..., dict[str, Any]]

EVERY_NAMESPACE = {"allowedNamespaces": {"selector": {}}}


def _routes(cluster: Any) -> list[dict[str, Any]]:
    document = yaml.safe_load(cluster.get("ConfigMap", "acme-broker-config")["data"]["broker.yaml"])
    routes: list[dict[str, Any]] = document["worlds"]
    return routes


def _generation(cluster: Any) -> int:
    return int(yaml.safe_load(cluster.get("ConfigMap", "acme-broker-config")["data"]["broker.yaml"])["generation"])


def _bindings(cluster: Any) -> dict[str, Any]:
    bindings: dict[str, Any] = json.loads(cluster.get("ConfigMap", "acme-record")["data"]["bindings.json"])
    return bindings


def test_universe_gets_all_its_children(cluster: Any, a_universe: Build) -> None:
    cluster.put(a_universe())
    cluster.settle()
    assert {(ref.kind, ref.namespace, ref.name) for ref in cluster.objects if ref.kind != "Universe"} == {
        ("Secret", "demarkus-system", "ca-acme-acme"),
        ("Secret", "acme", "acme-broker-keys"),
        ("ConfigMap", "acme", "acme-record"),
        ("ConfigMap", "acme", "acme-broker-config"),
        ("ServiceAccount", "acme", "acme-broker"),
        ("NetworkPolicy", "acme", "acme-broker"),
        ("Service", "acme", "acme-broker"),
        ("Deployment", "acme", "acme-broker"),
        ("PodDisruptionBudget", "acme", "acme-broker"),
    }


def test_universe_is_ready_when_a_pod_is(settled: Any) -> None:
    assert settled.condition("Universe", "acme")[:2] == ("False", "Starting")
    settled.set_status("Deployment", "acme-broker", {"readyReplicas": 1})
    settled.settle()
    assert settled.condition("Universe", "acme") == ("True", "Serving", "1 of 2 pods of the gateway are ready")
    settled.set_status("Deployment", "acme-broker", {"readyReplicas": 2})
    settled.settle()
    assert settled.condition("Universe", "acme") == ("True", "Serving", "")
    assert settled.plan("Universe", "acme").requeue > 86400.0, "only keys grow old"


def test_status_says_where_to_join(settled: Any) -> None:
    status = settled.get("Universe", "acme")["status"]
    assert status["endpoint"] == "https://mark.example.com/mcp"
    assert (status["version"], status["worlds"]) == ("0.1.0", 1)


def test_gateway_leads_to_worlds_in_the_order_of_their_names(settled: Any, a_world: Build) -> None:
    settled.put(a_world("ink", access={"writers": [{"emails": ["rosa@example.com"]}]}))
    settled.settle()
    ink, tea = _routes(settled)
    assert (ink["name"], tea["name"]) == ("ink", "tea")
    status = settled.get("World", "ink")["status"]
    assert ink == {
        "name": "ink",
        "namespace": "acme",
        "service": "ink-pods.acme.svc.cluster.local:6309",
        "serverName": "ink.acme.svc",
        "history": status["history"],
        "incarnation": status["incarnation"],
        "access": {"writers": [{"emails": ["rosa@example.com"]}]},
    }


def test_generation_follows_access(settled: Any, a_world: Build) -> None:
    first = _generation(settled)
    settled.put(a_world(access={"readers": [{"domains": ["example.com"]}]}))
    settled.settle()
    second = _generation(settled)
    settled.put(a_world(access={"readers": [{"domains": ["example.com"]}]}, limits={"maxStreams": 5}))
    settled.settle()
    assert first != second == _generation(settled)


def test_change_of_access_restarts_no_gateway(settled: Any, a_world: Build) -> None:
    before = settled.get("Deployment", "acme-broker")
    settled.put(a_world(access={"readers": [{"domains": ["example.com"]}]}))
    settled.settle()
    assert settled.get("Deployment", "acme-broker") == before


def test_older_world_gets_the_name(cluster: Any, a_world: Build, a_universe: Build) -> None:
    cluster.put(a_universe(worlds=EVERY_NAMESPACE))
    cluster.put(a_world("tea", "zoo"))
    cluster.put(a_world("tea", "acme"))
    cluster.settle()
    assert _bindings(cluster)["tea"]["namespace"] == "zoo"
    assert cluster.condition("World", "tea", namespace="zoo")[1] == "Starting"
    assert cluster.condition("World", "tea", namespace="acme")[1] == "NameTaken"
    assert [route["namespace"] for route in _routes(cluster)] == ["zoo"]


def test_name_stays_bound_when_its_world_is_gone(settled: Any, a_world: Build, a_universe: Build) -> None:
    settled.put(a_universe(worlds=EVERY_NAMESPACE))
    settled.drop("World", "tea")
    settled.put(a_world("tea", "other"))
    settled.settle()
    assert settled.condition("World", "tea", namespace="other")[1] == "NameTaken"
    assert _routes(settled) == []


def test_owner_of_the_universe_releases_a_name(settled: Any, a_world: Build, a_universe: Build) -> None:
    released = a_universe(worlds=EVERY_NAMESPACE)
    released["metadata"]["annotations"] = {"demarkus.io/release-name": "tea"}
    settled.put(released)
    settled.put(a_world("tea", "other"))
    settled.settle()
    assert settled.condition("World", "tea", namespace="other")[1] == "NameTaken", "its World is still there"
    settled.drop("World", "tea")
    settled.settle()
    assert settled.condition("World", "tea", namespace="other")[1] == "Starting"
    assert _bindings(settled)["tea"]["namespace"] == "other"


def test_record_and_keys_outlive_the_universe(settled: Any, a_universe: Build) -> None:
    bindings = _bindings(settled)
    keys = settled.get("Secret", "acme-broker-keys")["data"]
    settled.drop("Universe", "acme")
    assert not settled.has("Deployment", "acme-broker")
    assert settled.has("Secret", "ca-acme-acme", "demarkus-system")
    settled.put(a_universe())
    settled.settle()
    assert _bindings(settled) == bindings
    assert settled.get("Secret", "acme-broker-keys")["data"] == keys


def test_record_is_written_only_over_the_version_that_was_read(settled: Any) -> None:
    read = settled.get("ConfigMap", "acme-record")["metadata"]["resourceVersion"]
    (record, *_) = settled.plan("Universe", "acme").apply
    assert record["metadata"]["name"] == "acme-record"
    assert record["metadata"]["resourceVersion"] == read


def test_broken_record_changes_nothing(settled: Any) -> None:
    settled.put({**settled.get("ConfigMap", "acme-record"), "data": {"bindings.json": "[]"}})
    settled.writes.clear()
    settled.settle()
    for kind, name in (("Universe", "acme"), ("World", "tea")):
        assert settled.condition(kind, name)[:2] == ("False", "MaterialInvalid")
        assert "ConfigMap acme/acme-record" in settled.condition(kind, name)[2]
    assert {ref.kind for ref in settled.writes} == {"World", "Universe"}


def test_one_replica_has_no_disruption_budget(settled: Any, a_universe: Build) -> None:
    assert settled.has("PodDisruptionBudget", "acme-broker")
    settled.put(a_universe(broker={"replicas": 1}))
    settled.settle()
    assert settled.get("Deployment", "acme-broker")["spec"]["replicas"] == 1
    assert not settled.has("PodDisruptionBudget", "acme-broker")


@pytest.mark.parametrize(
    ("selector", "admitted"),
    [
        ({"matchLabels": {"team": "tea"}}, True),
        ({"matchLabels": {"team": "ink"}}, False),
        ({"matchLabels": {"kubernetes.io/metadata.name": "other"}}, True),
        ({"matchExpressions": [{"key": "team", "operator": "In", "values": ["tea", "ink"]}]}, True),
        ({"matchExpressions": [{"key": "team", "operator": "NotIn", "values": ["tea"]}]}, False),
        ({"matchExpressions": [{"key": "absent", "operator": "NotIn", "values": ["tea"]}]}, True),
        ({"matchExpressions": [{"key": "team", "operator": "Exists"}]}, True),
        ({"matchExpressions": [{"key": "team", "operator": "DoesNotExist"}]}, False),
        ({"matchLabels": {"team": "tea"}, "matchExpressions": [{"key": "x", "operator": "Exists"}]}, False),
        ({}, True),
    ],
)
def test_namespaces_are_selected_as_kubernetes_does(
    cluster: Any, a_world: Build, a_universe: Build, selector: dict[str, Any], admitted: bool
) -> None:
    cluster.put({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": "other", "labels": {"team": "tea"}}})
    cluster.put(a_universe(worlds={"allowedNamespaces": {"selector": selector}}))
    cluster.put(a_world("tea", "other"))
    cluster.settle()
    reason = cluster.condition("World", "tea", namespace="other")[1]
    assert reason == ("Starting" if admitted else "NamespaceNotAllowed")
    assert len(_routes(cluster)) == admitted


def test_world_of_another_universe_is_not_taken_in(settled: Any, a_world: Build) -> None:
    settled.put(a_world("ink", universeRef={"name": "elsewhere"}))
    settled.settle()
    assert settled.condition("World", "ink")[1] == "WaitingForUniverse"
    assert "ink" not in _bindings(settled)


def test_broken_world_disturbs_no_other(settled: Any, a_world: Build) -> None:
    before = settled.get("ConfigMap", "acme-broker-config")
    settled.put(a_world("ink", store={}))
    settled.settle()
    assert settled.condition("World", "ink")[1] == "InvalidSpec"
    assert settled.get("ConfigMap", "acme-broker-config") == before
    assert settled.condition("World", "tea")[1] == "Starting"


def test_foreign_deployment_of_the_gateways_name_is_never_touched(cluster: Any, a_universe: Build) -> None:
    metadata = {"name": "acme-broker", "namespace": "acme", "labels": {"app.kubernetes.io/name": "shop"}}
    cluster.put({"apiVersion": "apps/v1", "kind": "Deployment", "metadata": metadata})
    cluster.put(a_universe())
    cluster.settle()
    assert cluster.condition("Universe", "acme")[:2] == ("False", "NameInUse")
    assert {ref.kind for ref in cluster.objects} == {"Deployment", "Universe"}


def test_invalid_universe_says_what_is_wrong(cluster: Any, a_universe: Build) -> None:
    cluster.put(a_universe(publicURL="http://mark.example.com"))
    cluster.settle()
    status, reason, message = cluster.condition("Universe", "acme")
    assert (status, reason) == ("False", "InvalidSpec")
    assert message.startswith("spec.publicURL: ")


def test_gateway_reaches_worlds_of_its_universe_names_https_and_the_api_server(settled: Any) -> None:
    worlds, names, https = settled.get("NetworkPolicy", "acme-broker")["spec"]["egress"]
    assert worlds["ports"] == [{"protocol": "UDP", "port": 6309}]
    assert worlds["to"][0]["podSelector"]["matchLabels"]["demarkus.io/universe"] == "acme"
    assert {port["port"] for port in names["ports"]} == {53}
    assert https == {"ports": [{"protocol": "TCP", "port": 443}, {"protocol": "TCP", "port": 6443}]}
    pods = settled.get("StatefulSet", "tea-world")["spec"]["template"]["metadata"]["labels"]
    assert pods["demarkus.io/universe"] == "acme"
