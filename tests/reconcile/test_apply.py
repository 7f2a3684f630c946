"""When an apply would change nothing, by the API server's record of who set what.

Records here are as the API server writes them; that it does write them so is shown in tests/cluster.
"""

from __future__ import annotations

import copy
from typing import Any

import pytest

from demarkus_operator.cluster.apply import MANAGER, difference

SERVICE: dict[str, Any] = {
    "apiVersion": "v1",
    "kind": "Service",
    "metadata": {"name": "tea", "namespace": "acme", "labels": {"a": "b"}},
    "spec": {
        "clusterIP": "None",
        "selector": {"app": "tea"},
        "ports": [{"name": "mark", "port": 6309, "protocol": "UDP"}, {"name": "health", "port": 8081}],
    },
}
SERVICE_FIELDS: dict[str, Any] = {
    "f:metadata": {"f:labels": {"f:a": {}}},
    "f:spec": {
        "f:clusterIP": {},
        "f:selector": {},
        "f:ports": {
            'k:{"port":6309,"protocol":"UDP"}': {".": {}, "f:name": {}, "f:port": {}, "f:protocol": {}},
            'k:{"port":8081,"protocol":"TCP"}': {".": {}, "f:name": {}, "f:port": {}},
        },
    },
}


def live(manifest: dict[str, Any], fields: dict[str, Any] | None, **spec: Any) -> dict[str, Any]:
    """What the API server made of it: defaults, its own metadata, and (with `fields`) the record."""
    found = copy.deepcopy(manifest)
    found["metadata"] |= {"uid": "u", "resourceVersion": "7", "creationTimestamp": "2026-12-01T00:00:00Z"}
    found["spec"] |= spec
    found["status"] = {"loadBalancer": {}}
    for port in found["spec"].get("ports", ()):
        port.setdefault("protocol", "TCP")
        port["targetPort"] = port["port"]
    if fields is not None:
        entries = [
            {"manager": "kube-controller-manager", "operation": "Update", "subresource": "status", "fieldsV1": {}},
            {"manager": MANAGER, "operation": "Apply", "fieldsV1": fields},
        ]
        found["metadata"]["managedFields"] = entries
    return found


def test_defaults_of_the_server_are_no_difference() -> None:
    assert difference(live(SERVICE, SERVICE_FIELDS, sessionAffinity="None"), SERVICE) is None


def test_guards_are_no_fields() -> None:
    guarded = {**SERVICE, "metadata": {**SERVICE["metadata"], "uid": "u", "resourceVersion": "7"}}
    assert difference(live(SERVICE, SERVICE_FIELDS), guarded) is None


def test_a_changed_value_is_a_difference() -> None:
    wanted = copy.deepcopy(SERVICE)
    wanted["spec"]["selector"]["app"] = "coffee"
    assert difference(live(SERVICE, SERVICE_FIELDS), wanted) == "spec.selector"


def test_a_new_field_is_a_difference() -> None:
    wanted = copy.deepcopy(SERVICE)
    wanted["metadata"]["annotations"] = {"x": "y"}
    assert difference(live(SERVICE, SERVICE_FIELDS), wanted) == "metadata.annotations"


def test_a_field_of_ours_that_is_not_wanted_any_more_is_a_difference() -> None:
    wanted = copy.deepcopy(SERVICE)
    del wanted["metadata"]["labels"]
    assert difference(live(SERVICE, SERVICE_FIELDS), wanted) == "metadata.labels"


def test_a_field_of_somebody_else_is_none() -> None:
    found = live(SERVICE, SERVICE_FIELDS)
    found["metadata"]["labels"]["team"] = "docs"
    assert difference(found, SERVICE) is None


def test_a_value_that_is_right_but_not_ours_is_a_difference() -> None:
    """Whoever took it over can change it to something else; applying makes it ours again."""
    fields = copy.deepcopy(SERVICE_FIELDS)
    del fields["f:spec"]["f:clusterIP"]
    assert difference(live(SERVICE, fields), SERVICE) == "spec.clusterIP"


def test_an_object_that_we_never_applied_differs() -> None:
    found = live(SERVICE, SERVICE_FIELDS)
    found["metadata"]["managedFields"] = found["metadata"]["managedFields"][:1]
    assert difference(found, SERVICE) is not None


@pytest.mark.parametrize(
    "change",
    [
        lambda ports: ports.append({"name": "more", "port": 1}),
        lambda ports: ports.pop(),
        lambda ports: ports[1].update(port=8082),
        lambda ports: ports[1].update(name="other"),
        lambda ports: ports.reverse(),
        lambda ports: ports[1].update(appProtocol="http"),
    ],
    ids=["more", "fewer", "other key", "other field", "other order", "new field"],
)
def test_items_of_a_keyed_list_are_compared_by_their_keys(change: Any) -> None:
    wanted = copy.deepcopy(SERVICE)
    change(wanted["spec"]["ports"])
    assert (difference(live(SERVICE, SERVICE_FIELDS), wanted) or "").startswith("spec.ports")


def test_items_of_somebody_else_in_a_keyed_list_stay() -> None:
    found = live(SERVICE, SERVICE_FIELDS)
    found["spec"]["ports"].insert(0, {"name": "sidecar", "port": 9000, "protocol": "TCP", "targetPort": 9000})
    assert difference(found, SERVICE) is None


POLICY: dict[str, Any] = {
    "apiVersion": "networking.k8s.io/v1",
    "kind": "NetworkPolicy",
    "metadata": {"name": "tea", "namespace": "acme"},
    "spec": {"podSelector": {}, "ingress": [{"ports": [{"port": 53}], "from": [{"podSelector": {}}]}], "egress": []},
}
POLICY_FIELDS: dict[str, Any] = {"f:spec": {"f:podSelector": {}, "f:ingress": {}, "f:egress": {}}}


def test_a_list_that_is_set_as_a_whole_is_compared_but_for_defaults() -> None:
    found = live(POLICY, POLICY_FIELDS)
    found["spec"]["ingress"][0]["ports"][0]["protocol"] = "TCP"
    assert difference(found, POLICY) is None
    found["spec"]["ingress"].append({})
    assert difference(found, POLICY) == "spec.ingress"


def test_an_empty_list_that_the_server_dropped_is_no_difference() -> None:
    found = live(POLICY, {"f:spec": {"f:podSelector": {}, "f:ingress": {}}})
    del found["spec"]["egress"]
    assert difference(found, POLICY) is None


FINALIZED: dict[str, Any] = {
    "apiVersion": "v1",
    "kind": "ConfigMap",
    "metadata": {"name": "c", "namespace": "acme", "finalizers": ["demarkus.io/a"]},
    "spec": {},
}


def test_a_set_is_compared_without_order() -> None:
    found = live(FINALIZED, {"f:metadata": {"f:finalizers": {'v:"demarkus.io/a"': {}}}})
    found["metadata"]["finalizers"] = ["somebody/else", "demarkus.io/a"]
    assert difference(found, FINALIZED) is None
    found["metadata"]["finalizers"] = ["somebody/else"]
    assert difference(found, FINALIZED) == "metadata.finalizers"


def test_without_a_record_every_field_is_ours() -> None:
    found = {**copy.deepcopy(SERVICE), "status": {"loadBalancer": {}}}
    found["metadata"] |= {"uid": "u", "resourceVersion": "7", "generation": 1}
    assert difference(found, SERVICE) is None
    found["metadata"]["annotations"] = {"x": "y"}
    assert difference(found, SERVICE) == "metadata.annotations"
