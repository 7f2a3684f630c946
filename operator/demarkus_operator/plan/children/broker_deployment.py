"""Deployment of the gateway, and the PodDisruptionBudget that keeps one of several replicas while nodes are drained."""

from __future__ import annotations

from typing import Any

from demarkus_operator.plan import labels
from demarkus_operator.plan.children import pods
from demarkus_operator.plan.children.broker_config import CONFIG_FILE
from demarkus_operator.plan.names import UniverseNames
from demarkus_operator.plan.owner import Owner


def deployment(owner: Owner, names: UniverseNames, *, image: str, replicas: int, config_hash: str) -> dict[str, Any]:
    """The Deployment."""
    container = pods.container(
        name="broker",
        image=image,
        command=["demarkus-broker", "serve", "--config", f"{pods.CONFIG}/{CONFIG_FILE}"],
        ports=[{"name": "http", "containerPort": pods.HTTP_PORT, "protocol": "TCP"}],
        mounts={"config": pods.CONFIG, "keys": pods.KEYS},
        requests={"cpu": "100m", "memory": "128Mi"},
    )
    volumes = [
        pods.config_volume("config", names.config.name),
        pods.secret_volume("keys", names.keys.name),
    ]
    spec = {
        "replicas": replicas,
        "strategy": {"type": "RollingUpdate", "rollingUpdate": {"maxUnavailable": 0, "maxSurge": 1}},
        "selector": {"matchLabels": labels.broker_selector(owner.name)},
        "template": {
            "metadata": {"labels": dict(owner.labels), "annotations": {labels.CONFIG_HASH: config_hash}},
            "spec": pods.pod_spec(account=names.service_account.name, volumes=volumes, container=container),
        },
    }
    return owner.owned(names.deployment, {"spec": spec})


def disruption_budget(owner: Owner, names: UniverseNames) -> dict[str, Any]:
    """The budget. A pod that is not healthy anyway never holds up a drain."""
    spec = {
        "maxUnavailable": 1,
        "unhealthyPodEvictionPolicy": "AlwaysAllow",
        "selector": {"matchLabels": labels.broker_selector(owner.name)},
    }
    return owner.owned(names.disruption_budget, {"spec": spec})
