"""What the pods of worlds and gateways have in common: ports, folders, the restricted security profile, probes."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

MARK_PORT = 6309
HTTP_PORT = 8080
HEALTH_PORT = 8081

CONFIG = "/etc/demarkus/config"
TLS = "/etc/demarkus/tls"
TOKENS = "/etc/demarkus/tokens"
IDENTITY = "/etc/demarkus/identity"
KEYS = "/etc/demarkus/keys"
STORE = "/var/lib/demarkus"

_USER = 65532
_READABLE_BY_GROUP = 0o440
_READABLE_BY_ALL = 0o644


def pod_spec(*, account: str, volumes: list[dict[str, Any]], container: dict[str, Any]) -> dict[str, Any]:
    """The spec of a pod with one container, as the `restricted` pod security standard wants it."""
    return {
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


def container(
    *,
    name: str,
    image: str,
    command: list[str],
    ports: list[dict[str, Any]],
    mounts: Mapping[str, str],
    requests: Mapping[str, str],
    writable: str | None = None,
) -> dict[str, Any]:
    """A container that answers `/livez` and `/readyz` on its health port. `mounts`: volume -> folder, read-only but for
    the volume `writable`.
    """
    return {
        "name": name,
        "image": image,
        "imagePullPolicy": "IfNotPresent",
        "command": command,
        "ports": [*ports, {"name": "health", "containerPort": HEALTH_PORT, "protocol": "TCP"}],
        "resources": {"requests": dict(requests)},
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


def _probe(path: str, *, period: int, failures: int) -> dict[str, Any]:
    return {
        "httpGet": {"path": path, "port": "health", "scheme": "HTTP"},
        "periodSeconds": period,
        "timeoutSeconds": 5,
        "successThreshold": 1,
        "failureThreshold": failures,
    }
