"""What a World gets, when, and when it gets nothing."""

from __future__ import annotations

import base64
from collections.abc import Callable
from datetime import timedelta
from typing import Any

import pytest
from cryptography import x509

Build = Callable[..., dict[str, Any]]

SECRETS = {"tea-identity", "tea-tls", "tea-tokens"}


def _names(cluster: Any, kind: str, namespace: str = "acme") -> set[str]:
    return {ref.name for ref in cluster.objects if (ref.kind, ref.namespace) == (kind, namespace)}


def _data(cluster: Any, name: str, key: str, namespace: str = "acme") -> bytes:
    return base64.b64decode(cluster.get("Secret", name, namespace)["data"][key])


def _serve(cluster: Any, name: str = "tea") -> None:
    cluster.set_status("StatefulSet", f"{name}-world", {"readyReplicas": 1})
    cluster.settle()


def test_world_gets_all_its_children(settled: Any) -> None:
    assert _names(settled, "Secret") >= SECRETS
    assert _names(settled, "ConfigMap") == {"tea-world-config", "acme-broker-config", "acme-record"}
    assert {"tea", "tea-pods"} <= _names(settled, "Service")
    for kind in ("StatefulSet", "ServiceAccount", "NetworkPolicy"):
        assert "tea-world" in _names(settled, kind)
    assert _names(settled, "PersistentVolumeClaim") == {"tea-data"}


def test_world_before_its_universe_waits_with_everything_but_a_server(cluster: Any, a_world: Build) -> None:
    cluster.put(a_world())
    cluster.settle()
    status, reason, message = cluster.condition("World", "tea")
    assert (status, reason) == ("False", "WaitingForUniverse")
    assert "acme/acme does not exist" in message
    assert cluster.condition("World", "tea", "Reconciled")[:2] == ("False", "WaitingForUniverse")
    assert _names(cluster, "Secret") == {"tea-identity", "tea-tokens"}
    assert _names(cluster, "PersistentVolumeClaim") == {"tea-data"}
    assert _names(cluster, "ConfigMap") == {"tea-world-config"}
    assert cluster.get("ConfigMap", "tea-world-config")["data"]["keys.json"] == '{"keys":[]}'
    assert _names(cluster, "StatefulSet") == set()


def test_order_does_not_matter(a_cluster: Callable[[], Any], a_world: Build, a_universe: Build) -> None:
    manifests = [a_world("tea"), a_world("ink"), a_universe()]
    children = []
    for order in (manifests, manifests[::-1]):
        cluster = a_cluster()
        for manifest in order:
            cluster.put(manifest)
            cluster.settle()
        children.append(set(cluster.objects))
        assert cluster.condition("World", "tea")[1] == "Starting"
    assert children[0] == children[1]


def test_world_is_ready_when_its_pod_is(settled: Any) -> None:
    assert settled.condition("World", "tea")[:2] == ("False", "Starting")
    assert settled.condition("World", "tea", "Reconciled")[:2] == ("True", "Applied")
    _serve(settled)
    assert settled.condition("World", "tea") == ("True", "Serving", "")
    assert settled.plan("World", "tea").requeue > 86400.0, "only its certificate grows old"


def test_status_says_who_the_world_is(settled: Any) -> None:
    status = settled.get("World", "tea")["status"]
    assert status["history"] == _data(settled, "tea-identity", "history").decode()
    assert status["incarnation"] == _data(settled, "tea-identity", "incarnation").decode()
    assert status["endpoint"] == "mark://tea.acme.svc"
    assert status["version"] == "0.1.0"
    assert status["tokens"] == []


def test_second_reconcile_writes_nothing(settled: Any) -> None:
    settled.writes.clear()
    for kind, name in (("World", "tea"), ("Universe", "acme")):
        assert settled.plan(kind, name).generate == ()
        settled.reconcile(kind, name)
    assert settled.writes == []


