"""From an object's kind to what makes its reconcile that of its kind."""

from __future__ import annotations

from demarkus_operator.cluster.kinds import WORLD
from demarkus_operator.plan.objects import Ref
from demarkus_operator.reconcile.loop import Concern, Edge
from demarkus_operator.reconcile.universe import universe_concern
from demarkus_operator.reconcile.world import world_concern


def concern_of(edge: Edge, ref: Ref) -> Concern:
    """What the reconcile of this World or Universe needs."""
    return world_concern(edge, ref) if ref.kind == WORLD.kind else universe_concern(edge, ref)
