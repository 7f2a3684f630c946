"""Services of a World: one address for native clients, and the addresses of the pods for its gateway."""

from __future__ import annotations

from typing import Any

from demarkus_operator.api.expose import Expose
from demarkus_operator.plan import labels
from demarkus_operator.plan.children.pods import HEALTH_PORT, MARK_PORT
from demarkus_operator.plan.names import WorldNames
from demarkus_operator.plan.owner import Owner

_MARK = {"name": "mark", "protocol": "UDP", "port": MARK_PORT, "targetPort": "mark"}
_HEALTH = {"name": "health", "protocol": "TCP", "port": HEALTH_PORT, "targetPort": "health"}


def service(owner: Owner, names: WorldNames, expose: Expose | None) -> dict[str, Any]:
    """The Service that native clients dial: in the cluster, or from outside if the World is exposed."""
    expose = expose or Expose()
    spec = {"type": expose.type or "ClusterIP", "selector": labels.world_selector(owner.name), "ports": [_MARK]}
    manifest = owner.owned(names.service, {"spec": spec})
    if expose.annotations:
        manifest["metadata"]["annotations"] = dict(expose.annotations)
    return manifest


def pods_service(owner: Owner, names: WorldNames) -> dict[str, Any]:
    """The headless Service. It names pods that are not ready too: whoever dials a pod sees for itself whether it
    answers, and a name that is gone for a moment would be remembered as gone by DNS caches.
    """
    spec = {
        "type": "ClusterIP",
        "clusterIP": "None",
        "publishNotReadyAddresses": True,
        "selector": labels.world_selector(owner.name),
        "ports": [_MARK, _HEALTH],
    }
    return owner.owned(names.pods_service, {"spec": spec})
