"""What each field of a World does to its children."""

from __future__ import annotations

import base64
from collections.abc import Callable
from typing import Any

from demarkus_operator.plan.site import Images, Site

Build = Callable[..., dict[str, Any]]

BUCKET = {"bucket": {"url": "gs://acme-worlds/tea", "serviceAccount": "tea-world@acme-project.iam.gserviceaccount.com"}}
DIGEST = f"sha256:{'0' * 64}"


def realised(cluster: Any, world: dict[str, Any]) -> Any:
    """The cluster with Universe acme and this World."""
    cluster.put(world)
    cluster.settle()
    return cluster


def pod(cluster: Any, name: str = "tea") -> dict[str, Any]:
    template: dict[str, Any] = cluster.get("StatefulSet", f"{name}-world")["spec"]["template"]
    return template


def container(cluster: Any, name: str = "tea") -> dict[str, Any]:
    (found,) = pod(cluster, name)["spec"]["containers"]
    return dict(found)


def a_secret(name: str, **data: str) -> dict[str, Any]:
    encoded = {key.replace("_", "."): base64.b64encode(value.encode()).decode() for key, value in data.items()}
    return {"apiVersion": "v1", "kind": "Secret", "metadata": {"name": name, "namespace": "acme"}, "data": encoded}


def a_config_map(name: str, **data: str) -> dict[str, Any]:
    metadata = {"name": name, "namespace": "acme"}
    return {"apiVersion": "v1", "kind": "ConfigMap", "metadata": metadata, "data": data}


def test_a_world_in_a_bucket_has_replicas_no_claim_and_acts_as_its_account(settled: Any, a_world: Build) -> None:
    realised(settled, a_world("ink", store=BUCKET))
    spec = settled.get("StatefulSet", "ink-world")["spec"]
    assert spec["replicas"] == 2
    assert not settled.has("PersistentVolumeClaim", "ink-data")
    (store,) = [volume for volume in pod(settled, "ink")["spec"]["volumes"] if volume["name"] == "store"]
    assert store == {"name": "store", "emptyDir": {}}
    keys = [one["topologyKey"] for one in pod(settled, "ink")["spec"]["topologySpreadConstraints"]]
    assert keys == ["kubernetes.io/hostname", "topology.kubernetes.io/zone"]
    assert settled.get("PodDisruptionBudget", "ink-world")["spec"]["maxUnavailable"] == 1
    annotations = settled.get("ServiceAccount", "ink-world")["metadata"]["annotations"]
    assert annotations == {"iam.gke.io/gcp-service-account": BUCKET["bucket"]["serviceAccount"]}
    egress = settled.get("NetworkPolicy", "ink-world")["spec"]["egress"]
    assert {port["port"] for rule in egress for port in rule["ports"]} == {53, 443, 80, 987, 988}
    assert settled.get("World", "ink")["status"]["store"] == "gs://acme-worlds/tea"


def test_a_bucket_with_one_replica_has_no_budget(settled: Any, a_world: Build) -> None:
    realised(settled, a_world("ink", store=BUCKET))
    one = {"bucket": {**BUCKET["bucket"], "replicas": 1}}
    realised(settled, a_world("ink", store=one))
    assert not settled.has("PodDisruptionBudget", "ink-world")
    assert "topologySpreadConstraints" not in pod(settled, "ink")["spec"]


def test_a_world_on_a_volume_has_one_pod_and_no_budget(settled: Any) -> None:
    assert settled.get("StatefulSet", "tea-world")["spec"]["replicas"] == 1
    assert not settled.has("PodDisruptionBudget", "tea-world")
    assert settled.get("World", "tea")["status"]["store"] == "1Gi"
    assert settled.get("World", "tea")["status"]["backup"] == "-"


