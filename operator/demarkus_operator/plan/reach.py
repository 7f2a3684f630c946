"""Whether a World reaches its store and has room there, as its processes say."""

from __future__ import annotations

from collections.abc import Sequence

from demarkus_operator.api.conditions import Condition, ConditionType, Reason
from demarkus_operator.plan.reports import Report
from demarkus_operator.plan.workload import Finding


def reachable(reports: Sequence[Report]) -> tuple[Condition, ...]:
    """`StoreReachable`; nothing while no process says anything of its store."""
    told = [report for report in reports if report.reached and report.store_reached is not None]
    if not told:
        return ()
    away = next((report for report in told if not report.store_reached), None)
    reason = Reason.STORE_REACHED if away is None else Reason.STORE_UNREACHABLE
    message = "" if away is None else f"{away.pod}: {away.store_problem or 'the store does not answer'}"
    return (Condition(type=ConditionType.STORE_REACHABLE, status=away is None, reason=reason, message=message),)


def findings(reports: Sequence[Report]) -> tuple[Finding, ...]:
    """What there is to tell of a store without room."""
    full = [report.pod for report in reports if report.reached and report.store_full]
    if not full:
        return ()
    return ((Reason.STORE_FULL, f"{', '.join(full)}: the store is full and takes only what makes room; let it grow"),)
