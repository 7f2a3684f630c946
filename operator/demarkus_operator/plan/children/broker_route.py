"""What leads from the public URL to the gateway: an Ingress, or an HTTPRoute of the Gateway API."""

from __future__ import annotations

from typing import Any
from urllib.parse import urlsplit

from demarkus_operator.api.gateway import GatewayRef, PublicRoute
from demarkus_operator.plan.children.pods import HTTP_PORT
from demarkus_operator.plan.names import UniverseNames
from demarkus_operator.plan.owner import Owner


def route(owner: Owner, names: UniverseNames, spec: PublicRoute, public_url: str) -> dict[str, Any]:
    """The Ingress or HTTPRoute for the host of the public URL."""
    host = urlsplit(public_url).hostname or ""
    if spec.gateway is not None:
        manifest = owner.owned(names.http_route, {"spec": _http_route(names, spec.gateway, host)})
    else:
        manifest = owner.owned(names.ingress, {"spec": _ingress(names, spec, host)})
    if spec.annotations:
        manifest["metadata"]["annotations"] = dict(spec.annotations)
    return manifest


def _ingress(names: UniverseNames, spec: PublicRoute, host: str) -> dict[str, Any]:
    service = {"name": names.service.name, "port": {"name": "http"}}
    path = {"path": "/", "pathType": "Prefix", "backend": {"service": service}}
    content: dict[str, Any] = {"rules": [{"host": host, "http": {"paths": [path]}}]}
    if spec.class_name is not None:
        content["ingressClassName"] = spec.class_name
    if spec.tls_secret_name is not None:
        content["tls"] = [{"hosts": [host], "secretName": spec.tls_secret_name}]
    return content


def _http_route(names: UniverseNames, gateway: GatewayRef, host: str) -> dict[str, Any]:
    parent = {"group": "gateway.networking.k8s.io", "kind": "Gateway", **gateway.model_dump(by_alias=True)}
    backend = {"group": "", "kind": "Service", "name": names.service.name, "port": HTTP_PORT, "weight": 1}
    return {
        "parentRefs": [{key: value for key, value in parent.items() if value is not None}],
        "hostnames": [host],
        "rules": [{"matches": [{"path": {"type": "PathPrefix", "value": "/"}}], "backendRefs": [backend]}],
    }