def test_the_template_reaches_the_pods_in_the_spelling_of_the_api_server(settled: Any, a_world: Build) -> None:
    template = {
        "image": f"registry.example/world@{DIGEST}",
        "imagePullSecrets": [{"name": "registry"}],
        "labels": {"team": "tea"},
        "annotations": {"example.com/note": "x"},
        "nodeSelector": {"pool": "quiet"},
        "tolerations": [{"operator": "Exists", "effect": "NoSchedule"}],
        "priorityClassName": "documents",
        "runtimeClassName": "sandboxed",
        "resources": {"requests": {"memory": "1024Mi"}, "limits": {"cpu": "1.5", "memory": "2048Mi"}},
    }
    realised(settled, a_world(template=template))
    spec = pod(settled)["spec"]
    assert container(settled)["image"] == template["image"]
    assert spec["imagePullSecrets"] == [{"name": "registry"}]
    assert spec["nodeSelector"] == {"pool": "quiet"}
    assert spec["tolerations"] == template["tolerations"]
    assert (spec["priorityClassName"], spec["runtimeClassName"]) == ("documents", "sandboxed")
    # A limit without a request is what is requested, so the default request for cpu is left out.
    assert container(settled)["resources"] == {
        "requests": {"memory": "1Gi"},
        "limits": {"cpu": "1500m", "memory": "2Gi"},
    }
    metadata = pod(settled)["metadata"]
    assert metadata["labels"]["team"] == "tea"
    assert metadata["labels"]["demarkus.io/world"] == "tea"
    assert metadata["annotations"]["example.com/note"] == "x"


def test_pods_are_restricted_whatever_the_template_says(settled: Any, a_world: Build) -> None:
    realised(settled, a_world(template={"resources": {"limits": {"memory": "1Gi"}}}))
    spec = pod(settled)["spec"]
    assert spec["automountServiceAccountToken"] is False
    assert spec["securityContext"]["runAsNonRoot"] is True
    assert spec["securityContext"]["seccompProfile"] == {"type": "RuntimeDefault"}
    assert container(settled)["securityContext"] == {
        "allowPrivilegeEscalation": False,
        "readOnlyRootFilesystem": True,
        "capabilities": {"drop": ["ALL"]},
    }


def test_an_exposed_world_is_reached_from_everywhere_by_its_names(settled: Any, a_world: Build) -> None:
    expose = {"type": "LoadBalancer", "hostnames": ["tea.example.com"], "annotations": {"example.com/pool": "public"}}
    realised(settled, a_world(expose=expose))
    service = settled.get("Service", "tea")
    assert service["spec"]["type"] == "LoadBalancer"
    assert service["metadata"]["annotations"] == {"example.com/pool": "public"}
    assert settled.get("NetworkPolicy", "tea-world")["spec"]["ingress"][0] == {
        "ports": [{"protocol": "UDP", "port": 6309}]
    }
    assert settled.get("World", "tea")["status"]["endpoint"] == "mark://tea.example.com"


def test_peers_are_added_to_the_policy_and_it_can_be_switched_off(settled: Any, a_world: Build) -> None:
    before = settled.get("NetworkPolicy", "tea-world")["spec"]
    metrics = {"from": [{"namespaceSelector": {}}], "ports": [{"protocol": "TCP", "port": 8081}]}
    outside = {"to": [{"ipBlock": {"cidr": "10.0.0.0/8", "except": ["10.1.0.0/16"]}}]}
    realised(settled, a_world(networkPolicy={"ingress": [metrics], "egress": [outside]}))
    after = settled.get("NetworkPolicy", "tea-world")["spec"]
    assert after["ingress"] == [*before["ingress"], metrics]
    assert after["egress"] == [*before["egress"], outside]
    realised(settled, a_world(networkPolicy={"enabled": False}))
    assert not settled.has("NetworkPolicy", "tea-world")


def test_a_suspended_world_has_no_pods_and_everything_else(settled: Any, a_world: Build) -> None:
    kinds = {ref.kind for ref in settled.objects}
    realised(settled, a_world(suspend=True))
    assert settled.get("StatefulSet", "tea-world")["spec"]["replicas"] == 0
    assert settled.condition("World", "tea")[:2] == ("False", "Suspended")
    assert {ref.kind for ref in settled.objects} == kinds
    realised(settled, a_world())
    assert settled.get("StatefulSet", "tea-world")["spec"]["replicas"] == 1


def annotated(world: dict[str, Any], **annotations: str) -> dict[str, Any]:
    named = {key.replace("__", "/").replace("_", "."): value for key, value in annotations.items()}
    return {**world, "metadata": {**world["metadata"], "annotations": named}}


