"""What a StatefulSet or Deployment tells of its pods, and the conditions that follow from it."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from demarkus_operator.api.conditions import Condition, ConditionType, Reason
from demarkus_operator.plan import labels
from demarkus_operator.plan.objects import Manifest

Finding = tuple[Reason, str]
"""Something that was asked for and can't be had: the reason, and what to say."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Workload:
    """How many pods there should be, how many are ready, and how many of those are as the spec wants them."""

    wanted: int
    ready: int = 0
    updated: int = 0

    @classmethod
    def of(cls, seen: Manifest | None, wanted: int, *, planned: Manifest | None = None) -> Workload:
        """What its controller last said; of how many are as they should be nothing, if that was about an earlier spec,
        or about other pods than are `planned`.
        """
        status = {} if seen is None else seen.get("status") or {}
        current = seen is not None and status.get("observedGeneration", 0) >= seen["metadata"].get("generation", 0)
        if seen is not None and planned is not None and _pods(seen) != _pods(planned):
            current = False
        ready = status.get("readyReplicas") or 0
        updated = status.get("updatedReplicas")
        return cls(wanted=wanted, ready=ready, updated=(ready if updated is None else updated) if current else 0)

    @property
    def settled(self) -> bool:
        """Whether all pods are ready and as they should be."""
        return min(self.ready, self.updated) >= self.wanted


def _pods(workload: Manifest) -> tuple[Any, ...]:
    """What tells one generation of pods from the next."""
    template = workload["spec"]["template"]
    image = template["spec"]["containers"][0]["image"]
    return image, {**(template["metadata"].get("annotations") or {})}.get(labels.CONFIG_HASH)


def progressing(workload: Workload) -> Condition:
    """`Progressing`."""
    if workload.settled:
        return Condition(type=ConditionType.PROGRESSING, status=False, reason=Reason.SETTLED)
    message = f"{workload.ready} of {workload.wanted} pods are ready, {workload.updated} are as the spec wants them"
    return Condition(type=ConditionType.PROGRESSING, status=True, reason=Reason.ROLLING_OUT, message=message)


def degraded(findings: Sequence[Finding]) -> Condition:
    """`Degraded`: by the first of what was found, and all of it is told."""
    if not findings:
        return Condition(type=ConditionType.DEGRADED, status=False, reason=Reason.AS_ASKED)
    message = "; ".join(words for _, words in findings)
    return Condition(type=ConditionType.DEGRADED, status=True, reason=findings[0][0], message=message)


def paused(is_paused: bool) -> Condition:
    """`Paused`."""
    if not is_paused:
        return Condition(type=ConditionType.PAUSED, status=False, reason=Reason.NOT_PAUSED)
    message = "changes of the spec wait until the annotation demarkus.io/paused is taken away"
    return Condition(type=ConditionType.PAUSED, status=True, reason=Reason.PAUSED, message=message)
