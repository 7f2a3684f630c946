"""Events (events.k8s.io/v1) for people: one for every condition that became another, and none for anything else.

They are told after the status was written. One that can't be told is lost: the status says the same.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from datetime import UTC, datetime
from typing import Any

from demarkus_operator.api.conditions import ConditionType, Reason
from demarkus_operator.cluster.kinds import EVENT
from demarkus_operator.plan.objects import Manifest, Ref

CONTROLLER = "demarkus.io/operator"
LONGEST_NOTE = 1000

_GOOD_WHEN_FALSE = frozenset({ConditionType.DEGRADED, ConditionType.PROGRESSING, ConditionType.PAUSED})
_NEUTRAL = frozenset({ConditionType.PROGRESSING, ConditionType.PAUSED})
_ON_THE_WAY = frozenset({Reason.STARTING, Reason.WAITING_FOR_UNIVERSE, Reason.NOT_WITNESSED, Reason.TRY_LATER})

Conditions = Iterable[Mapping[str, Any]]


def transitions(
    subject: Manifest, before: Conditions, after: Conditions, *, now: datetime, instance: str, suffix: str
) -> Iterator[Manifest]:
    """The events to create. `instance` is the process that tells them, `suffix` makes their names unique."""
    known = {entry["type"]: (entry["status"], entry["reason"]) for entry in before}
    for entry in after:
        if known.get(entry["type"]) != (entry["status"], entry["reason"]):
            yield _event(subject, entry, now, instance, suffix)


def _event(subject: Manifest, entry: Mapping[str, Any], now: datetime, instance: str, suffix: str) -> Manifest:
    ref, metadata = Ref.of(subject), subject["metadata"]
    said = f"{entry['type']} is {entry['status']}" + (f": {entry['message']}" if entry["message"] else "")
    return {
        "apiVersion": EVENT.api_version,
        "kind": EVENT.kind,
        "metadata": {"name": f"{ref.name}.{entry['type'].lower()}.{suffix}", "namespace": ref.namespace},
        "eventTime": now.astimezone(UTC).strftime("%Y-%m-%dT%H:%M:%S.%fZ"),
        "reportingController": CONTROLLER,
        "reportingInstance": instance[:128],
        "action": "Reconcile",
        "reason": entry["reason"],
        "type": "Warning" if _bad(entry) else "Normal",
        "note": said[:LONGEST_NOTE],
        "regarding": {
            "apiVersion": ref.api_version,
            "kind": ref.kind,
            "namespace": ref.namespace,
            "name": ref.name,
            "uid": metadata["uid"],
            "resourceVersion": metadata["resourceVersion"],
        },
    }


def _bad(entry: Mapping[str, Any]) -> bool:
    """Whether somebody should look."""
    if entry["type"] in _NEUTRAL or entry["reason"] in _ON_THE_WAY or entry["status"] == "Unknown":
        return False
    return bool(entry["status"] == ("True" if entry["type"] in _GOOD_WHEN_FALSE else "False"))
