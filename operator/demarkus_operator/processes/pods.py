"""Where processes are in a cluster: the running pods of a World or Universe, by their labels."""

from __future__ import annotations

from collections.abc import Sequence

from demarkus_operator.cluster.kinds import POD, WORLD
from demarkus_operator.cluster.port import Port
from demarkus_operator.plan import labels
from demarkus_operator.plan.children.pods import HEALTH_PORT, MANAGEMENT_PORT
from demarkus_operator.plan.objects import Manifest, Ref
from demarkus_operator.processes.asked import Place, Places


def in_cluster(port: Port) -> Places:
    """Finds pods by one label-selected list."""

    async def places(ref: Ref) -> Sequence[Place]:
        selector = labels.world_selector if ref.kind == WORLD.kind else labels.broker_selector
        pods = await port.list(POD.api_version, POD.kind, namespace=ref.namespace, labels=selector(ref.name))
        return [place_of(pod) for pod in pods if _runs(pod)]

    return places


def place_of(pod: Manifest) -> Place:
    """Where a pod's process is."""
    metadata, status = pod["metadata"], pod.get("status") or {}
    ip = status.get("podIP")
    host = f"[{ip}]" if ip and ":" in ip else ip
    return Place(
        pod=metadata["name"],
        address=host and f"{host}:{HEALTH_PORT}",
        management=host and f"{host}:{MANAGEMENT_PORT}",
        ready=any(c.get("type") == "Ready" and c.get("status") == "True" for c in status.get("conditions") or ()),
        resource_version=metadata.get("resourceVersion", ""),
        synced=(metadata.get("annotations") or {}).get(labels.SYNCED, ""),
    )


def _runs(pod: Manifest) -> bool:
    """Whether a process may be there; one that has not begun yet will read everything when it does."""
    return (pod.get("status") or {}).get("phase") == "Running"
