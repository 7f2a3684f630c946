"""What the reconcile of a Universe reads, and its plan: besides children, its Worlds and their namespaces."""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from demarkus_operator.cluster.kinds import NAMESPACE, UNIVERSE, WORLD
from demarkus_operator.plan.membership import universe_of
from demarkus_operator.plan.objects import Manifest, Observed, Plan, Ref
from demarkus_operator.plan.universe import plan_universe, universe_reads
from demarkus_operator.reconcile import children
from demarkus_operator.reconcile.loop import Edge, Outcome, reconcile


def universe_ref(namespace: str, name: str) -> Ref:
    """The name of a Universe."""
    return Ref(UNIVERSE.api_version, UNIVERSE.kind, namespace, name)


async def reconcile_universe(edge: Edge, ref: Ref, *, outcome: Outcome, attempt: int = 1) -> None:
    """One reconcile of a Universe; see `loop.reconcile`."""

    async def look(universe: Manifest) -> tuple[Observed, Plan]:
        observed = await children.read(edge.port, universe_reads(universe, edge.site))
        worlds = await worlds_of(edge, ref)
        namespaces = await _namespaces(edge, {world["metadata"]["namespace"] for world in worlds} - {ref.namespace})
        return observed, plan_universe(universe, observed, worlds, namespaces, edge.site, edge.now())

    await reconcile(edge, ref, look, outcome=outcome, attempt=attempt)


async def worlds_of(edge: Edge, universe: Ref) -> list[Manifest]:
    """All Worlds that name a Universe and are not being deleted. Raises `PortError`."""
    return [
        world
        for namespace in edge.namespaces or (None,)
        for world in await edge.port.list(WORLD.api_version, WORLD.kind, namespace=namespace)
        if universe_of(world) == (universe.namespace, universe.name) and "deletionTimestamp" not in world["metadata"]
    ]


async def _namespaces(edge: Edge, names: Iterable[str]) -> Mapping[str, Manifest]:
    refs = {Ref(NAMESPACE.api_version, NAMESPACE.kind, "", name): name for name in names}
    observed = await children.read(edge.port, refs)
    return {refs[ref]: found for ref, found in observed.items() if found is not None}
