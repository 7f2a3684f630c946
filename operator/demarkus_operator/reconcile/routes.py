"""Who has to be looked at when something is heard: from an event to the Worlds and Universes it may concern.

It remembers of each World and Universe only what tells a change that matters from the noise: most events of a World are
echoes of its own status. Of a child it remembers the version that a reconcile of its owner saw last: an event that
brings the same is its echo. The memory is rebuilt from every full listing, because events can be missed.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
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
    found = metadata.get("labels") or {}
    namespace, name = found.get(labels.HOME) or metadata["namespace"], metadata["name"]
    for owner in metadata.get("ownerReferences") or ():
        if owner["apiVersion"] == API_VERSION:
            return Ref(API_VERSION, owner["kind"], namespace, owner["name"])
    kept = _KEPT.get(child["kind"])
    if kept is not None and name.endswith(kept[1]):
        return Ref(API_VERSION, kept[0].kind, namespace, name.removesuffix(kept[1]))
    for label, kind in ((labels.WORLD, WORLD.kind), (labels.UNIVERSE, UNIVERSE.kind)):
        if label in found:
            return Ref(API_VERSION, kind, namespace, found[label])
    return None


@dataclass(slots=True)
class Routes:
    """The memory. Used by one task at a time."""

    _traits: dict[Ref, Any] = field(default_factory=dict)
    _told: dict[Ref, Any] = field(default_factory=dict)
    _universe: dict[Ref, Ref] = field(default_factory=dict)  # of a World
    _worlds: dict[Ref, set[Ref]] = field(default_factory=dict)  # of a Universe, also of one that does not exist
    _versions: dict[Ref, str] = field(default_factory=dict)  # of children

    def heard(self, subject: Manifest, *, gone: bool = False) -> tuple[list[Ref], list[Ref]]:
        """After an event of a World or Universe: who has to be looked at, and who besides may be concerned by it.

        Both are empty for an echo.
        """
        ref = Ref.of(subject)
        traits, told = (None, None) if gone else (_traits(subject), _told(subject))
        if not gone and self._traits.get(ref) == traits:
            return [], []
        concerned = self._concerned(ref) if self._told.get(ref) != told or gone else []
        before = self._universe.get(ref)
        if gone:
            self._forget(ref)
        else:
            self._remember(ref, subject)
            if self._universe.get(ref) != before or concerned:
                concerned = [*concerned, *self._concerned(ref)]
        return [ref], list(dict.fromkeys(concerned))

    def heard_child(self, child: Manifest, *, gone: bool = False) -> Ref | None:
        """Who has to be looked at after an event of a child; nobody if it is an echo, or nobody's."""
        ref = Ref.of(child)
        if gone:
            self._versions.pop(ref, None)
        elif self._versions.get(ref) == child["metadata"]["resourceVersion"]:
            return None
        return owner_of(child)

    def saw(self, child: Manifest) -> None:
        """A reconcile of its owner read or wrote a child."""
        self._versions[Ref.of(child)] = child["metadata"]["resourceVersion"]

    def listed(self, subjects: Iterable[Manifest], versions: Mapping[Ref, str] | None = None) -> list[Ref]:
        """Everybody there is, after a full listing of Worlds and Universes, and the versions of their children.

        Whoever is not in it is forgotten.
        """
        self._traits.clear()
        self._told.clear()
        self._universe.clear()
        self._worlds.clear()
        self._versions = dict(versions or {})
        for subject in subjects:
            self._remember(Ref.of(subject), subject)
        return list(self._traits)

    def worlds_of(self, universe: Ref) -> list[Ref]:
        """The Worlds that name a Universe."""
        return sorted(self._worlds.get(universe, ()))

    def _concerned(self, ref: Ref) -> list[Ref]:
        if ref.kind == UNIVERSE.kind:
            return self.worlds_of(ref)
        return [self._universe[ref]] if ref in self._universe else []

    def _remember(self, ref: Ref, subject: Manifest) -> None:
        self._forget(ref)
        self._traits[ref], self._told[ref] = _traits(subject), _told(subject)
        if ref.kind == WORLD.kind and (universe := universe_of(subject)):
            home = Ref(UNIVERSE.api_version, UNIVERSE.kind, *universe)
            self._universe[ref] = home
            self._worlds.setdefault(home, set()).add(ref)

    def _forget(self, ref: Ref) -> None:
        self._traits.pop(ref, None)
        self._told.pop(ref, None)
        home = self._universe.pop(ref, None)
        if home is not None:
            self._worlds[home].discard(ref)
            if not self._worlds[home]:
                del self._worlds[home]


def _told(subject: Manifest) -> Any:
    """What of it concerns others: whose it is, what it asks for, and what a World tells its Universe."""
    metadata, status = subject["metadata"], subject.get("status") or {}
    return (
        metadata["uid"],
        metadata.get("generation"),
        "deletionTimestamp" in metadata,
        status.get("history"),
        status.get("incarnation"),
        sorted((status.get("loaded") or {}).items()),
    )


def _traits(subject: Manifest) -> Any:
    """What of it a change matters of: that, and what its owner notes on it."""
    return _told(subject), sorted((subject["metadata"].get("annotations") or {}).items())
