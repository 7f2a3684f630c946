"""What the reconcile of a World reads, and its plan."""

from __future__ import annotations

from demarkus_operator.cluster.kinds import WORLD
from demarkus_operator.plan.objects import Manifest, Observed, Plan, Ref
from demarkus_operator.plan.world import plan_world, world_reads
from demarkus_operator.reconcile import children
from demarkus_operator.reconcile.loop import Edge, Outcome, reconcile


def world_ref(namespace: str, name: str) -> Ref:
    """The name of a World."""
    return Ref(WORLD.api_version, WORLD.kind, namespace, name)


async def reconcile_world(edge: Edge, ref: Ref, *, outcome: Outcome, attempt: int = 1) -> None:
    """One reconcile of a World; see `loop.reconcile`."""

    async def look(world: Manifest) -> tuple[Observed, Plan]:
        observed = await children.read(edge.port, world_reads(world, edge.site))
        reports = await edge.processes.reports(ref)
        return observed, plan_world(world, observed, edge.site, edge.now(), reports)

    await reconcile(edge, ref, look, outcome=outcome, attempt=attempt)
