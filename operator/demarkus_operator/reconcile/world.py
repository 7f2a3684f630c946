"""What makes the reconcile of a World that of a World: how its children are found, and its plan."""

from __future__ import annotations

from demarkus_operator.cluster.kinds import (
    CONFIG_MAP,
    NETWORK_POLICY,
    PERSISTENT_VOLUME_CLAIM,
    POD,
    POD_DISRUPTION_BUDGET,
    SERVICE,
    SERVICE_ACCOUNT,
    STATEFUL_SET,
    WORLD,
)
from demarkus_operator.plan.bucket import bucket_in
from demarkus_operator.plan.inquiry import inquiry_of
from demarkus_operator.plan.labels import MANAGED_BY, MANAGER, world_selector
from demarkus_operator.plan.objects import Manifest, Observed, Plan, Ref
from demarkus_operator.plan.site import Site
from demarkus_operator.plan.world import later_reads, others_reads, plan_world, world_reads
from demarkus_operator.reconcile.loop import Concern, Edge
from demarkus_operator.reconcile.observe import Family
from demarkus_operator.reconcile.release import release

CHILDREN = (
    CONFIG_MAP,
    NETWORK_POLICY,
    PERSISTENT_VOLUME_CLAIM,
    POD,
    POD_DISRUPTION_BUDGET,
    SERVICE,
    SERVICE_ACCOUNT,
    STATEFUL_SET,
)
"""Kinds of children of a World, but for Secrets."""


def world_ref(namespace: str, name: str) -> Ref:
    """The name of a World."""
    return Ref(WORLD.api_version, WORLD.kind, namespace, name)


def world_family(world: Manifest, site: Site) -> Family:
    """How the children of a World are found."""
    metadata = world["metadata"]
    return Family(
        namespace=metadata["namespace"],
        labels={**world_selector(metadata["name"]), MANAGED_BY: MANAGER},
        kinds=CHILDREN,
        others=frozenset(others_reads(world, site)),
    )


def world_concern(edge: Edge, ref: Ref) -> Concern:
    """What the reconcile of a World needs."""

    async def plan(world: Manifest, observed: Observed) -> Plan:
        reports, now = await edge.processes.reports(ref), edge.now()
        inquiry = inquiry_of(world, observed, edge.site, now, reports)
        testimony = None if inquiry is None else await edge.witness.testimony(ref, inquiry)
        where = bucket_in(world)
        bucket = None if where is None else await edge.buckets.look(where)
        return plan_world(world, observed, edge.site, now, reports, testimony, bucket)

    return Concern(
        family=lambda world: world_family(world, edge.site),
        reads=lambda world: world_reads(world, edge.site),
        then=lambda world, observed: later_reads(world, observed, edge.site),
        plan=plan,
        release=lambda world: release(edge, world),
    )
