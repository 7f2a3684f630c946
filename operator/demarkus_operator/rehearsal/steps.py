"""What was written on a stage, as steps that people can read. What is in a Secret is never part of one."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from enum import StrEnum
from typing import Any

from demarkus_operator.cluster.apply import difference
from demarkus_operator.cluster.kinds import SECRET, UNIVERSE, WORLD
from demarkus_operator.plan.objects import Manifest, Ref
from demarkus_operator.rehearsal.stage import Stage

_TOLD = ("labels", "annotations", "finalizers", "ownerReferences")


class Action(StrEnum):
    """What happens to an object."""

    CREATE = "create"
    CHANGE = "change"
    REMOVE = "remove"


@dataclass(frozen=True, slots=True)
class FieldChange:
    """One field; None stands for absent."""

    path: str
    before: Any
    after: Any

    def lines(self) -> Iterator[str]:
        """The change as lines of a diff."""
        for sign, value in (("-", self.before), ("+", self.after)):
            if value is not None:
                text = value if isinstance(value, str) else json.dumps(value)
                first, *rest = text.splitlines() or [""]
                yield f"{sign} {self.path}: {first}"
                yield from (f"{sign}   {line}" for line in rest)


@dataclass(frozen=True, slots=True)
class Step:
    """What would happen to one object."""

    action: Action
    ref: Ref
    fields: tuple[FieldChange, ...] = ()


def steps(stage: Stage) -> Iterator[Step]:
    """All steps, in the order in which objects were first looked at. Status is none: it follows."""
    for ref, before in stage.before.items():
        after = stage.now(ref)
        if before is None and after is not None:
            yield Step(Action.CREATE, ref)
        elif before is not None and after is None:
            yield Step(Action.REMOVE, ref)
        elif before is not None and after is not None and _told(before) != _told(after):
            yield Step(Action.CHANGE, ref, tuple(_fields(ref, before, after, stage.said.get(ref))))


def _fields(ref: Ref, before: Manifest, after: Manifest, said: Manifest | None) -> Iterator[FieldChange]:
    if ref.kind == SECRET.kind:
        yield from _keys(before.get("data") or {}, after.get("data") or {})
        return
    compared = list(_walk(before, _told(said or after), ""))
    if not compared and said is not None:  # a field of ours that is no longer said
        compared = [FieldChange(difference(before, said) or "", "as it was set", None)]
    yield from compared


def _keys(before: Mapping[str, Any], after: Mapping[str, Any]) -> Iterator[FieldChange]:
    for key in sorted({*before, *after}):
        if before.get(key) != after.get(key):
            old, new = ("(secret)" if key in side else None for side in (before, after))
            yield FieldChange(f"data.{key}", old, new)


def _walk(before: Any, after: Any, path: str) -> Iterator[FieldChange]:
    """Fields that `after` names and that differ; what only `before` has was filled in by others."""
    if isinstance(after, Mapping) and isinstance(before, Mapping):
        for key, value in after.items():
            yield from _walk(before.get(key), value, f"{path}.{key}".lstrip("."))
    elif _is_list(after) and _is_list(before) and len(after) == len(before):
        for index, value in enumerate(after):
            yield from _walk(before[index], value, f"{path}[{index}]")
    elif before != after and (before or after):
        yield FieldChange(path, before, after)


def _is_list(value: Any) -> bool:
    return isinstance(value, Sequence) and not isinstance(value, str)


def _told(manifest: Manifest) -> dict[str, Any]:
    """What of an object can be told to a cluster."""
    metadata = {
        key: manifest["metadata"].get(key) for key in ("labels", "annotations", "finalizers", "ownerReferences")
    }
    body = {key: value for key, value in manifest.items() if key not in ("metadata", "status")}
    return {**body, "metadata": {key: value for key, value in metadata.items() if value}}


def subjects(stage: Stage) -> list[Manifest]:
    """The Worlds and Universes that were looked at, with the status they would have."""
    found = (stage.now(ref) for ref in stage.before if ref.kind in (WORLD.kind, UNIVERSE.kind))
    return [manifest for manifest in found if manifest is not None]


def refusals_of(subject: Manifest) -> list[str]:
    """Why a World or Universe could not be realised; empty if it could."""
    conditions = (subject.get("status") or {}).get("conditions", ())
    return [
        f"{Ref.of(subject)}: {entry['reason']}: {entry['message']}"
        for entry in conditions
        if entry["type"] == "Reconciled" and entry["status"] == "False"
    ]
