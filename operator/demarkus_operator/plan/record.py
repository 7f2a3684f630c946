"""The Universe's record: which name belongs to which World, the version in force, and what holds for its Worlds.

Only the Universe's reconcile writes it. A name is bound to the World that asked first, with its history, and stays
bound when that World is deleted: the name stands in documents and links, and must not lead to somebody else's.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping
from dataclasses import dataclass

from demarkus_operator.api.conditions import Reason
from demarkus_operator.api.universe import WorldDefaults
from demarkus_operator.plan import labels
from demarkus_operator.plan.objects import Manifest, Ref
from demarkus_operator.plan.refusal import Refusal

_FIELD = "bindings.json"
_DEFAULTS = "defaults.json"


@dataclass(frozen=True, slots=True)
class Binding:
    """Whose a name is. `history` is empty until that World has one."""

    namespace: str
    history: str

    def fits(self, namespace: str, history: str | None) -> bool:
        """Whether a World of this namespace and history (None: not known yet) is the one."""
        return self.namespace == namespace and (not self.history or history is None or self.history == history)


@dataclass(frozen=True, slots=True, kw_only=True)
class Claimant:
    """A World that wants its name."""

    name: str
    namespace: str
    history: str | None
    age: tuple[str, str]

    @classmethod
    def of(cls, world: Manifest) -> Claimant:
        """The World; the older one comes first, and of two of one second the one with the lesser uid."""
        metadata = world["metadata"]
        return cls(
            name=metadata["name"],
            namespace=metadata["namespace"],
            history=(world.get("status") or {}).get("history"),
            age=(metadata.get("creationTimestamp") or "", metadata["uid"]),
        )


def bindings_of(record: Manifest | None) -> dict[str, Binding]:
    """The bindings that a record holds. Raises Refusal if it can't be read."""
    if record is None:
        return {}
    try:
        entries = json.loads((record.get("data") or {})[_FIELD])
        return {
            name: Binding(namespace=str(entry["namespace"]), history=str(entry["history"]))
            for name, entry in entries.items()
        }
    except (KeyError, ValueError, TypeError, AttributeError):
        raise Refusal(
            Reason.MATERIAL_INVALID,
            f"{Ref.of(record)} can't be read in its field {_FIELD}; restore it: it says which World owns which name",
        ) from None


def bound(bindings: Mapping[str, Binding], claimants: Iterable[Claimant], *, release: str | None) -> dict[str, Binding]:
    """The bindings after everybody asked: first come, first served.

    `release` is a name that the Universe's owner gives away; it counts only if its World is gone.
    """
    asking = sorted(claimants, key=lambda claimant: claimant.age)
    result = dict(bindings)
    if release in result and not any(
        claimant.name == release and result[release].fits(claimant.namespace, claimant.history) for claimant in asking
    ):
        del result[release]
    for claimant in asking:
        before = result.get(claimant.name)
        if before is None or (not before.history and before.namespace == claimant.namespace):
            result[claimant.name] = Binding(claimant.namespace, claimant.history or "")
    return result


def data_of(bindings: Mapping[str, Binding], defaults: WorldDefaults | None = None) -> dict[str, str]:
    """The content of a record."""
    entries = {name: {"namespace": binding.namespace, "history": binding.history} for name, binding in bindings.items()}
    data = {_FIELD: _text(entries)}
    if defaults is not None:
        data[_DEFAULTS] = _text(defaults.model_dump(by_alias=True, exclude_none=True))
    return data


def defaults_of(record: Manifest | None) -> WorldDefaults | None:
    """What held for the Worlds at the last reconcile of the Universe."""
    if record is None or _DEFAULTS not in (record.get("data") or {}):
        return None
    try:
        return WorldDefaults.model_validate_json(record["data"][_DEFAULTS])
    except ValueError:
        raise Refusal(
            Reason.MATERIAL_INVALID, f"{Ref.of(record)} can't be read in its field {_DEFAULTS}; remove that field"
        ) from None


def _text(value: object) -> str:
    return json.dumps(value, sort_keys=True, separators=(",", ":"))


def version_of(record: Manifest | None) -> str | None:
    """The version that was in force at the last reconcile of the Universe."""
    if record is None:
        return None
    version: str | None = (record["metadata"].get("annotations") or {}).get(labels.VERSION)
    return version
