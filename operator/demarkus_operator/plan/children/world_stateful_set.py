"""StatefulSet of a World: one pod, which alone writes to its volume, or several that share a bucket."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from demarkus_operator.api.pods import WorldTemplate
from demarkus_operator.api.world import WorldSpec
from demarkus_operator.plan import labels
from demarkus_operator.plan.children import pods
from demarkus_operator.plan.children.world_config import CONFIG_FILE, token_file_folder
from demarkus_operator.plan.names import WorldNames
from demarkus_operator.plan.owner import Owner

DEFAULT_REPLICAS = 2
"""Of a World in a bucket."""


def replicas_of(spec: WorldSpec) -> int:
    """How many pods there should be, but for a suspension."""
    return 1 if spec.store.bucket is None else spec.store.bucket.replicas or DEFAULT_REPLICAS


def stateful_set(
    owner: Owner,
    names: WorldNames,
    spec: WorldSpec,
    *,
    image: str,
    annotations: Mapping[str, str],
    pull_secrets: tuple[str, ...] = (),
) -> dict[str, Any]:
    """The StatefulSet. `annotations` are those of the pods: when one changes, they are replaced."""
    template = spec.template or WorldTemplate()
    mounts = {
        "config": pods.CONFIG,
        "tls": pods.TLS,
        "tokens": pods.TOKENS,
        "identity": pods.IDENTITY,
        "store": pods.STORE,
    }
    volumes = [
        pods.config_volume("config", names.config.name),
        pods.secret_volume("tls", names.certificate.name),
        pods.secret_volume("tokens", names.tokens.name),
        pods.secret_volume("identity", names.identity.name, keys=("world.key",)),
        # In a bucket's stead, what a process keeps of it to answer from.
        {"name": "store", "emptyDir": {}}
        if spec.store.bucket is not None
        else {"name": "store", "persistentVolumeClaim": {"claimName": names.claim.name}},
    ]
    for number, file in enumerate(spec.token_files or ()):
        mounts[f"token-file-{number}"] = token_file_folder(file)
        volumes.append(pods.secret_volume(f"token-file-{number}", file.secret_ref.name, keys=(file.secret_ref.key,)))
    container = pods.container(
        name="world",
        image=image,
        command=["demarkus-world", "serve", "--config", f"{pods.CONFIG}/{CONFIG_FILE}"],
        ports=[
            {"name": "mark", "containerPort": pods.MARK_PORT, "protocol": "UDP"},
            {"name": "management", "containerPort": pods.MANAGEMENT_PORT, "protocol": "TCP"},
        ],
        mounts=mounts,
        requests={"cpu": "50m", "memory": "128Mi"},
        resources=template.resources,
        writable="store",
    )
    selector = labels.world_selector(owner.name)
    replicas = replicas_of(spec)
    content = {
        "replicas": 0 if spec.suspend else replicas,
        "serviceName": names.pods_service.name,
        # Parallel: a pod that never gets ready must not keep its own repair from being rolled out.
        "podManagementPolicy": "Parallel",
        "updateStrategy": {"type": "RollingUpdate"},
        "selector": {"matchLabels": selector},
        "template": pods.pod_template(
            account=names.service_account.name,
            volumes=volumes,
            container=container,
            labels=owner.labels,
            annotations=annotations,
            given=template,
            pull_secrets=pull_secrets,
            spread=selector if replicas > 1 else None,
        ),
    }
    return owner.owned(names.stateful_set, {"spec": content})
