"""The conditions of a World that is not refused."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from demarkus_operator.api.conditions import Condition, ConditionType, Reason
from demarkus_operator.plan.home import Home
from demarkus_operator.plan.refusal import unmet
from demarkus_operator.plan.workload import Finding, Workload, degraded, paused, progressing


def conditions(
    home: Home,
    workload: Workload,
    findings: Sequence[Finding] = (),
    *,
    is_suspended: bool = False,
    is_paused: bool = False,
) -> tuple[Condition, ...]:
    """All that follow from where the World stands and what its pods do.

    What waits for a pause to end says nothing of `Reconciled`.
    """
    if home.waiting_for is not None:
        return (*unmet(Reason.WAITING_FOR_UNIVERSE, home.waiting_for), paused(is_paused))
    reconciled = Condition(type=ConditionType.RECONCILED, status=True, reason=Reason.APPLIED)
    return (
        _ready(workload, home.universe_gone, is_suspended=is_suspended),
        progressing(workload),
        degraded(findings),
        paused(is_paused),
        *(() if is_paused else (reconciled,)),
    )


def in_motion(found: Iterable[Condition]) -> bool:
    """Whether something is waited for that may not be heard of."""
    status = {condition.type: (condition.status, condition.reason) for condition in found}
    ready, why = status[ConditionType.READY]
    calm = (ready or why is Reason.SUSPENDED) and status.get(ConditionType.RECONCILED, (True, None))[0]
    unproved = status.get(ConditionType.HISTORY_VERIFIED, (True, None))[0] is None
    return not calm or unproved or any(status.get(type_, (False, None))[0] for type_ in _MOTION)


_MOTION = (ConditionType.PROGRESSING, ConditionType.DEGRADED)


def _ready(workload: Workload, universe_gone: str | None, *, is_suspended: bool) -> Condition:
    if is_suspended:
        message = "spec.suspend is set; no process runs"
        return Condition(type=ConditionType.READY, status=False, reason=Reason.SUSPENDED, message=message)
    if not workload.ready:
        message = "the server's pod is not ready yet"
        return Condition(type=ConditionType.READY, status=False, reason=Reason.STARTING, message=message)
    if universe_gone is not None:
        return Condition(type=ConditionType.READY, status=True, reason=Reason.UNIVERSE_GONE, message=universe_gone)
    few = workload.ready < workload.wanted
    message = f"{workload.ready} of {workload.wanted} pods are ready" if few else ""
    return Condition(type=ConditionType.READY, status=True, reason=Reason.SERVING, message=message)
