"""What makes the reconcile of a Universe that of a Universe: its children, its Worlds and their namespaces, its plan.

At the end it knows which of its Worlds may have waited for what was written: all of them for keys and authorities,
otherwise those whose name was bound. A change of the gateway's configuration is nothing that a World waits for.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence

from demarkus_operator.cluster.kinds import (
    CONFIG_MAP,
    DEPLOYMENT,
    HTTP_ROUTE,
    INGRESS,
    NAMESPACE,
    NETWORK_POLICY,
    POD,
    POD_DISRUPTION_BUDGET,
    SECRET,
    SERVICE,
    SERVICE_ACCOUNT,
    UNIVERSE,
    WORLD,
)
from demarkus_operator.plan.labels import MANAGED_BY, MANAGER, broker_selector
from demarkus_operator.plan.membership import universe_of
from demarkus_operator.plan.names import UniverseNames
from demarkus_operator.plan.objects import Manifest, Observed, Plan, Ref
from demarkus_operator.plan.record import bindings_of, version_of
from demarkus_operator.plan.refusal import Refusal
from demarkus_operator.plan.rollout import rollout_of
from demarkus_operator.plan.universe import later_reads, plan_universe, universe_reads
from demarkus_operator.reconcile.loop import Concern, Edge
from demarkus_operator.reconcile.observe import Family, named

CHILDREN = (
    CONFIG_MAP,
    DEPLOYMENT,
    HTTP_ROUTE,
    INGRESS,
    NETWORK_POLICY,
    POD,
    POD_DISRUPTION_BUDGET,
    SERVICE,
    SERVICE_ACCOUNT,
)
"""Kinds of children of a Universe, but for Secrets."""


def universe_ref(namespace: str, name: str) -> Ref:
    """The name of a Universe."""
    return Ref(UNIVERSE.api_version, UNIVERSE.kind, namespace, name)


def universe_family(ref: Ref) -> Family:
    """How the children of a Universe are found."""
    labels = {**broker_selector(ref.name), MANAGED_BY: MANAGER}
    return Family(namespace=ref.namespace, labels=labels, kinds=CHILDREN)


def universe_concern(edge: Edge, ref: Ref) -> Concern:
    """What the reconcile of a Universe needs."""
    record = UniverseNames(ref.namespace, ref.name).record
    worlds: Sequence[Manifest] = ()
    before: Manifest | None = None
    after: Manifest | None = None

    async def plan(universe: Manifest, observed: Observed) -> Plan:
        nonlocal worlds, before, after
        worlds = await worlds_of(edge, ref)
        namespaces = await _namespaces(edge, {world["metadata"]["namespace"] for world in worlds} - {ref.namespace})
        reports = await edge.processes.reports(ref)
        made = plan_universe(universe, observed, worlds, namespaces, edge.site, edge.now(), reports)
        before = observed.get(record)
        after = next((manifest for manifest in made.apply if Ref.of(manifest) == record), before)
        return made

    def wakes(written: Sequence[Ref]) -> Sequence[Ref]:
        everybody = any(one.kind == SECRET.kind for one in written)
        if not everybody and record not in written:
            return ()
        names = None if everybody else _rebound(before, after)
        return [Ref.of(world) for world in worlds if names is None or world["metadata"]["name"] in names]

    return Concern(
        family=lambda _: universe_family(ref),
        reads=lambda universe: universe_reads(universe, edge.site),
        then=lambda universe, observed: later_reads(universe, observed, edge.site),
        plan=plan,
        wakes=wakes,
    )


async def worlds_of(edge: Edge, universe: Ref) -> list[Manifest]:
    """All Worlds that name a Universe and are not being deleted. Raises `PortError`."""
    found: list[Manifest] = []
    for namespace in edge.namespaces or (None,):
        async for page in edge.port.pages(WORLD.api_version, WORLD.kind, namespace=namespace):
            found += [
                world
                for world in page
                if universe_of(world) == (universe.namespace, universe.name)
                and "deletionTimestamp" not in world["metadata"]
            ]
    return found


def _rebound(before: Manifest | None, after: Manifest | None) -> set[str]:
    """The names that belong to others than before, or to somebody at last, and those that get another version."""
    try:
        old, new = bindings_of(before), bindings_of(after)
        was, will_be = (rollout_of(record, version_of(record)) for record in (before, after))
    except Refusal:
        return set()
    return {
        name
        for name in old.keys() | new.keys()
        if old.get(name) != new.get(name) or (was and was.version(name)) != (will_be and will_be.version(name))
    }


async def _namespaces(edge: Edge, names: Iterable[str]) -> Mapping[str, Manifest]:
    refs = {Ref(NAMESPACE.api_version, NAMESPACE.kind, "", name): name for name in names}
    observed = await named(edge.port, refs, cluster_wide=not edge.namespaces)
    return {refs[ref]: found for ref, found in observed.items() if found is not None}
