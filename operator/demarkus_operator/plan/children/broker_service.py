"""Service of the gateway: plain HTTP inside the cluster; TLS is the ingress's business."""

from __future__ import annotations

from typing import Any

from demarkus_operator.plan import labels
from demarkus_operator.plan.children.pods import HTTP_PORT
from demarkus_operator.plan.names import UniverseNames
from demarkus_operator.plan.owner import Owner


def service(owner: Owner, names: UniverseNames) -> dict[str, Any]:
    """The Service."""
    spec = {
        "type": "ClusterIP",
        "selector": labels.broker_selector(owner.name),
        "ports": [{"name": "http", "protocol": "TCP", "port": HTTP_PORT, "targetPort": "http"}],
    }
    return owner.owned(names.service, {"spec": spec})
