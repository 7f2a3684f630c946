"""Slots, the objects of the log: up to 32 entries that became true together, chained to the slot before.

Creating `log/<tip + 1>.json` is what makes them true.
"""

import hashlib
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from demarkus_world.engine import canonical, entries
from demarkus_world.engine.entries import Entry, EntryFault
from demarkus_world.engine.refusals import StoreDamaged

SCHEMA = 1
ENTRIES = 32
NO_SLOT = "0" * 64


@dataclass(frozen=True, slots=True, kw_only=True)
class Slot:
    """`prev` is the hash of the slot before (64 zeros for the first), `writer` names the process that made it."""

    history: str
    first: int
    writer: str
    prev: str
    entries: Sequence[Entry]

    @property
    def last(self) -> int:
        return self.first + len(self.entries) - 1


def slot_hash(data: bytes) -> str:
    """SHA-256 over a slot's bytes, as its successor's `prev` holds it."""
    return hashlib.sha256(data).hexdigest()


def encode(slot: Slot) -> bytes:
    """The canonical bytes of a slot."""
    return canonical.encode(
        {
            "schema": SCHEMA,
            "history": slot.history,
            "first": slot.first,
            "writer": slot.writer,
            "prev": slot.prev,
            "entries": [entries.to_json(entry) for entry in slot.entries],
        }
    )


def decode(data: bytes, *, key: str, history: str, first: int, prev: str, time: int) -> Slot:
    """The slot read under `key`, which has to follow the one that ended before `first`, hashed to `prev`, at `time`.

    Raises StoreDamaged naming the object and the field.
    """
    value = _object(data, key)
    for field, expected in (("history", history), ("first", first), ("prev", prev)):
        if value.get(field) != expected:
            raise StoreDamaged(f"{key}: {field} is {value.get(field)!r}, expected {expected!r}")
    return _slot(value, key, time)


def read(data: bytes, *, key: str) -> Slot:
    """The slot in the bytes, whatever it follows. Raises StoreDamaged naming the object and the field."""
    value = _object(data, key)
    for field, of in (("history", str), ("first", int), ("prev", str)):
        if type(value.get(field)) is not of:
            raise StoreDamaged(f"{key}: {field} is {value.get(field)!r}")
    return _slot(value, key, 0)


def _object(data: bytes, key: str) -> dict[str, Any]:
    try:
        value = canonical.decode(data)
    except canonical.NotCanonical as error:
        raise StoreDamaged(f"{key}: {error}") from error
    if value.get("schema") != SCHEMA:
        raise StoreDamaged(f"{key}: schema is {value.get('schema')!r}, this version knows {SCHEMA}")
    return value


def _slot(value: dict[str, Any], key: str, time: int) -> Slot:
    found = value.get("entries")
    if value.keys() != {"schema", "history", "first", "writer", "prev", "entries"} or not isinstance(found, list):
        raise StoreDamaged(f"{key}: fields missing or not expected")
    if not 1 <= len(found) <= ENTRIES or not isinstance(value["writer"], str):
        raise StoreDamaged(f"{key}: {len(found)} entries by writer {value['writer']!r}")
    entries_read: list[Entry] = []
    for number, item in enumerate(found, value["first"]):
        try:
            entry = entries.from_json(item if isinstance(item, dict) else {})
        except EntryFault as error:
            raise StoreDamaged(f"{key}: entry {number}: {error}") from error
        if entry.seq != number or entry.time < time:
            raise StoreDamaged(f"{key}: entry {number}: seq is {entry.seq}, time is {entry.time} after {time}")
        time = entry.time
        entries_read.append(entry)
    return Slot(
        history=value["history"],
        first=value["first"],
        writer=value["writer"],
        prev=value["prev"],
        entries=entries_read,
    )
