"""Which worlds there are, and which of them exist for a person.

Pure: a directory is the worlds of one generation of broker.yaml. It is asked anew at every request, so a change of
access holds from the moment the file is read.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass

from demarkus_broker.identity import READ, Person, permits_anywhere, rights
from demarkus_broker.settings import WorldSettings
from mark_protocol.grants import Allow


@dataclass(frozen=True, slots=True, kw_only=True)
class Entry:
    """A world as one person sees it: its settings, and all that the person may do there."""

    world: WorldSettings
    allowed: tuple[Allow, ...]
    generation: int

    @property
    def name(self) -> str:
        """The name in `mark://<name>/...`."""
        return self.world.name

    @property
    def writable(self) -> bool:
        """Whether the person may write anything there."""
        return permits_anywhere(self.allowed, "append")


class Directory:
    """The worlds of a universe by name."""

    def __init__(self, worlds: Iterable[WorldSettings], *, generation: int) -> None:
        self._worlds: Mapping[str, WorldSettings] = {world.name: world for world in worlds}
        self._generation = generation

    def find(self, name: str, person: Person) -> Entry | None:
        """The world of this name, or None if there is none *for this person*: the two look alike on purpose."""
        world = self._worlds.get(name)
        return self._entry(world, person) if world else None

    def readable(self, person: Person) -> list[Entry]:
        """All worlds that exist for a person, by name."""
        entries = (self._entry(self._worlds[name], person) for name in sorted(self._worlds))
        return [entry for entry in entries if entry]

    def _entry(self, world: WorldSettings, person: Person) -> Entry | None:
        allowed = rights(person, world.access)
        if not permits_anywhere(allowed, READ):
            return None
        return Entry(world=world, allowed=allowed, generation=self._generation)
