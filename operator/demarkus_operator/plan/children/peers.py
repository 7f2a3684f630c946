"""Peers and ports of network policies that worlds and gateways share."""

from __future__ import annotations

from typing import Any

from demarkus_operator.plan import labels
from demarkus_operator.plan.children.pods import HEALTH_PORT
from demarkus_operator.plan.site import Site

HTTPS = 443

_NODE_LOCAL_DNS = "169.254.20.10/32"
_METADATA_SERVERS = ("169.254.169.254/32", "169.254.169.252/32")
_METADATA_PORTS = (80, 987, 988)


def pods_in(namespace: str, selector: dict[str, str]) -> dict[str, Any]:
    """Pods of one namespace with these labels; without labels, all of them."""
    return {
        "namespaceSelector": {"matchLabels": {labels.NAMESPACE_NAME: namespace}},
        "podSelector": {"matchLabels": selector} if selector else {},
    }


def port(protocol: str, number: int) -> dict[str, Any]:
    """A port of a rule."""
    return {"protocol": protocol, "port": number}


def from_operator(site: Site, *more: int) -> dict[str, Any]:
    """Ingress: the operator asks how a pod is, and calls it on `more` ports. (Probes come from the node and are never
    held back.)
    """
    return {
        "from": [pods_in(site.operator_namespace, {labels.NAME: labels.OPERATOR_APP})],
        "ports": [port("TCP", number) for number in (HEALTH_PORT, *more)],
    }


def names() -> dict[str, Any]:
    """Egress: DNS, in the cluster wherever it runs, and of the node's cache."""
    return {
        "to": [{"namespaceSelector": {}}, {"ipBlock": {"cidr": _NODE_LOCAL_DNS}}],
        "ports": [port("UDP", 53), port("TCP", 53)],
    }


def metadata_server() -> dict[str, Any]:
    """Egress: the node's metadata server, which gives a pod the credential of its Google service account."""
    return {
        "to": [{"ipBlock": {"cidr": cidr}} for cidr in _METADATA_SERVERS],
        "ports": [port("TCP", number) for number in _METADATA_PORTS],
    }


def google() -> tuple[dict[str, Any], ...]:
    """Egress: Google's storage service, whose addresses change, and the credential for it."""
    return ({"ports": [port("TCP", HTTPS)]}, metadata_server())