def test_secrets_and_volume_outlive_the_world(settled: Any, a_world: Build) -> None:
    history = settled.get("World", "tea")["status"]["history"]
    kept = {name: settled.get("Secret", name)["data"] for name in SECRETS}
    settled.drop("World", "tea")
    assert _names(settled, "Secret") >= SECRETS
    assert _names(settled, "PersistentVolumeClaim") == {"tea-data"}
    for kind in ("StatefulSet", "Service", "ServiceAccount", "NetworkPolicy"):
        assert not any(name.startswith("tea") for name in _names(settled, kind))
    settled.put(a_world())
    settled.settle()
    assert settled.get("World", "tea")["status"]["history"] == history
    assert {name: settled.get("Secret", name)["data"] for name in SECRETS} == kept
    assert settled.condition("World", "tea")[1] == "Starting"


def test_second_world_of_a_name_is_refused_and_makes_nothing(settled: Any, a_world: Build, a_universe: Build) -> None:
    settled.put(a_universe(worlds={"allowedNamespaces": {"selector": {}}}))
    settled.put(a_world("tea", "other"))
    settled.settle()
    status, reason, message = settled.condition("World", "tea", namespace="other")
    assert (status, reason) == ("False", "NameTaken")
    assert "World acme/tea" in message
    assert "demarkus.io/release-name=tea" in message
    assert {ref.kind for ref in settled.objects if ref.namespace == "other"} == {"World"}
    assert settled.condition("World", "tea")[1] == "Starting"


def test_same_name_with_another_history_is_refused(settled: Any, a_world: Build) -> None:
    settled.drop("World", "tea")
    settled.drop("Secret", "tea-identity")
    settled.put(a_world())
    settled.reconcile("World", "tea")
    assert settled.condition("World", "tea")[1] == "NameTaken"
    assert "restore that Secret" in settled.condition("World", "tea")[2]
    settled.settle()
    assert "history" not in settled.get("ConfigMap", "acme-broker-config")["data"]["broker.yaml"]


def test_foreign_object_of_a_childs_name_is_never_touched(cluster: Any, a_world: Build, a_universe: Build) -> None:
    foreign = {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "tea-world-config", "namespace": "acme"}}
    cluster.put(foreign)
    cluster.put(a_universe())
    cluster.put(a_world())
    before = cluster.get("ConfigMap", "tea-world-config")
    cluster.settle()
    status, reason, message = cluster.condition("World", "tea")
    assert (status, reason) == ("False", "NameInUse")
    assert "ConfigMap acme/tea-world-config" in message
    assert cluster.get("ConfigMap", "tea-world-config") == before
    assert not cluster.has("Secret", "tea-identity")


def test_child_whose_labels_were_removed_is_repaired(settled: Any) -> None:
    stateful_set = settled.get("StatefulSet", "tea-world")
    labels = stateful_set["metadata"]["labels"]
    settled.put({**stateful_set, "metadata": {**stateful_set["metadata"], "labels": {}}})
    settled.settle()
    assert settled.get("StatefulSet", "tea-world")["metadata"]["labels"] == labels


def test_worlds_whose_children_would_share_a_name_do_not_share_it(settled: Any, a_world: Build) -> None:
    settled.put(a_world("tea-pods"))
    settled.settle()
    assert settled.condition("World", "tea-pods")[:2] == ("False", "NameInUse")
    assert settled.condition("World", "tea")[1] == "Starting"


def test_namespace_that_is_not_allowed(cluster: Any, a_world: Build, a_universe: Build) -> None:
    cluster.put(a_universe())
    cluster.put(a_world("tea", "other"))
    cluster.settle()
    status, reason, message = cluster.condition("World", "tea", namespace="other")
    assert (status, reason) == ("False", "NamespaceNotAllowed")
    assert "allowedNamespaces" in message
    assert {ref.kind for ref in cluster.objects if ref.namespace == "other"} == {"World"}


