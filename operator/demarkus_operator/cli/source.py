"""Where a command reads objects from: the state folder of a universe on this machine, or a cluster."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from demarkus_operator.cli.cluster import Place, run
from demarkus_operator.cli.options import Failure, Mistake, shown
from demarkus_operator.cluster.port import NotFound
from demarkus_operator.local import store
from demarkus_operator.local.declared import DEFAULT_NAMESPACE
from demarkus_operator.local.state import StateFolder
from demarkus_operator.plan.objects import Manifest, Ref
from demarkus_operator.reconcile.world import world_ref


@dataclass(frozen=True, slots=True)
class Source:
    """Reads objects one by one; `read` gives None for what is absent and raises Failure."""

    name: str
    namespace: str
    read: Callable[[Ref], Manifest | None]

    def world(self, name: str) -> Manifest:
        """A World of the namespace. Raises Mistake, Failure."""
        found = self.read(world_ref(self.namespace, name))
        if found is None:
            raise Mistake(f"there is no World {self.namespace}/{name} in {self.name}")
        return found


def cluster_source(place: Place) -> Source:
    """A cluster, as it is meant on the command line."""

    async def get(ref: Ref) -> Manifest | None:
        async with place.port() as port:
            try:
                return await port.get(ref)
            except NotFound:
                return None

    return Source("the cluster", place.namespace, lambda ref: run(get(ref)))


def local_source(folder: StateFolder, place: Place) -> Source:
    """A state folder, which a running `up` may hold."""

    def read(ref: Ref) -> Manifest | None:
        try:
            return store.read(folder.objects, ref)
        except store.StateDamaged as error:
            raise Failure(str(error)) from error

    return Source(shown(folder.root), place.given_namespace or DEFAULT_NAMESPACE, read)
