"""The names of the store's objects.

world.json                                        the marker: whose store this is
log/<first sequence, 16 hex>.json                 a slot
docs/<path>/v<N>-<16 hex of sha256>-<8 random hex>.md   the exact bytes of a stored version
"""

import re

from mark_protocol.paths import encode_key

WORLD = "world.json"
LOG = "log/"

_SLOT = re.compile(r"log/([0-9a-f]{16})\.json")


def slot(first: int) -> str:
    """The key of the slot whose first entry has that sequence."""
    return f"{LOG}{first:016x}.json"


def first_of(key: str) -> int | None:
    """The sequence in a slot's key; None for another key."""
    match = _SLOT.fullmatch(key)
    return int(match[1], 16) if match else None


def blob(path: str, version: int, stored: str, nonce: str) -> str:
    """A key for the bytes of a version (`stored` = their SHA-256); a fresh nonce (8 hex) makes it never used before."""
    return f"docs{encode_key(path)}/v{version}-{stored[:16]}-{nonce}.md"
