"""The sweep: forgets what has expired, one replica at a time, and counts what is there.

Who sweeps in an interval is a fact, too: the replica that tells it.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field

from demarkus_broker.state import names, rotation
from demarkus_broker.state.facts import Facts

INTERVAL = 300
"""Seconds between two sweeps."""
MARGIN = 3600
"""Seconds for which an expired fact is kept, so that no clock that is behind makes it anew."""

KINDS = ("codes", "devices", "usercodes", "people", "logins", "registrations", "sweeps")
MOST: Mapping[str, int] = {"codes": 10_000, "devices": 10_000, "logins": 200_000, "registrations": 50_000}
"""Codes, devices, logins and registrations, at most; with more there is room again only after a sweep."""


@dataclass(slots=True)
class Population:
    """How many there are of each kind: as the newest sweep counted, and what was added here since; `most` may be."""

    counts: Counter[str]
    most: Mapping[str, int] = field(default_factory=lambda: MOST)

    def has_room(self, kind: str) -> bool:
        """Whether one more may be made."""
        return self.counts[kind] < self.most[kind]


def due(keys: Iterable[str], *, now: float) -> list[str]:
    """Of the keys given, those to delete, in the order in which they have to be deleted."""
    there = list(keys)
    expired = [key for key in there if (names.expiry_of(key) or now) + MARGIN < now]
    gone = set(expired)
    return expired + rotation.superseded(key for key in there if key not in gone)


def population(keys: Iterable[str]) -> Counter[str]:
    """How many there are of each kind: a code, a device or a login is one, whatever facts there are about it."""
    return Counter(kind for kind, _ in {tuple(key.split("/")[:2]) for key in keys})


async def sweep(facts: Facts, found: Population, *, now: float) -> int:
    """Count what is there, and forget what is due unless another replica does; gives how many facts were forgotten."""
    mine = await facts.tell(f"sweeps/{(int(now) // INTERVAL + 1) * INTERVAL:010d}-{'0' * 32}", {})
    counts: Counter[str] = Counter()
    forgotten = 0
    for kind in KINDS:
        keys = await facts.keys(f"{kind}/")
        gone = due(keys, now=now)
        counts += population(set(keys) - set(gone))
        if mine:
            for key in gone:
                await facts.forget(key)
            forgotten += len(gone)
    found.counts = counts
    return forgotten
