"""PodDisruptionBudget: of several replicas only one is taken away at a time while nodes are drained.

A single replica has none: it would hold up every drain.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from demarkus_operator.plan.objects import Ref
from demarkus_operator.plan.owner import Owner


def disruption_budget(owner: Owner, ref: Ref, selector: Mapping[str, str]) -> dict[str, Any]:
    """The budget. A pod that is not healthy anyway never holds up a drain."""
    spec = {
        "maxUnavailable": 1,
        "unhealthyPodEvictionPolicy": "AlwaysAllow",
        "selector": {"matchLabels": dict(selector)},
    }
    return owner.owned(ref, {"spec": spec})