def test_namespace_that_is_no_longer_allowed_stops_nothing(cluster: Any, a_world: Build, a_universe: Build) -> None:
    cluster.put(a_universe(worlds={"allowedNamespaces": {"selector": {}}}))
    cluster.put(a_world("tea", "other"))
    cluster.settle()
    cluster.put(a_universe())
    cluster.settle()
    assert cluster.condition("World", "tea", namespace="other")[1] == "NamespaceNotAllowed"
    assert cluster.has("StatefulSet", "tea-world", "other")
    assert "tea" not in cluster.get("ConfigMap", "acme-broker-config")["data"]["broker.yaml"]
    assert "history" in cluster.get("World", "tea", "other")["status"]


def test_world_serves_on_when_its_universe_is_gone(settled: Any) -> None:
    _serve(settled)
    settled.drop("Universe", "acme")
    settled.writes.clear()
    settled.settle()
    status, reason, message = settled.condition("World", "tea")
    assert (status, reason) == ("True", "UniverseGone")
    assert "no gateway" in message
    assert {ref.kind for ref in settled.writes} == {"World"}


def test_world_without_universe_has_an_authority_of_its_own_and_no_key_set(cluster: Any, a_world: Build) -> None:
    cluster.put(a_world(universeRef=None))
    cluster.settle()
    assert cluster.condition("World", "tea")[1] == "Starting"
    assert _names(cluster, "Secret", "demarkus-system") == {"world-ca-acme-tea", "demarkus-operator-key"}
    data = cluster.get("ConfigMap", "tea-world-config")["data"]
    assert set(data) == {"world.yaml", "management.json"}
    assert "keySet" not in data["world.yaml"]
    assert "reads: scoped" in data["world.yaml"]
    (clients, _) = cluster.get("NetworkPolicy", "tea-world")["spec"]["ingress"]
    assert clients["from"] == [
        {"namespaceSelector": {"matchLabels": {"kubernetes.io/metadata.name": "acme"}}, "podSelector": {}}
    ]


def test_token_is_in_its_secret_and_only_its_hash_in_the_file(settled: Any, a_world: Build) -> None:
    settled.put(a_world(tokens=[{"name": "robot", "operations": ["read"], "paths": ["/**"]}]))
    settled.settle()
    raw = _data(settled, "tea-token-robot", "token")
    file = _data(settled, "tea-tokens", "tokens.toml")
    assert b"[tokens.robot]" in file
    assert raw not in file
    assert settled.get("World", "tea")["status"]["tokens"] == [{"name": "robot", "secret": "tea-token-robot"}]


def test_removed_token_takes_its_secret_along_and_comes_back_as_another(settled: Any, a_world: Build) -> None:
    tokens = [{"name": name, "operations": ["read"], "paths": ["/**"]} for name in ("robot", "rosa")]
    settled.put(a_world(tokens=tokens))
    settled.settle()
    robot, rosa = (_data(settled, f"tea-token-{name}", "token") for name in ("robot", "rosa"))
    settled.put(a_world(tokens=tokens[1:]))
    settled.settle()
    assert not settled.has("Secret", "tea-token-robot")
    assert b"robot" not in _data(settled, "tea-tokens", "tokens.toml")
    settled.put(a_world(tokens=tokens))
    settled.settle()
    assert _data(settled, "tea-token-robot", "token") != robot
    assert _data(settled, "tea-token-rosa", "token") == rosa


def test_first_token_needs_no_restart(settled: Any, a_world: Build) -> None:
    before = settled.get("StatefulSet", "tea-world")
    settled.put(a_world(tokens=[{"name": "robot", "operations": ["read"], "paths": ["/**"]}], reads="public"))
    settled.settle()
    assert settled.get("StatefulSet", "tea-world") == before


def test_setting_that_a_running_world_does_not_take_over_restarts_it(settled: Any, a_world: Build) -> None:
    def config_hash() -> str:
        template = settled.get("StatefulSet", "tea-world")["spec"]["template"]
        return str(template["metadata"]["annotations"]["demarkus.io/config-hash"])

    before = config_hash()
    settled.put(a_world(limits={"requestTimeout": "5s", "rate": {"burst": 5}}))
    settled.settle()
    assert config_hash() == before
    settled.put(a_world(limits={"maxStreams": 20}))
    settled.settle()
    assert config_hash() != before