def test_another_restart_annotation_replaces_the_pods(settled: Any, a_world: Build) -> None:
    realised(settled, annotated(a_world(), kubectl_kubernetes_io__restartedAt="2026-12-01T10:00:00Z"))
    assert pod(settled)["metadata"]["annotations"]["kubectl.kubernetes.io/restartedAt"] == "2026-12-01T10:00:00Z"


def test_while_a_world_is_paused_its_spec_waits_and_its_credentials_go_on(settled: Any, a_world: Build) -> None:
    token = {"name": "robot", "operations": ["read"], "paths": ["/**"]}
    wanted = a_world(reads="public", expose={"type": "NodePort"}, tokens=[token])
    realised(settled, annotated(wanted, demarkus_io__paused="true"))
    assert settled.condition("World", "tea", "Paused")[:2] == ("True", "Paused")
    assert settled.get("Service", "tea")["spec"]["type"] == "ClusterIP"
    assert "reads: universe" in settled.get("ConfigMap", "tea-world-config")["data"]["world.yaml"]
    tokens = base64.b64decode(settled.get("Secret", "tea-tokens")["data"]["tokens.toml"]).decode()
    assert "robot" in tokens
    settled.drop("ConfigMap", "tea-world-config")
    settled.settle()
    assert not settled.has("ConfigMap", "tea-world-config")
    realised(settled, annotated(wanted))
    assert settled.condition("World", "tea", "Paused")[:2] == ("False", "NotPaused")
    assert settled.get("Service", "tea")["spec"]["type"] == "NodePort"


def owned(cluster: Any, *refs: tuple[str, str]) -> list[bool]:
    uid = cluster.get("World", "tea")["metadata"]["uid"]
    found = [cluster.get(kind, name)["metadata"].get("ownerReferences", []) for kind, name in refs]
    return [any(reference["uid"] == uid for reference in references) for references in found]


def test_what_outlives_a_world_goes_with_it_only_if_it_says_so(settled: Any, a_world: Build) -> None:
    token = {"name": "robot", "operations": ["read"], "paths": ["/**"]}
    kept = [
        ("Secret", "tea-identity"),
        ("Secret", "tea-tls"),
        ("Secret", "tea-tokens"),
        ("Secret", "tea-token-robot"),
        ("PersistentVolumeClaim", "tea-data"),
    ]
    realised(settled, a_world(tokens=[token]))
    identity = settled.get("Secret", "tea-identity")["data"]
    assert owned(settled, *kept) == [False] * len(kept)
    realised(settled, a_world(tokens=[token], deletionPolicy="Delete"))
    assert owned(settled, *kept) == [True] * len(kept)
    assert settled.get("Secret", "tea-identity")["data"] == identity
    realised(settled, a_world(tokens=[token], deletionPolicy="Retain"))
    generated = [("Secret", "tea-identity"), ("Secret", "tea-tls"), ("Secret", "tea-token-robot")]
    assert owned(settled, *generated) == [False] * len(generated)
    said = [manifest["metadata"] for manifest in settled.plan("World", "tea").apply]
    assert [one["name"] for one in said if "ownerReferences" not in one][-2:] == ["tea-tokens", "tea-data"]
    realised(settled, a_world(tokens=[token], deletionPolicy="Delete"))
    settled.drop("World", "tea")
    left = {(ref.kind, ref.name) for ref in settled.objects if ref.name.startswith("tea")}
    assert left == set()


def test_token_files_are_mounted_and_missing_ones_are_told(settled: Any, a_world: Build) -> None:
    wanted = a_world(tokenFiles=[{"secretRef": {"name": "others", "key": "tokens.toml"}}])
    realised(settled, wanted)
    status, reason, message = settled.condition("World", "tea")
    assert (status, reason) == ("False", "ReferenceMissing")
    assert message.startswith("spec.tokenFiles[0].secretRef: Secret acme/others with the key tokens.toml is not there")
    settled.put(a_secret("others", tokens_toml="[tokens]\n"))
    settled.settle()
    mounts = {mount["mountPath"] for mount in container(settled)["volumeMounts"]}
    assert "/etc/demarkus/token-files/others" in mounts


