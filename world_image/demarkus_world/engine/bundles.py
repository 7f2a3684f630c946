"""Bundles: copies of whole slots in one object, so that many entries are read with one call.

A bundle says nothing that the log does not say, and what is read from one is checked like the slots themselves. Where
one writer holds the store, slots that a bundle has copied may go after a day; elsewhere they stay for ever.

    bundles/<first>-<last>.json   {schema, history, first, last, slots}
"""

from collections import deque
from collections.abc import Sequence
from dataclasses import dataclass

from demarkus_base.blobs.port import Blobs
from demarkus_world.engine import canonical, keys, retry, slots
from demarkus_world.engine.refusals import StoreDamaged

SCHEMA = 1
LEAST = 256
"""A bundle holds at least so many entries ..."""
MOST = 4096
"""... and about so many at most, in at most so many bytes: an object has 4 MiB."""
MOST_BYTES = 3 * 1024 * 1024
UNLINK_AFTER = 24 * 3600 * 1000
"""Slots this many ms older than now, by the time of their newest entry, may go once they are bundled."""


@dataclass(frozen=True, slots=True, order=True)
class Bundle:
    """The bundle of the slots of entries `first` to `last`."""

    first: int
    last: int

    @property
    def key(self) -> str:
        return keys.bundle(self.first, self.last)


def encode(history: str, copied: Sequence[bytes]) -> tuple[Bundle, bytes]:
    """The bundle of consecutive slots, given by their bytes, and its bytes. Raises StoreDamaged for what is no slot."""
    read = [slots.read(data, key="a slot to be bundled") for data in copied]
    bundle = Bundle(read[0].first, read[-1].last)
    value = {
        "schema": SCHEMA,
        "history": history,
        "first": bundle.first,
        "last": bundle.last,
        "slots": [canonical.decode(data) for data in copied],
    }
    return bundle, canonical.encode(value)


def decode(data: bytes, bundle: Bundle, *, history: str) -> list[tuple[int, bytes]]:
    """The slots in a bundle: the first entry and the bytes of each, one behind the other and chained.

    Raises StoreDamaged naming the object and the field.
    """
    try:
        value = canonical.decode(data)
    except canonical.NotCanonical as error:
        raise StoreDamaged(f"{bundle.key}: {error}") from error
    expected = {"schema": SCHEMA, "history": history, "first": bundle.first, "last": bundle.last}
    for field, wanted in expected.items():
        if value.get(field) != wanted:
            raise StoreDamaged(f"{bundle.key}: {field} is {value.get(field)!r}, expected {wanted!r}")
    copied = value.get("slots")
    if value.keys() != {*expected, "slots"} or not isinstance(copied, list):
        raise StoreDamaged(f"{bundle.key}: fields missing or not expected")
    found: list[tuple[int, bytes]] = []
    following, prev = bundle.first, None
    for item in copied:
        if not isinstance(item, dict) or item.get("first") != following or not isinstance(item.get("entries"), list):
            raise StoreDamaged(f"{bundle.key}: it has no slot of entry {following}")
        if prev is not None and item.get("prev") != prev:
            raise StoreDamaged(f"{bundle.key}: the slot of entry {following} does not follow the one before it")
        slot = canonical.encode(item)
        prev = slots.slot_hash(slot)
        found.append((following, slot))
        following += len(item["entries"])
    if following != bundle.last + 1:
        raise StoreDamaged(f"{bundle.key}: it ends with entry {following - 1}")
    return found


def covering(bundles: Sequence[Bundle], sequence: int) -> list[Bundle]:
    """The fewest of these bundles that have, without a gap, what comes behind `sequence`."""
    chain: list[Bundle] = []
    waiting = deque(sorted(bundles))
    while True:
        best: Bundle | None = None
        while waiting and waiting[0].first <= sequence + 1:
            bundle = waiting.popleft()
            if best is None or bundle.last > best.last:
                best = bundle
        if best is None or best.last <= sequence:
            return chain
        chain.append(best)
        sequence = best.last


async def listed(blobs: Blobs, *, pause: retry.Pause) -> list[Bundle]:
    """The bundles of a store, ascending. Raises Unavailable."""

    async def look() -> list[Bundle]:
        return sorted([Bundle(*found) async for key in blobs.list(keys.BUNDLES) if (found := keys.bundled(key))])

    return await retry.read(look, pause=pause)


def cut(collected: Sequence[tuple[int, bytes]]) -> int:
    """How many of these slots (number of entries, bytes) the next bundle takes; 0 while they are too few."""
    entries = size = taken = 0
    for count, data in collected:
        if taken and (entries + count > MOST or size + len(data) > MOST_BYTES):
            return taken
        entries, size, taken = entries + count, size + len(data), taken + 1
    return taken if entries >= LEAST else 0
