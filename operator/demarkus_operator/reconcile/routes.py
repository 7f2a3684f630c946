"""Who has to be looked at when something is heard: from an event to the Worlds and Universes it may concern.

It remembers of each World and Universe only what tells a change that matters from the noise: most events of a World are
echoes of its own status. The memory is rebuilt from every full listing, because events can be missed.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import Any

from demarkus_operator.api.common import API_VERSION
from demarkus_operator.cluster.kinds import UNIVERSE, WORLD
from demarkus_operator.plan import labels
from demarkus_operator.plan.membership import universe_of
from demarkus_operator.plan.names import UniverseNames, WorldNames
from demarkus_operator.plan.objects import Manifest, Ref

_KEPT = {
    "PersistentVolumeClaim": (WORLD, WorldNames("", "").claim.name),
    "ConfigMap": (UNIVERSE, UniverseNames("", "").record.name),
}
"""Children that we watch and that outlive their owner: the owner's kind, and what stands behind its name."""


def owner_of(child: Manifest) -> Ref | None:
    """The World or Universe that a child belongs to.

    By its owner reference; or by its name, if it is of those that have none; or else by its labels, which come last
    because it may be they that somebody edited.
    """
    metadata = child["metadata"]
    namespace, name = metadata["namespace"], metadata["name"]
    for owner in metadata.get("ownerReferences") or ():
        if owner["apiVersion"] == API_VERSION:
            return Ref(API_VERSION, owner["kind"], namespace, owner["name"])
    kept = _KEPT.get(child["kind"])
    if kept is not None and name.endswith(kept[1]):
        return Ref(API_VERSION, kept[0].kind, namespace, name.removesuffix(kept[1]))
    found = metadata.get("labels") or {}
    namespace = found.get(labels.HOME, namespace)  # what is kept in the operator's namespace
    for label, kind in ((labels.WORLD, WORLD.kind), (labels.UNIVERSE, UNIVERSE.kind)):
        if label in found:
            return Ref(API_VERSION, kind, namespace, found[label])
    return None


@dataclass(slots=True)
class Routes:
    """The memory. Used by one task at a time."""

    _traits: dict[Ref, Any] = field(default_factory=dict)
    _universe: dict[Ref, Ref] = field(default_factory=dict)  # of a World
    _worlds: dict[Ref, set[Ref]] = field(default_factory=dict)  # of a Universe, also of one that does not exist

    def heard(self, subject: Manifest, *, gone: bool = False) -> list[Ref]:
        """Who has to be looked at after an event of a World or Universe; nobody if it is an echo."""
        ref = Ref.of(subject)
        traits = None if gone else _traits(subject)
        if not gone and self._traits.get(ref) == traits:
            return []
        concerned = self._concerned(ref)
        if gone:
            self._forget(ref)
        else:
            self._remember(ref, subject, traits)
        return list(dict.fromkeys([ref, *concerned, *self._concerned(ref)]))

    def listed(self, subjects: Iterable[Manifest]) -> list[Ref]:
        """Everybody there is, after a full listing of Worlds and Universes; whoever is not in it is forgotten."""
        self._traits.clear()
        self._universe.clear()
        self._worlds.clear()
        for subject in subjects:
            self._remember(Ref.of(subject), subject, _traits(subject))
        return list(self._traits)

    def worlds_of(self, universe: Ref) -> list[Ref]:
        """The Worlds that name a Universe."""
        return sorted(self._worlds.get(universe, ()))

    def _concerned(self, ref: Ref) -> list[Ref]:
        if ref.kind == UNIVERSE.kind:
            return self.worlds_of(ref)
        return [self._universe[ref]] if ref in self._universe else []

    def _remember(self, ref: Ref, subject: Manifest, traits: Any) -> None:
        self._forget(ref)
        self._traits[ref] = traits
        if ref.kind == WORLD.kind and (universe := universe_of(subject)):
            home = Ref(UNIVERSE.api_version, UNIVERSE.kind, *universe)
            self._universe[ref] = home
            self._worlds.setdefault(home, set()).add(ref)

    def _forget(self, ref: Ref) -> None:
        self._traits.pop(ref, None)
        home = self._universe.pop(ref, None)
        if home is not None:
            self._worlds[home].discard(ref)
            if not self._worlds[home]:
                del self._worlds[home]


def _traits(subject: Manifest) -> Any:
    """What a change of which matters: whose it is, what it asks for, and what a World tells its Universe."""
    metadata, status = subject["metadata"], subject.get("status") or {}
    return (
        metadata["uid"],
        metadata.get("generation"),
        "deletionTimestamp" in metadata,
        sorted((metadata.get("annotations") or {}).items()),
        status.get("history"),
        status.get("incarnation"),
    )