def test_a_seeds_text_comes_from_its_config_map_and_stays_when_that_goes(settled: Any, a_world: Build) -> None:
    seed = {"path": "/index.md", "configMapKeyRef": {"name": "texts", "key": "index"}}
    realised(settled, a_world(seed=[seed]))
    assert settled.condition("World", "tea")[1] == "ReferenceMissing"
    settled.put(a_config_map("texts", index="# Tea\n"))
    settled.settle()
    config = settled.get("ConfigMap", "tea-world-config")["data"]["world.yaml"]
    assert "# Tea" in config
    settled.drop("ConfigMap", "texts")
    settled.settle()
    assert settled.condition("World", "tea")[1] == "Starting"
    assert settled.get("ConfigMap", "tea-world-config")["data"]["world.yaml"] == config


def test_seeds_that_do_not_fit_are_told_and_the_configuration_stays(settled: Any, a_world: Build) -> None:
    before = settled.get("ConfigMap", "tea-world-config")
    seeds = [{"path": f"/{number}.md", "text": "x" * 65536} for number in range(20)]
    realised(settled, a_world(seed=seeds))
    status, reason, message = settled.condition("World", "tea")
    assert (status, reason) == ("False", "ConfigTooLarge")
    assert "give shorter seeds" in message
    assert settled.get("ConfigMap", "tea-world-config") == before


def test_what_a_world_leaves_out_is_the_universes(settled: Any, a_world: Build, a_universe: Build) -> None:
    defaults = {"limits": {"maxStreams": 3}, "template": {"nodeSelector": {"pool": "quiet"}}}
    settled.put(a_universe(worlds={"defaults": defaults}))
    realised(settled, a_world("ink", limits={"maxStreams": 5}))
    assert "maxStreams: 3" in settled.get("ConfigMap", "tea-world-config")["data"]["world.yaml"]
    assert "maxStreams: 5" in settled.get("ConfigMap", "ink-world-config")["data"]["world.yaml"]
    assert [pod(settled, name)["spec"]["nodeSelector"] for name in ("tea", "ink")] == [{"pool": "quiet"}] * 2
    before = settled.get("StatefulSet", "tea-world")
    settled.drop("Universe", "acme")
    settled.settle()
    assert settled.get("StatefulSet", "tea-world") == before


def test_an_upgrade_of_the_operator_leaves_pinned_images(a_cluster: Any, a_world: Build, a_universe: Build) -> None:
    images = Images(digests={"world": DIGEST, "broker": f"sha256:{'1' * 64}"}, pull_secrets=("registry",))
    cluster = a_cluster(site=Site(operator_namespace="demarkus-system", version="0.1.0", images=images))
    cluster.put(a_universe())
    cluster.put(a_world("alone", universeRef=None))
    realised(cluster, a_world())
    for name in ("tea", "alone"):
        assert container(cluster, name)["image"] == f"demarkus/world:0.1.0@{DIGEST}"
        assert pod(cluster, name)["spec"]["imagePullSecrets"] == [{"name": "registry"}]
    (gateway,) = cluster.get("Deployment", "acme-broker")["spec"]["template"]["spec"]["containers"]
    assert gateway["image"] == f"demarkus/broker:0.1.0@sha256:{'1' * 64}"
    workloads = [cluster.get("StatefulSet", "tea-world"), cluster.get("StatefulSet", "alone-world")]
    newer = Images(digests={"world": f"sha256:{'2' * 64}"}, pull_secrets=("registry",))
    cluster.site = Site(operator_namespace="demarkus-system", version="0.2.0", images=newer)
    cluster.settle()
    assert [cluster.get("StatefulSet", "tea-world"), cluster.get("StatefulSet", "alone-world")] == workloads


def test_progress_follows_the_pods(settled: Any) -> None:
    assert settled.condition("World", "tea", "Progressing")[:2] == ("True", "RollingOut")
    settled.set_status("StatefulSet", "tea-world", {"replicas": 1, "readyReplicas": 1, "updatedReplicas": 1})
    plan = settled.reconcile("World", "tea")
    assert settled.condition("World", "tea", "Progressing")[:2] == ("False", "Settled")
    assert settled.condition("World", "tea", "Degraded")[:2] == ("False", "AsAsked")
    assert settled.condition("World", "tea")[:2] == ("True", "Serving")
    assert plan.requeue is None or plan.requeue > 86400  # nothing but a certificate's age is waited for
