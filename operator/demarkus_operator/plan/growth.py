"""A volume that is to be larger: the claim is patched, and nothing else is touched; the World serves meanwhile.

Whether a volume can grow only the API server knows, which asks the claim's StorageClass and the quota. So growing
is attempted, after everything else; a refusal is told and changes nothing.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from demarkus_operator.api import quantities
from demarkus_operator.api.conditions import Condition, ConditionType, Reason
from demarkus_operator.api.store import Volume
from demarkus_operator.plan.objects import Attempt, Manifest, Ref

_UNDER_WAY = frozenset({"Resizing", "FileSystemResizePending"})


def attempts(claim: Manifest, volume: Volume) -> tuple[Attempt, ...]:
    """What is to be attempted, if the claim asks for less than the spec."""
    there, wanted = _requested(claim), quantities.canonical(volume.size)
    if not _less(there, wanted):
        return ()
    storage_class = claim["spec"].get("storageClassName")
    named = "the cluster's default StorageClass" if storage_class is None else f"StorageClass {storage_class}"
    grown = {**claim, "spec": {**claim["spec"], "resources": {"requests": {"storage": wanted}}}}
    return (
        Attempt(
            manifest=grown,
            reason=Reason.GROWTH_REFUSED,
            help=f"{Ref.of(claim)} can't grow from {there} to {wanted}; let {named} say allowVolumeExpansion: true and "
            "see whether a quota is met; meanwhile the World goes on with what it has",
        ),
    )


def told(conditions: Iterable[Condition], claim: Manifest | None) -> tuple[Condition, ...]:
    """The conditions of a World, with what there is to say of its volume."""
    growing = None if claim is None else _growing(claim)
    return tuple(
        growing
        if growing is not None and condition.type is ConditionType.PROGRESSING and not condition.status
        else condition
        for condition in conditions
    )


def _growing(claim: Manifest) -> Condition | None:
    status: dict[str, Any] = claim.get("status") or {}
    capacity = (status.get("capacity") or {}).get("storage")
    under_way = any(
        entry.get("type") in _UNDER_WAY and entry.get("status") == "True" for entry in status.get("conditions") or ()
    )
    if not under_way and (capacity is None or not _less(capacity, _requested(claim))):
        return None
    message = f"{Ref.of(claim)} grows from {capacity} to {_requested(claim)}"
    return Condition(type=ConditionType.PROGRESSING, status=True, reason=Reason.VOLUME_GROWING, message=message)


def _requested(claim: Manifest) -> str:
    requested: str = claim["spec"]["resources"]["requests"]["storage"]
    return requested


def _less(there: str, wanted: str) -> bool:
    """Whether one quantity is less than another; what is there may be spelled in ways that we never use."""
    try:
        return quantities.number_of_bytes(there) < quantities.number_of_bytes(wanted)
    except ValueError:
        return False
