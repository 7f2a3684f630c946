"""What the reconcile of a World reads, and its plan."""

from __future__ import annotations

from demarkus_operator.cluster.kinds import WORLD
from demarkus_operator.plan.inquiry import inquiry_of, record_reads
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
        observed = {**observed, **await children.read(edge.port, record_reads(world, observed, edge.site))}
        reports, now = await edge.processes.reports(ref), edge.now()
        inquiry = inquiry_of(world, observed, edge.site, now, reports)
        testimony = None if inquiry is None else await edge.witness.testimony(ref, inquiry)
        return observed, plan_world(world, observed, edge.site, now, reports, testimony)

    await reconcile(edge, ref, look, outcome=outcome, attempt=attempt)