@pytest.mark.parametrize(
    ("world", "universe", "image"),
    [(None, None, "0.1.0"), (None, "0.3.0", "0.3.0"), ("0.2.0", "0.3.0", "0.2.0")],
)
def test_version_is_the_worlds_else_the_universes_else_the_operators(
    cluster: Any, a_world: Build, a_universe: Build, world: str | None, universe: str | None, image: str
) -> None:
    cluster.put(a_universe(**({"version": universe} if universe else {})))
    cluster.put(a_world(version=world))
    cluster.settle()
    (container,) = cluster.get("StatefulSet", "tea-world")["spec"]["template"]["spec"]["containers"]
    assert container["image"] == f"demarkus/world:{image}"


@pytest.mark.parametrize("reference", [{"name": "acme"}, None], ids=["in a universe", "alone"])
def test_new_operator_restarts_no_world(
    cluster: Any, a_world: Build, a_universe: Build, reference: dict[str, str] | None
) -> None:
    import dataclasses

    cluster.put(a_universe())
    cluster.put(a_world(universeRef=reference))
    cluster.settle()
    cluster.site = dataclasses.replace(cluster.site, version="9.9.9")
    cluster.writes.clear()
    cluster.settle()
    assert cluster.writes == []


def test_volume_never_shrinks_and_keeps_its_class(settled: Any, a_world: Build) -> None:
    claim = settled.get("PersistentVolumeClaim", "tea-data")
    bound = {**claim["spec"], "storageClassName": "fast", "resources": {"requests": {"storage": "5Gi"}}}
    settled.put({**claim, "spec": bound})
    settled.settle()
    assert settled.get("PersistentVolumeClaim", "tea-data")["spec"] == bound
    settled.put(a_world(store={"volume": {"size": "6144Mi"}}))
    settled.settle()
    assert settled.get("PersistentVolumeClaim", "tea-data")["spec"] == {
        **bound,
        "resources": {"requests": {"storage": "6Gi"}},
    }


def test_spec_that_no_rule_can_judge_is_refused_and_changes_nothing(settled: Any, a_world: Build) -> None:
    settled.put(a_world(tokens=[{"name": "robot", "operations": ["read"], "paths": ["/docs/[a"]}]))
    before = {ref: manifest for ref, manifest in settled.objects.items() if ref.kind != "World"}
    settled.settle()
    status, reason, message = settled.condition("World", "tea")
    assert (status, reason) == ("False", "InvalidSpec")
    assert "spec.tokens[0].paths[0]" in message
    assert {ref: manifest for ref, manifest in settled.objects.items() if ref.kind != "World"} == before
    assert "history" in settled.get("World", "tea")["status"]


def test_object_that_the_api_server_would_have_refused_is_refused_here_too(cluster: Any, a_world: Build) -> None:
    cluster.put(a_world(store={}, colour="green"))
    plan = cluster.reconcile("World", "tea")
    assert [condition.reason for condition in plan.conditions] == ["InvalidSpec", "InvalidSpec"]
    assert "spec.colour" in plan.conditions[0].message


@pytest.mark.parametrize(
    ("secret", "data", "expected"),
    [
        ("tea-identity", {}, "has no usable field history"),
        ("tea-identity", {"history": "bm9uZQ==", "incarnation": "bm9uZQ=="}, "32 lower-case hex"),
        ("acme-broker-keys", {}, "grant-<kid>.pem"),
    ],
)
def test_broken_secret_is_named_and_left_alone(settled: Any, secret: str, data: dict[str, str], expected: str) -> None:
    settled.put({**settled.get("Secret", secret), "data": data})
    settled.reconcile("World", "tea")
    status, reason, message = settled.condition("World", "tea")
    assert (status, reason) == ("False", "MaterialInvalid")
    assert f"Secret acme/{secret}" in message
    assert expected in message
    assert settled.get("Secret", secret)["data"] == data


