"""How to reach the API server, and as whom: one answer for our client, one for kopf's.

In a pod that is the ServiceAccount's token, which Kubernetes replaces while we run; elsewhere the kubeconfig that
`KUBECONFIG` names, or the one in the home directory.
"""

from __future__ import annotations

import os

import kopf
from kubernetes.aio.client import Configuration
from kubernetes.aio.config import (
    ConfigException,
    list_kube_config_contexts,
    load_incluster_config,
    load_kube_config,
)
from kubernetes.aio.config.incluster_config import SERVICE_HOST_ENV_NAME


class NoAccess(Exception):
    """Neither a pod's ServiceAccount nor a kubeconfig that can be used; the message says what was looked at."""


def in_cluster() -> bool:
    """Whether we run in a pod."""
    return SERVICE_HOST_ENV_NAME in os.environ


async def configuration(*, kubeconfig: str | None = None, context: str | None = None) -> Configuration:
    """For our client; a named kubeconfig or context counts before everything else. Raises `NoAccess`."""
    found = Configuration()
    named = kubeconfig is not None or context is not None
    try:
        if in_cluster() and not named:
            load_incluster_config(client_configuration=found)  # reads the token anew every minute
        else:
            file = kubeconfig or os.environ.get("KUBECONFIG")
            await load_kube_config(file, context=context, client_configuration=found, persist_config=False)
    except (ConfigException, OSError) as error:
        looked_at = "the pod's ServiceAccount" if in_cluster() and not named else "KUBECONFIG or ~/.kube/config"
        raise NoAccess(f"no access to a cluster by {looked_at}: {error}") from error
    return found


def home_namespace(*, kubeconfig: str | None = None, context: str | None = None) -> str:
    """The namespace that a kubeconfig's context names, as kubectl takes it; `default` if it names none. Blocks."""
    try:
        contexts, active = list_kube_config_contexts(kubeconfig or os.environ.get("KUBECONFIG"))
    except (ConfigException, OSError):
        return "default"
    chosen = next((one for one in contexts if one["name"] == context), active) if context else active
    return str(chosen["context"].get("namespace") or "default")


def for_kopf(settings: kopf.OperatorSettings) -> kopf.ConnectionInfo | None:
    """For kopf, which asks again when the API server refuses the credential."""
    if in_cluster():
        return kopf.login_with_service_account(settings=settings)
    return kopf.login_with_kubeconfig(settings=settings)
