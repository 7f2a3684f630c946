"""Bundles as a verification sees them: copies of slots, each of which is compared with the log."""

import re
from collections.abc import AsyncIterator
from dataclasses import dataclass

from demarkus_base.blobs.port import Blobs
from demarkus_world.engine import canonical
from demarkus_world.engine.refusals import StoreDamaged

BUNDLES = "bundles/"

_NAME = re.compile(r"bundles/([0-9a-f]{16})-([0-9a-f]{16})\.json")


@dataclass(frozen=True, slots=True)
class Name:
    """A bundle by its key: it holds the slots of entries `first` to `last`."""

    first: int
    last: int
    key: str


async def names(blobs: Blobs) -> AsyncIterator[Name]:
    """The bundles of a store, in the order of their first entries."""
    async for key in blobs.list(BUNDLES):
        match = _NAME.fullmatch(key)
        if match is not None:
            yield Name(int(match[1], 16), int(match[2], 16), key)


def parts(data: bytes, *, name: Name) -> list[tuple[int, bytes]]:
    """The slots in a bundle: first entry and exact bytes of each. Raises StoreDamaged naming object and field."""
    try:
        value = canonical.decode(data)
    except canonical.NotCanonical as error:
        raise StoreDamaged(f"{name.key}: {error}") from error
    found = value.get("slots")
    if not isinstance(found, list) or not all(isinstance(slot, dict) for slot in found):
        raise StoreDamaged(f"{name.key}: slots missing or not expected")
    starts = [slot.get("first") for slot in found]
    if not all(type(start) is int for start in starts):
        raise StoreDamaged(f"{name.key}: first of a slot is missing")
    return [(start, canonical.encode(slot)) for start, slot in zip(starts, found, strict=True)]
