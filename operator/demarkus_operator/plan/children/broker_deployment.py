"""Deployment of the gateway."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from demarkus_operator.api.gateway import Broker
from demarkus_operator.api.universe import UniverseSpec
from demarkus_operator.plan import labels
from demarkus_operator.plan.children import pods
from demarkus_operator.plan.children.broker_config import CONFIG_FILE
from demarkus_operator.plan.names import UniverseNames
from demarkus_operator.plan.owner import Owner

DEFAULT_REPLICAS = 2

_API_CREDENTIAL = "/var/run/secrets/kubernetes.io/serviceaccount"


def replicas_of(spec: UniverseSpec) -> int:
    """How many pods there should be."""
    return (spec.broker and spec.broker.replicas) or DEFAULT_REPLICAS


def deployment(
    owner: Owner,
    names: UniverseNames,
    spec: UniverseSpec,
    *,
    image: str,
    annotations: Mapping[str, str],
    pull_secrets: tuple[str, ...] = (),
) -> dict[str, Any]:
    """The Deployment. `annotations` are those of the pods: when one changes, they are replaced."""
    broker = spec.broker or Broker()
    volumes = [
        pods.config_volume("config", names.config.name),
        pods.secret_volume("keys", names.keys.name),
    ]
    mounts = {"config": pods.CONFIG, "keys": pods.KEYS}
    if spec.identity is not None:
        secret = spec.identity.client_secret_ref
        volumes.append(pods.secret_volume("identity", secret.name, keys=(secret.key,)))
        mounts["identity"] = pods.IDENTITY
    if broker.state is not None and broker.state.directory is not None:
        claim = broker.state.directory.claim_name
        volumes.append({"name": "state", "persistentVolumeClaim": {"claimName": claim}})
        mounts["state"] = pods.STORE
    if broker.state is not None and broker.state.kubernetes is not None:
        volumes.append(pods.api_credential_volume("api"))
        mounts["api"] = _API_CREDENTIAL
    container = pods.container(
        name="broker",
        image=image,
        command=["demarkus-broker", "serve", "--config", f"{pods.CONFIG}/{CONFIG_FILE}"],
        ports=[{"name": "http", "containerPort": pods.HTTP_PORT, "protocol": "TCP"}],
        mounts=mounts,
        requests={"cpu": "100m", "memory": "128Mi"},
        resources=broker.resources,
        writable="state",
    )
    selector = labels.broker_selector(owner.name)
    replicas = replicas_of(spec)
    content = {
        "replicas": replicas,
        "strategy": {"type": "RollingUpdate", "rollingUpdate": {"maxUnavailable": 0, "maxSurge": 1}},
        "selector": {"matchLabels": selector},
        "template": pods.pod_template(
            account=names.service_account.name,
            volumes=volumes,
            container=container,
            labels=owner.labels,
            annotations=annotations,
            given=broker.template,
            pull_secrets=pull_secrets,
            spread=selector if replicas > 1 else None,
        ),
    }
    return owner.owned(names.deployment, {"spec": content})
