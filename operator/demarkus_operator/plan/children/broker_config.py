"""ConfigMap of the gateway: broker.yaml, and the certificate authority by which it verifies Worlds."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from demarkus_operator.api.access import Access
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


def settings(spec: UniverseSpec, routes: Sequence[dict[str, Any]]) -> dict[str, Any]:
    """The content of broker.yaml.

    `generation` tells apart what grants were made for, so it is made from all that they depend on.
    """
    worlds = sorted(routes, key=lambda entry: str(entry["name"]))
    return {
        "publicURL": spec.public_url,
        "listen": {"http": f"0.0.0.0:{pods.HTTP_PORT}", "health": f"0.0.0.0:{pods.HEALTH_PORT}"},
        "keys": {"directory": pods.KEYS},
        "caBundle": f"{pods.CONFIG}/{CA_FILE}",
        "worlds": worlds,
        "generation": int(digest([spec.public_url, worlds])[:12], 16),
        "log": {"level": "info"},
    }


def restart_hash(document: dict[str, Any]) -> str:
    """A hash of the settings that a running gateway does not take over: when it changes, the pods are replaced."""
    return digest({key: document[key] for key in ("listen", "keys", "caBundle")})


def config(owner: Owner, names: UniverseNames, document: dict[str, Any], ca_certificate: bytes) -> dict[str, Any]:
    """The ConfigMap."""
    return owner.owned(names.config, {"data": {CONFIG_FILE: yaml_text(document), CA_FILE: ca_certificate.decode()}})
