"""StatefulSet of a World: one pod, which alone writes to its volume."""

from __future__ import annotations

from typing import Any

from demarkus_operator.plan import labels
from demarkus_operator.plan.children import pods
from demarkus_operator.plan.children.world_config import CONFIG_FILE
from demarkus_operator.plan.names import WorldNames
from demarkus_operator.plan.owner import Owner


def stateful_set(owner: Owner, names: WorldNames, *, image: str, config_hash: str) -> dict[str, Any]:
    """The StatefulSet."""
    container = pods.container(
        name="world",
        image=image,
        command=["demarkus-world", "serve", "--config", f"{pods.CONFIG}/{CONFIG_FILE}"],
        ports=[{"name": "mark", "containerPort": pods.MARK_PORT, "protocol": "UDP"}],
        mounts={
            "config": pods.CONFIG,
            "tls": pods.TLS,
            "tokens": pods.TOKENS,
            "identity": pods.IDENTITY,
            "store": pods.STORE,
        },
        requests={"cpu": "50m", "memory": "128Mi"},
        writable="store",
    )
    volumes = [
        pods.config_volume("config", names.config.name),
        pods.secret_volume("tls", names.certificate.name),
        pods.secret_volume("tokens", names.tokens.name),
        pods.secret_volume("identity", names.identity.name, keys=("world.key",)),
        {"name": "store", "persistentVolumeClaim": {"claimName": names.claim.name}},
    ]
    spec = {
        "replicas": 1,
        "serviceName": names.pods_service.name,
        # Parallel: a pod that never gets ready must not keep its own repair from being rolled out.
        "podManagementPolicy": "Parallel",
        "updateStrategy": {"type": "RollingUpdate"},
        "selector": {"matchLabels": labels.world_selector(owner.name)},
        "template": {
            "metadata": {"labels": dict(owner.labels), "annotations": {labels.CONFIG_HASH: config_hash}},
            "spec": pods.pod_spec(
                account=names.service_account.name,
                volumes=volumes,
                container=container,
            ),
        },
    }
    return owner.owned(names.stateful_set, {"spec": spec})
