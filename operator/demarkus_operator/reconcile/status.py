"""What is written into a status, and whether anything has to be."""

from __future__ import annotations

import dataclasses
from collections.abc import Iterable, Mapping
from datetime import datetime
from typing import Any

from demarkus_operator.api.conditions import Condition, ConditionType, Reason, merged
from demarkus_operator.plan.objects import Attempt, Manifest, Plan

LONGEST_MESSAGE = 1000


def planned(subject: Manifest, plan: Plan, *, now: datetime) -> dict[str, Any]:
    """The status after a plan was carried out."""
    return _status(subject, plan.status, plan.conditions, now)


def with_denials(plan: Plan, denied: Iterable[tuple[Attempt, Exception]]) -> Plan:
    """The plan, telling by `Degraded` of attempts that the cluster refused."""
    for attempt, error in denied:
        before = next((c for c in plan.conditions if c.type is ConditionType.DEGRADED and c.status), None)
        reason, words = (attempt.reason, "") if before is None else (before.reason, f"{before.message}; ")
        message = f"{words}{attempt.help}: {error}"[:LONGEST_MESSAGE]
        told = Condition(type=ConditionType.DEGRADED, status=True, reason=reason, message=message)
        others = tuple(c for c in plan.conditions if c.type is not ConditionType.DEGRADED)
        plan = dataclasses.replace(plan, conditions=(*others, told))
    return plan


def failed(subject: Manifest, plan: Plan | None, reason: Reason, message: str, *, now: datetime) -> dict[str, Any]:
    """The status after a plan could not be carried out, or (None) not even be made.

    `Reconciled` says why. `Ready` stays what it is: what runs goes on running.
    """
    before = _before(subject)
    unmet = Condition(type=ConditionType.RECONCILED, status=False, reason=reason, message=message[:LONGEST_MESSAGE])
    conditions = [c for c in plan.conditions if c.type != unmet.type] if plan else []
    known = {entry["type"] for entry in before.get("conditions", ())} | {c.type for c in conditions}
    if ConditionType.READY not in known:
        conditions.append(Condition(type=ConditionType.READY, status=False, reason=reason, message=unmet.message))
    return _status(subject, plan.status if plan else before, [*conditions, unmet], now)


def change(before: Mapping[str, Any], after: Mapping[str, Any]) -> dict[str, Any]:
    """The merge patch (RFC 7396) from one to the other; empty when they are the same."""
    patch: dict[str, Any] = {key: None for key in before if key not in after}
    for key, value in after.items():
        old = before.get(key)
        if isinstance(value, Mapping) and isinstance(old, Mapping):
            if inner := change(old, value):
                patch[key] = inner
        elif key not in before or old != value:
            patch[key] = value
    return patch


def of(subject: Manifest) -> Mapping[str, Any]:
    """The status that an object has."""
    status: Mapping[str, Any] = subject.get("status") or {}
    return status


def _before(subject: Manifest) -> dict[str, Any]:
    return dict(of(subject))


def _status(
    subject: Manifest, fields: Mapping[str, Any], conditions: Iterable[Condition], now: datetime
) -> dict[str, Any]:
    generation = subject["metadata"].get("generation", 0)
    current = of(subject).get("conditions", ())
    return {
        **fields,
        "observedGeneration": generation,
        "conditions": merged(current, conditions, generation=generation, now=now),
    }
