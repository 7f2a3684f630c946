"""Conditions and their reasons: a frozen part of the API, because alerts, health checks and people depend on it.

A condition is made by the planner (or by the loop, when the cluster refuses something) and gets its times here.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from enum import StrEnum
from typing import Any


class ConditionType(StrEnum):
    """`Ready`: it serves. `Reconciled`: what the spec says is what the cluster was told."""

    READY = "Ready"
    RECONCILED = "Reconciled"


class Reason(StrEnum):
    """Why a condition is what it is. Names are never changed or reused."""

    SERVING = "Serving"
    STARTING = "Starting"
    APPLIED = "Applied"
    WAITING_FOR_UNIVERSE = "WaitingForUniverse"
    UNIVERSE_GONE = "UniverseGone"
    NAMESPACE_NOT_ALLOWED = "NamespaceNotAllowed"
    NAME_TAKEN = "NameTaken"
    NAME_IN_USE = "NameInUse"
    INVALID_SPEC = "InvalidSpec"
    MATERIAL_INVALID = "MaterialInvalid"
    REFUSED = "Refused"
    TRY_LATER = "TryLater"
    INTERNAL_ERROR = "InternalError"


MEANINGS: Mapping[Reason, tuple[str, str]] = {
    Reason.SERVING: ("A process answers.", "Nothing."),
    Reason.STARTING: (
        "Everything was applied; no process answers yet.",
        "Wait. If it lasts, look at the pods: `kubectl describe pod`, `kubectl logs`.",
    ),
    Reason.APPLIED: ("The cluster was told everything the spec says.", "Nothing."),
    Reason.WAITING_FOR_UNIVERSE: (
        "The Universe that the World names is not there yet, or has not taken the World in yet.",
        "Create the Universe, or correct `spec.universeRef`.",
    ),
    Reason.UNIVERSE_GONE: (
        "The Universe was deleted. The World serves on; no gateway leads to it.",
        "Create the Universe again, or delete the World.",
    ),
    Reason.NAMESPACE_NOT_ALLOWED: (
        "The Universe does not admit Worlds of this namespace. What runs is left as it is; the gateway leaves it out.",
        "Widen `spec.worlds.allowedNamespaces` of the Universe, or label the namespace so that it is selected.",
    ),
    Reason.NAME_TAKEN: (
        "Another World has this name in the Universe, and a name belongs to one history. Nothing is made or changed.",
        "Give this World another name, or let the Universe's owner release the name: annotate the Universe with "
        "`demarkus.io/release-name: <world>` once the other World is gone.",
    ),
    Reason.NAME_IN_USE: (
        "An object that is not ours bears the name of one that is needed. It is never touched.",
        "Rename or remove that object, or choose another name.",
    ),
    Reason.INVALID_SPEC: (
        "The spec asks for something that can't be. Nothing is changed.",
        "Do what the message says.",
    ),
    Reason.MATERIAL_INVALID: (
        "A Secret with keys or certificates is incomplete, out of date, or belongs to another authority.",
        "Restore the Secret from a backup, or delete it as the message says, so that it is made anew.",
    ),
    Reason.REFUSED: (
        "The API server refused an object: missing rights, a quota, an admission rule.",
        "Do what the message says; it is tried again slowly.",
    ),
    Reason.TRY_LATER: ("The API server could not be reached or was too busy.", "Nothing; it is tried again soon."),
    Reason.INTERNAL_ERROR: ("A bug. The operator's log has the details.", "Report it; it is tried again slowly."),
}
"""What each reason means and what to do about it; the reference page is made from this."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Condition:
    """One condition, without its times."""

    type: ConditionType
    status: bool
    reason: Reason
    message: str = ""


def merged(
    current: Sequence[Mapping[str, Any]], new: Iterable[Condition], *, generation: int, now: datetime
) -> list[dict[str, Any]]:
    """The list to write into a status: `new` over `current`, ordered by type.

    `lastTransitionTime` moves only when a condition's status changes, so that a list that says the same is equal to
    the one before. `now` is in UTC.
    """
    conditions = {str(entry["type"]): dict(entry) for entry in current}
    for condition in new:
        status = "True" if condition.status else "False"
        before = conditions.get(condition.type, {})
        moved = before.get("status") != status
        conditions[str(condition.type)] = {
            "type": str(condition.type),
            "status": status,
            "reason": str(condition.reason),
            "message": condition.message,
            "observedGeneration": generation,
            "lastTransitionTime": _rfc3339(now) if moved else before["lastTransitionTime"],
        }
    return [conditions[name] for name in sorted(conditions)]


def _rfc3339(moment: datetime) -> str:
    return moment.astimezone(UTC).strftime("%Y-%m-%dT%H:%M:%SZ")
