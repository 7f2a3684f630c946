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
    """What a condition is about; `TYPES` says what each means."""

    READY = "Ready"
    PROGRESSING = "Progressing"
    DEGRADED = "Degraded"
    RECONCILED = "Reconciled"
    STORE_REACHABLE = "StoreReachable"
    HISTORY_VERIFIED = "HistoryVerified"
    BACKUP_CURRENT = "BackupCurrent"
    PAUSED = "Paused"


TYPES: Mapping[ConditionType, str] = {
    ConditionType.READY: "It serves.",
    ConditionType.PROGRESSING: "Something is on its way: a rollout, a volume that grows.",
    ConditionType.DEGRADED: "It serves, but something that was asked for can't be had.",
    ConditionType.RECONCILED: "The cluster was told what the spec says.",
    ConditionType.STORE_REACHABLE: "The World reaches the store that its history is in.",
    ConditionType.HISTORY_VERIFIED: "The history goes on from all that was ever witnessed of it; nothing is missing or "
    "changed.",
    ConditionType.BACKUP_CURRENT: "The newest backup is as young as its schedule promises.",
    ConditionType.PAUSED: "Changes of the spec are not carried out.",
}
"""What it means that a condition is true; the reference page is made from this."""


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
    SUSPENDED = "Suspended"
    REFERENCE_MISSING = "ReferenceMissing"
    CONFIG_TOO_LARGE = "ConfigTooLarge"
    SETTLED = "Settled"
    ROLLING_OUT = "RollingOut"
    KEYS_ROTATING = "KeysRotating"
    ISSUER_UNAVAILABLE = "IssuerUnavailable"
    AS_ASKED = "AsAsked"
    PAUSED = "Paused"
    NOT_PAUSED = "NotPaused"
    STORE_LOST = "StoreLost"
    STORE_FOREIGN = "StoreForeign"
    CONSISTENT = "Consistent"
    NOT_WITNESSED = "NotWitnessed"
    HISTORY_FORKED = "HistoryForked"
    HISTORY_SHORTENED = "HistoryShortened"
    HISTORY_REPLACED = "HistoryReplaced"
    NOTE_INVALID = "NoteInvalid"
    ROLLOUT_HALTED = "RolloutHalted"
    ROLLOUT_PAUSED = "RolloutPaused"
    VOLUME_GROWING = "VolumeGrowing"
    GROWTH_REFUSED = "GrowthRefused"
    STORE_REACHED = "StoreReached"
    STORE_UNREACHABLE = "StoreUnreachable"
    STORE_FULL = "StoreFull"
    BUCKET_UNSEEN = "BucketUnseen"
    BUCKET_INCOMPLETE = "BucketIncomplete"


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
    Reason.SUSPENDED: ("`spec.suspend` is set: no process runs, everything else stays.", "Take `suspend` away."),
    Reason.REFERENCE_MISSING: (
        "The spec names a Secret or ConfigMap, or a key in one, that is not there. Nothing is changed until it is.",
        "Make it, or correct the spec.",
    ),
    Reason.CONFIG_TOO_LARGE: (
        "A configuration does not fit into a ConfigMap (1 MiB). The one before stays in force.",
        "Do what the message says: shorter seeds, or fewer access entries.",
    ),
    Reason.SETTLED: ("All pods are ready and as the spec wants them.", "Nothing."),
    Reason.ROLLING_OUT: (
        "Pods are being made, replaced or got ready.",
        "Wait. If it lasts, look at the pods: `kubectl describe pod`, `kubectl logs`.",
    ),
    Reason.KEYS_ROTATING: (
        "A key, an authority or a token is being exchanged, and some process has not loaded the new one yet. Old and "
        "new are accepted as long as that lasts.",
        "Wait. If it lasts, look at the processes that the message names: do they serve, can the operator reach their "
        "port 8081?",
    ),
    Reason.ISSUER_UNAVAILABLE: (
        "There is no certificate from the issuer of cert-manager that the spec names, or no newer one. The one before "
        "goes on, or the Universe's own authority signs, or that of the World.",
        "Do what the message says: install cert-manager, make the issuer, or take `issuerRef` away.",
    ),
    Reason.AS_ASKED: ("Everything that was asked for could be had.", "Nothing."),
    Reason.PAUSED: (
        "The annotation `demarkus.io/paused` is there: changes of the spec wait; certificates, tokens, keys and this "
        "status go on.",
        "Take the annotation away to go on.",
    ),
    Reason.NOT_PAUSED: ("Changes of the spec are carried out.", "Nothing."),
    Reason.STORE_LOST: (
        "The store of a known history is empty, or its newest entries are missing. Nothing is served and nothing new "
        "is begun.",
        "Bring the store back: restore the volume, then all goes on by itself. If it is gone for good, accept that: "
        "annotate the World with `demarkus.io/accept-empty-store: <history>`.",
    ),
    Reason.STORE_FOREIGN: (
        "The store belongs to another history. It is not touched, and nothing is served.",
        "Give the World its own store: the volume that its claim should be bound to.",
    ),
    Reason.CONSISTENT: ("What the World signed last goes on from what was witnessed before.", "Nothing."),
    Reason.NOT_WITNESSED: (
        "The World has not proved its history yet, or not for a while.",
        "Wait. If it lasts, the message says what keeps the operator from asking.",
    ),
    Reason.HISTORY_FORKED: (
        "The World signed a history that does not go on from the one that was witnessed: entries were changed.",
        "Stop writing, keep the volume as it is, and compare it with a backup (`demarkus-world verify`). The record "
        "`witness-<history>` in the operator's namespace holds both signed notes.",
    ),
    Reason.HISTORY_SHORTENED: (
        "The World signed a history that ends before entries that were witnessed.",
        "Find out who put back an old volume or snapshot; bring the newest one back.",
    ),
    Reason.HISTORY_REPLACED: (
        "The World serves another life of its history than the one that was witnessed.",
        "Bring the volume of the witnessed life back, or accept its loss as for `StoreLost`.",
    ),
    Reason.NOTE_INVALID: (
        "What the World said of its history is not signed with its key.",
        "Restore the Secret `<world>-identity`; if it is as it was, treat the World as tampered with.",
    ),
    Reason.ROLLOUT_HALTED: (
        "Somebody who got the new version does not serve with it. Nobody else gets it.",
        "Find out why (`kubectl describe pod`, `kubectl logs`). It goes on by itself once that one serves; or set "
        "`spec.version` back, and that one gets the earlier version at once.",
    ),
    Reason.ROLLOUT_PAUSED: (
        "A new version is on its way and waits: `spec.rollout.paused` is set, or those who are left are paused.",
        "Take `paused` away when it should go on.",
    ),
    Reason.VOLUME_GROWING: ("The volume gets larger. The World serves meanwhile.", "Nothing."),
    Reason.GROWTH_REFUSED: (
        "The volume can't be made larger. The World serves with the size it has.",
        "Do what the message says: mostly the StorageClass has to say `allowVolumeExpansion: true`, or a quota is met.",
    ),
    Reason.STORE_REACHED: ("The store answers.", "Nothing."),
    Reason.STORE_UNREACHABLE: (
        "The store does not answer a process of the World. What is in memory is served, and nothing is written.",
        "Look at the message: rights, the network, an outage. It goes on by itself once the store answers.",
    ),
    Reason.STORE_FULL: (
        "The store has no room left. The World serves, and takes only what makes room: archive, prune, sweep.",
        "Raise `spec.store.volume.size`, or prune.",
    ),
    Reason.BUCKET_UNSEEN: (
        "The operator can't see the bucket, so it looks after nothing there. The World uses the bucket as it is.",
        "Give the operator's identity the right to see the bucket, or live with it.",
    ),
    Reason.BUCKET_INCOMPLETE: (
        "The bucket was not made by the operator and lacks something that protects the history.",
        "Give the bucket what the message names.",
    ),
}
"""What each reason means and what to do about it; the reference page is made from this."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Condition:
    """One condition, without its times. A `status` of None is unknown."""

    type: ConditionType
    status: bool | None
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
        status = "Unknown" if condition.status is None else "True" if condition.status else "False"
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
