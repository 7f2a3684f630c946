"""What each field of a Universe does to its gateway."""

from __future__ import annotations

import hashlib
from collections.abc import Callable
from typing import Any

import yaml

from tests.operator.test_plan_world_fields import a_secret, annotated

Build = Callable[..., dict[str, Any]]

CLIENT = {"clientID": "chat", "name": "Chat", "redirectURIs": ["https://chat.example.com/callback"]}
IDENTITY = {
    "issuer": "https://accounts.example.com",
    "clientID": "mark",
    "clientSecretRef": {"name": "oidc", "key": "secret"},
}


def configured(cluster: Any) -> dict[str, Any]:
    content: dict[str, Any] = yaml.safe_load(cluster.get("ConfigMap", "acme-broker-config")["data"]["broker.yaml"])
    return content


def realised(cluster: Any, universe: dict[str, Any]) -> None:
    cluster.put(universe)
    cluster.settle()


def pod(cluster: Any) -> dict[str, Any]:
    spec: dict[str, Any] = cluster.get("Deployment", "acme-broker")["spec"]["template"]["spec"]
    return spec


def test_an_ingress_leads_from_the_public_host_to_the_gateway(settled: Any, a_universe: Build) -> None:
    ingress = {"className": "public", "tlsSecretName": "mark-tls", "annotations": {"example.com/a": "b"}}
    realised(settled, a_universe(publicURL="https://mark.example.com:8443", broker={"ingress": ingress}))
    found = settled.get("Ingress", "acme-broker")
    assert found["metadata"]["annotations"] == {"example.com/a": "b"}
    assert found["spec"]["ingressClassName"] == "public"
    assert found["spec"]["tls"] == [{"hosts": ["mark.example.com"], "secretName": "mark-tls"}]
    (rule,) = found["spec"]["rules"]
    assert rule["host"] == "mark.example.com"
    backend = rule["http"]["paths"][0]["backend"]["service"]
    assert backend == {"name": "acme-broker", "port": {"name": "http"}}


def test_a_gateway_takes_a_route_in_place_of_an_ingress(settled: Any, a_universe: Build) -> None:
    realised(settled, a_universe(broker={"ingress": {}}))
    gateway = {"name": "public", "namespace": "edge", "sectionName": "https"}
    realised(settled, a_universe(broker={"ingress": {"gateway": gateway}}))
    assert not settled.has("Ingress", "acme-broker")
    route = settled.get("HTTPRoute", "acme-broker")["spec"]
    assert route["hostnames"] == ["mark.example.com"]
    assert route["parentRefs"] == [{"group": "gateway.networking.k8s.io", "kind": "Gateway", **gateway}]
    realised(settled, a_universe())
    assert not settled.has("HTTPRoute", "acme-broker")


def test_an_ingress_of_somebody_else_is_left_alone_where_none_is_wanted(settled: Any, a_universe: Build) -> None:
    theirs = {
        "apiVersion": "networking.k8s.io/v1",
        "kind": "Ingress",
        "metadata": {"name": "acme-broker", "namespace": "acme"},
        "spec": {},
    }
    realised(settled, theirs)
    assert settled.condition("Universe", "acme")[1] == "Starting"
    realised(settled, a_universe(broker={"ingress": {}}))
    assert settled.condition("Universe", "acme")[1] == "NameInUse"
    realised(settled, a_universe())
    assert settled.has("Ingress", "acme-broker")


def test_the_gateway_gets_only_the_hash_of_a_web_clients_secret(settled: Any, a_universe: Build) -> None:
    settled.put(a_secret("chat", secret="s3cret"))
    clients = [{**CLIENT, "secretRef": {"name": "chat", "key": "secret"}}]
    realised(settled, a_universe(broker={"webClients": clients}))
    wanted = {**CLIENT, "secretHash": hashlib.sha256(b"s3cret").hexdigest()}
    assert configured(settled)["webClients"] == [wanted]
    settled.drop("Secret", "chat")
    settled.settle()
    assert configured(settled)["webClients"] == [wanted]
    status, reason, message = settled.condition("Universe", "acme", "Degraded")
    assert (status, reason) == ("True", "ReferenceMissing")
    assert "spec.broker.webClients[0].secretRef: Secret acme/chat" in message


