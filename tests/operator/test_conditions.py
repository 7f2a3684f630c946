"""Conditions keep their times, and reasons their meaning."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta

from demarkus_operator.api.conditions import MEANINGS, TYPES, Condition, ConditionType, Reason, merged

NOON = datetime(2026, 12, 1, 12, 0, tzinfo=UTC)
READY = Condition(type=ConditionType.READY, status=True, reason=Reason.SERVING)


def test_transition_time_moves_only_with_the_status() -> None:
    first = merged([], [READY], generation=1, now=NOON)
    again = merged(first, [READY], generation=1, now=NOON + timedelta(hours=1))
    assert again == first
    other_reason = Condition(type=ConditionType.READY, status=True, reason=Reason.UNIVERSE_GONE)
    (entry,) = merged(first, [other_reason], generation=2, now=NOON + timedelta(hours=1))
    assert entry["lastTransitionTime"] == "2026-12-01T12:00:00Z"
    assert (entry["reason"], entry["observedGeneration"]) == ("UniverseGone", 2)
    down = Condition(type=ConditionType.READY, status=False, reason=Reason.STARTING)
    (entry,) = merged(first, [down], generation=2, now=NOON + timedelta(hours=1))
    assert entry["lastTransitionTime"] == "2026-12-01T13:00:00Z"


def test_conditions_of_others_stay() -> None:
    foreign = {"type": "Audited", "status": "True", "reason": "Fine", "message": "", "lastTransitionTime": "x"}
    assert merged([foreign], [READY], generation=1, now=NOON)[0] == foreign


def test_every_reason_is_explained() -> None:
    assert set(MEANINGS) == set(Reason)
    assert set(TYPES) == set(ConditionType)


def test_unknown_is_neither_true_nor_false() -> None:
    unknown = Condition(type=ConditionType.HISTORY_VERIFIED, status=None, reason=Reason.NOT_WITNESSED)
    (entry,) = merged([], [unknown], generation=1, now=NOON)
    assert entry["status"] == "Unknown"


def test_reasons_are_frozen() -> None:
    assert sorted(Reason) == [
        "Applied",
        "AsAsked",
        "BucketIncomplete",
        "BucketUnseen",
        "ConfigTooLarge",
        "Consistent",
        "GrowthRefused",
        "HistoryForked",
        "HistoryReplaced",
        "HistoryShortened",
        "InternalError",
        "InvalidSpec",
        "IssuerUnavailable",
        "KeysRotating",
        "MaterialInvalid",
        "NameInUse",
        "NameTaken",
        "NamespaceNotAllowed",
        "NotPaused",
        "NotWitnessed",
        "NoteInvalid",
        "Paused",
        "ReferenceMissing",
        "Refused",
        "RollingOut",
        "RolloutHalted",
        "RolloutPaused",
        "Serving",
        "Settled",
        "Starting",
        "StoreForeign",
        "StoreFull",
        "StoreLost",
        "StoreReached",
        "StoreUnreachable",
        "Suspended",
        "TryLater",
        "UniverseGone",
        "VolumeGrowing",
        "WaitingForUniverse",
    ]
