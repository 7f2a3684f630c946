"""ConfigMap of the gateway: broker.yaml, and the certificate authority by which it verifies Worlds."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from demarkus_operator.api.access import Access
from demarkus_operator.api.gateway import Broker, State
from demarkus_operator.api.identity import Identity as SignIn
from demarkus_operator.api.universe import UniverseSpec
from demarkus_operator.plan.children import pods
from demarkus_operator.plan.children.world_config import Identity
from demarkus_operator.plan.children.yaml_text import digest, yaml_text
from demarkus_operator.plan.names import UniverseNames, WorldNames, world_server_name
from demarkus_operator.plan.owner import Owner
from demarkus_operator.plan.site import Site

CONFIG_FILE = "broker.yaml"
CA_FILE = "ca.crt"


def route(names: WorldNames, identity: Identity, access: Access | None, site: Site) -> dict[str, Any]:
    """An entry of `worlds`: where a World answers, which history it serves, who may use it."""
    server_name = world_server_name(names.namespace, names.name)
    pods_name = world_server_name(names.namespace, names.pods_service.name)
    entry: dict[str, Any] = {
        "name": names.name,
        "namespace": names.namespace,
        "service": f"{pods_name}.{site.cluster_domain}:{pods.MARK_PORT}",
        "serverName": server_name,
        "history": identity.history,
        "incarnation": identity.incarnation,
    }
    if access is not None:
        entry["access"] = access.model_dump(by_alias=True, exclude_none=True)
    return entry


def settings(
    spec: UniverseSpec, routes: Sequence[dict[str, Any]], web_clients: Sequence[dict[str, Any]]
) -> dict[str, Any]:
    """The content of broker.yaml. `web_clients` are those of the spec, with the hashes of their secrets.

    `generation` tells apart what grants were made for, so it is made from all that they depend on.
    """
    worlds = sorted(routes, key=lambda entry: str(entry["name"]))
    document: dict[str, Any] = {
        "publicURL": spec.public_url,
        "listen": {"http": f"0.0.0.0:{pods.HTTP_PORT}", "health": f"0.0.0.0:{pods.HEALTH_PORT}"},
        "keys": {"directory": pods.KEYS},
        "caBundle": f"{pods.CONFIG}/{CA_FILE}",
    }
    broker = spec.broker or Broker()
    if spec.identity is not None:
        document["identity"] = _identity(spec.identity)
    if broker.state is not None:
        document["state"] = _state(broker.state)
    if broker.limits is not None:
        document["limits"] = broker.limits.model_dump(by_alias=True, exclude_none=True)
    if web_clients:
        document["webClients"] = list(web_clients)
    return {
        **document,
        "worlds": worlds,
        "generation": int(digest([spec.public_url, document.get("identity"), worlds])[:12], 16),
        "log": {"level": "info"},
    }


def _identity(identity: SignIn) -> dict[str, Any]:
    found = identity.model_dump(by_alias=True, exclude_none=True, exclude={"client_secret_ref"})
    return {**found, "clientSecretFile": f"{pods.IDENTITY}/{identity.client_secret_ref.key}"}


def _state(state: State) -> dict[str, Any]:
    if state.kubernetes is not None:
        return {"kubernetes": {"namespace": state.kubernetes.namespace}}
    if state.gcs is not None:
        return {"gcs": {"url": state.gcs.url}}
    return {"directory": pods.STORE}


def restart_hash(document: dict[str, Any]) -> str:
    """A hash of the settings that a running gateway does not take over: when it changes, the pods are replaced."""
    return digest({key: document[key] for key in ("listen", "keys", "caBundle", "state") if key in document})


def config(owner: Owner, names: UniverseNames, document: dict[str, Any], ca_certificate: bytes) -> dict[str, Any]:
    """The ConfigMap."""
    return owner.owned(names.config, {"data": {CONFIG_FILE: yaml_text(document), CA_FILE: ca_certificate.decode()}})