def test_logins_are_kept_where_the_spec_says(settled: Any, a_universe: Build) -> None:
    settled.put(a_secret("oidc", secret="x"))
    realised(settled, a_universe(identity=IDENTITY, broker={"state": {"kubernetes": {"namespace": "logins"}}}))
    assert configured(settled)["state"] == {"kubernetes": {"namespace": "logins"}}
    assert configured(settled)["identity"]["clientSecretFile"] == "/etc/demarkus/identity/secret"
    mounts = {mount["name"]: mount["mountPath"] for mount in pod(settled)["containers"][0]["volumeMounts"]}
    assert mounts["identity"] == "/etc/demarkus/identity"
    assert mounts["api"] == "/var/run/secrets/kubernetes.io/serviceaccount"
    assert pod(settled)["automountServiceAccountToken"] is False

    account = "logins@acme-project.iam.gserviceaccount.com"
    realised(settled, a_universe(broker={"state": {"gcs": {"url": "gs://acme-logins", "serviceAccount": account}}}))
    assert configured(settled)["state"] == {"gcs": {"url": "gs://acme-logins"}}
    annotations = settled.get("ServiceAccount", "acme-broker")["metadata"]["annotations"]
    assert annotations == {"iam.gke.io/gcp-service-account": account}

    realised(settled, a_universe(broker={"state": {"directory": {"claimName": "logins"}}}))
    assert configured(settled)["state"] == {"directory": "/var/lib/demarkus"}
    (state,) = [volume for volume in pod(settled)["volumes"] if volume["name"] == "state"]
    assert state["persistentVolumeClaim"] == {"claimName": "logins"}
    (mount,) = [mount for mount in pod(settled)["containers"][0]["volumeMounts"] if mount["name"] == "state"]
    assert "readOnly" not in mount


def test_a_broken_world_keeps_the_entry_it_had_and_harms_no_other(settled: Any, a_world: Build) -> None:
    settled.put(a_world("ink", access={"readers": [{"groups": ["ink"]}]}))
    settled.settle()
    before = configured(settled)["worlds"]
    assert [world["name"] for world in before] == ["ink", "tea"]
    settled.put(a_world("ink", access={"readers": [{"groups": ["ink"], "paths": ["/[a"]}]}))
    settled.put(a_world("new", access={"readers": [{"groups": ["new"], "paths": ["/[a"]}]}))
    settled.settle()
    assert settled.condition("World", "ink")[1] == "InvalidSpec"
    assert configured(settled)["worlds"] == before


def test_a_configuration_that_does_not_fit_is_told_and_the_one_before_stays(settled: Any, a_world: Build) -> None:
    words = [f"{number:03}-{'x' * 249}" for number in range(100)]
    entries = [{"groups": words} for _ in range(45)]
    settled.put(a_world("ink", access={"readers": entries}))
    settled.settle()
    status, reason, message = settled.condition("Universe", "acme", "Degraded")
    assert (status, reason) == ("True", "ConfigTooLarge")
    assert "the largest part is the access of World acme/ink" in message
    assert [world["name"] for world in configured(settled)["worlds"]] == ["tea"]
    settled.put(a_world("ink"))
    settled.settle()
    assert [world["name"] for world in configured(settled)["worlds"]] == ["ink", "tea"]


def test_while_a_universe_is_paused_names_are_bound_and_the_gateway_stays(
    settled: Any, a_universe: Build, a_world: Build
) -> None:
    before = configured(settled)
    realised(settled, annotated(a_universe(broker={"replicas": 3}), demarkus_io__paused=""))
    realised(settled, a_world("ink"))
    assert settled.condition("World", "ink")[1] == "Starting"
    assert settled.get("Deployment", "acme-broker")["spec"]["replicas"] == 2
    assert configured(settled) == before
    realised(settled, a_universe(broker={"replicas": 3}))
    assert settled.get("Deployment", "acme-broker")["spec"]["replicas"] == 3


def test_the_record_stays_and_keys_go_with_a_universe_that_says_so(settled: Any, a_universe: Build) -> None:
    realised(settled, a_universe(deletionPolicy="Delete"))
    stateful_set = settled.get("StatefulSet", "tea-world")
    settled.drop("Universe", "acme")
    settled.settle()
    assert settled.has("ConfigMap", "acme-record")
    assert not settled.has("Secret", "acme-broker-keys")
    assert settled.get("StatefulSet", "tea-world") == stateful_set
    settled.set_status("StatefulSet", "tea-world", {"readyReplicas": 1, "updatedReplicas": 1})
    settled.settle()
    assert settled.condition("World", "tea")[:2] == ("True", "UniverseGone")


def test_what_is_said_of_the_gateways_pods_reaches_them(settled: Any, a_universe: Build) -> None:
    broker = {
        "resources": {"limits": {"memory": "512Mi"}},
        "template": {"image": "registry.example/broker:1", "tolerations": [{"operator": "Exists"}]},
    }
    peer = {"to": [{"ipBlock": {"cidr": "192.0.2.0/24"}}], "ports": [{"protocol": "TCP", "port": 8443}]}
    realised(settled, a_universe(broker=broker, networkPolicy={"egress": [peer]}))
    (container,) = pod(settled)["containers"]
    assert container["image"] == "registry.example/broker:1"
    assert container["resources"] == {"requests": {"cpu": "100m"}, "limits": {"memory": "512Mi"}}
    assert pod(settled)["tolerations"] == [{"operator": "Exists"}]
    assert settled.get("NetworkPolicy", "acme-broker")["spec"]["egress"][-1] == peer
