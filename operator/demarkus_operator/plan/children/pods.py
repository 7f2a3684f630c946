"""What the pods of worlds and gateways have in common: ports, folders, the restricted security profile, probes."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from demarkus_operator.api.pods import PodTemplate, Resources, Spread
from demarkus_operator.plan.children.containers import resources as _resources

MARK_PORT = 6309
HTTP_PORT = 8080
HEALTH_PORT = 8081
MANAGEMENT_PORT = 8443

CONFIG = "/etc/demarkus/config"
TLS = "/etc/demarkus/tls"
TOKENS = "/etc/demarkus/tokens"
IDENTITY = "/etc/demarkus/identity"
KEYS = "/etc/demarkus/keys"
TOKEN_FILES = "/etc/demarkus/token-files"
STORE = "/var/lib/demarkus"

_USER = 65532
_READABLE_BY_GROUP = 0o440
_READABLE_BY_ALL = 0o644

_ANYWHERE = tuple(
    Spread(max_skew=1, topology_key=key, when_unsatisfiable="ScheduleAnyway")
    for key in ("kubernetes.io/hostname", "topology.kubernetes.io/zone")
)


def pod_template(
    *,
    account: str,
    volumes: list[dict[str, Any]],
    container: dict[str, Any],
    labels: Mapping[str, str],
    annotations: Mapping[str, str],
    given: PodTemplate | None,
    pull_secrets: Sequence[str] = (),
    spread: Mapping[str, str] | None = None,
) -> dict[str, Any]:
    """The template of pods with one container, as the `restricted` pod security standard wants it.

    `given` is what the spec says of them. `spread` selects the pods, if there are several to be spread.
    """
    given = given or PodTemplate()
    spec: dict[str, Any] = {
        "serviceAccountName": account,
        "automountServiceAccountToken": False,
        "enableServiceLinks": False,
        "terminationGracePeriodSeconds": 30,
        "securityContext": {
            "runAsNonRoot": True,
            "runAsUser": _USER,
            "runAsGroup": _USER,
            "fsGroup": _USER,
            "fsGroupChangePolicy": "OnRootMismatch",
            "seccompProfile": {"type": "RuntimeDefault"},
        },
        "containers": [container],
        "volumes": volumes,
    }
    secrets = dict.fromkeys([*pull_secrets, *(secret.name for secret in given.image_pull_secrets or ())])
    if secrets:
        spec["imagePullSecrets"] = [{"name": name} for name in secrets]
    if given.node_selector:
        spec["nodeSelector"] = dict(given.node_selector)
    if given.tolerations:
        spec["tolerations"] = [one.model_dump(by_alias=True, exclude_none=True) for one in given.tolerations]
    if constraints := _spread(given.topology_spread_constraints, spread):
        spec["topologySpreadConstraints"] = constraints
    if given.priority_class_name is not None:
        spec["priorityClassName"] = given.priority_class_name
    if given.runtime_class_name is not None:
        spec["runtimeClassName"] = given.runtime_class_name
    metadata = {
        "labels": {**(given.labels or {}), **labels},
        "annotations": {**(given.annotations or {}), **annotations},
    }
    return {"metadata": metadata, "spec": spec}


def _spread(given: Sequence[Spread] | None, selector: Mapping[str, str] | None) -> list[dict[str, Any]]:
    """Constraints on where several pods run: those that are given, or over nodes and zones where that can be."""
    if selector is None:
        return []
    constraints = _ANYWHERE if given is None else given
    return [{**one.model_dump(by_alias=True), "labelSelector": {"matchLabels": dict(selector)}} for one in constraints]


def container(
    *,
    name: str,
    image: str,
    command: list[str],
    ports: list[dict[str, Any]],
    mounts: Mapping[str, str],
    requests: Mapping[str, str],
    resources: Resources | None = None,
    writable: str | None = None,
) -> dict[str, Any]:
    """A container that answers `/livez` and `/readyz` on its health port. `mounts`: volume -> folder, read-only but for
    the volume `writable`. `requests` is what it requests where `resources` say nothing.
    """
    return {
        "name": name,
        "image": image,
        "imagePullPolicy": "IfNotPresent",
        "command": command,
        "ports": [*ports, {"name": "health", "containerPort": HEALTH_PORT, "protocol": "TCP"}],
        "resources": _resources(resources, requests=requests),
        "securityContext": {
            "allowPrivilegeEscalation": False,
            "readOnlyRootFilesystem": True,
            "capabilities": {"drop": ["ALL"]},
        },
        # Reading a long history back may take minutes; until then nothing is restarted.
        "startupProbe": _probe("/livez", period=5, failures=120),
        "livenessProbe": _probe("/livez", period=10, failures=3),
        "readinessProbe": _probe("/readyz", period=5, failures=2),
        "volumeMounts": [
            {"name": volume, "mountPath": folder}
            if volume == writable
            else {"name": volume, "mountPath": folder, "readOnly": True}
            for volume, folder in mounts.items()
        ],
    }


def secret_volume(name: str, secret: str, *, keys: tuple[str, ...] = ()) -> dict[str, Any]:
    """A volume with a Secret, or only some of its keys, readable by the pod's group."""
    source: dict[str, Any] = {"secretName": secret, "defaultMode": _READABLE_BY_GROUP}
    if keys:
        source["items"] = [{"key": key, "path": key} for key in keys]
    return {"name": name, "secret": source}


def config_volume(name: str, config_map: str) -> dict[str, Any]:
    """A volume with a ConfigMap."""
    return {"name": name, "configMap": {"name": config_map, "defaultMode": _READABLE_BY_ALL}}


def api_credential_volume(name: str) -> dict[str, Any]:
    """A volume with what a pod needs to call the API server: a token that is renewed, the authority, its namespace."""
    sources = [
        {"serviceAccountToken": {"path": "token", "expirationSeconds": 3600}},
        {
            "configMap": {
                "name": "kube-root-ca.crt",
                "items": [{"key": "ca.crt", "path": "ca.crt"}],
            }
        },
        {
            "downwardAPI": {
                "items": [{"path": "namespace", "fieldRef": {"apiVersion": "v1", "fieldPath": "metadata.namespace"}}]
            }
        },
    ]
    return {"name": name, "projected": {"defaultMode": _READABLE_BY_ALL, "sources": sources}}


def _probe(path: str, *, period: int, failures: int) -> dict[str, Any]:
    return {
        "httpGet": {"path": path, "port": "health", "scheme": "HTTP"},
        "periodSeconds": period,
        "timeoutSeconds": 5,
        "successThreshold": 1,
        "failureThreshold": failures,
    }