@pytest.mark.parametrize("spoil", ["authority", "certificate"])
def test_certificate_that_is_good_for_nothing_is_made_anew(settled: Any, spoil: str) -> None:
    before = _data(settled, "tea-tls", "tls.crt")
    if spoil == "authority":
        settled.drop("Secret", "ca-acme-acme", "demarkus-system")
    else:
        settled.put({**settled.get("Secret", "tea-tls"), "data": {"tls.crt": "bm9uZQ=="}})
    settled.settle()
    assert settled.condition("World", "tea")[1] == "Starting"
    assert _data(settled, "tea-tls", "tls.crt") not in (before, b"none")
    leaf = x509.load_pem_x509_certificate(_data(settled, "tea-tls", "tls.crt"))
    ca = _data(settled, "ca-acme-acme", "ca.crt", "demarkus-system")
    leaf.verify_directly_issued_by(x509.load_pem_x509_certificate(ca))
    assert settled.get("ConfigMap", "acme-broker-config")["data"]["ca.crt"].encode() == ca


def test_certificate_is_renewed_at_two_thirds_of_its_life(settled: Any) -> None:
    before = _data(settled, "tea-tls", "tls.crt")
    settled.now += timedelta(days=59, hours=23)
    settled.settle()
    assert _data(settled, "tea-tls", "tls.crt") == before
    settled.now += timedelta(hours=2)
    settled.settle()
    assert _data(settled, "tea-tls", "tls.crt") != before


def test_certificate_follows_the_names_by_which_a_world_is_reached(settled: Any, a_world: Build) -> None:
    settled.put(a_world(expose={"hostnames": ["tea.example.com"]}))
    settled.settle()
    leaf = x509.load_pem_x509_certificate(_data(settled, "tea-tls", "tls.crt"))
    names = leaf.extensions.get_extension_for_class(x509.SubjectAlternativeName).value
    assert names.get_values_for_type(x509.DNSName) == ["tea.acme.svc", "tea.acme.svc.cluster.local", "tea.example.com"]


def test_pods_meet_the_restricted_standard(settled: Any) -> None:
    for kind, name in (("StatefulSet", "tea-world"), ("Deployment", "acme-broker")):
        pod = settled.get(kind, name)["spec"]["template"]["spec"]
        (container,) = pod["containers"]
        assert pod["automountServiceAccountToken"] is False
        assert pod["securityContext"]["runAsNonRoot"] is True
        assert pod["securityContext"]["seccompProfile"] == {"type": "RuntimeDefault"}
        assert container["securityContext"] == {
            "allowPrivilegeEscalation": False,
            "readOnlyRootFilesystem": True,
            "capabilities": {"drop": ["ALL"]},
        }
        writable = [mount["name"] for mount in container["volumeMounts"] if not mount.get("readOnly")]
        assert writable == (["store"] if kind == "StatefulSet" else [])
        for probe in ("startupProbe", "livenessProbe", "readinessProbe"):
            assert container[probe]["httpGet"]["port"] == "health"


def test_only_the_gateway_of_its_universe_speaks_mark_with_a_world(settled: Any) -> None:
    spec = settled.get("NetworkPolicy", "tea-world")["spec"]
    mark, health = spec["ingress"]
    assert mark["ports"] == [{"protocol": "UDP", "port": 6309}]
    assert mark["from"] == [
        {
            "namespaceSelector": {"matchLabels": {"kubernetes.io/metadata.name": "acme"}},
            "podSelector": {
                "matchLabels": {"app.kubernetes.io/name": "demarkus-broker", "app.kubernetes.io/instance": "acme"}
            },
        }
    ]
    assert health["ports"] == [{"protocol": "TCP", "port": 8081}, {"protocol": "TCP", "port": 8443}]
    assert spec["policyTypes"] == ["Ingress", "Egress"]
    (names,) = spec["egress"]
    assert {port["port"] for port in names["ports"]} == {53}
