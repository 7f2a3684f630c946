"""The names of the store's objects.

world.json                                        the marker: whose store this is
restore.json                                      of a restored store: the slot that ends its restore
log/<first sequence, 16 hex>.json                 a slot
docs/<path>/v<N>-<16 hex of sha256>-<8 random hex>.md   the exact bytes of a stored version
bundles/<first>-<last>.json                       copies of the slots that hold these entries (16 hex each)
checkpoints/<sequence, 16 hex>/                   what the log adds up to so far: parts, and manifest.json
sweeps/<sequence, 16 hex>.json                    the blobs that the sweep of this sequence will delete
"""

import re
from typing import NamedTuple

from mark_protocol.paths import decode_key, encode_key

WORLD = "world.json"
RESTORE = "restore.json"
LOG = "log/"
BUNDLES = "bundles/"
CHECKPOINTS = "checkpoints/"
MANIFEST = "manifest.json"
DOCS = "docs/"
SWEEPS = "sweeps/"

_BUNDLE = re.compile(r"bundles/([0-9a-f]{16})-([0-9a-f]{16})\.json")
_CHECKPOINT = re.compile(r"checkpoints/([0-9a-f]{16})/.+", re.DOTALL)
_SLOT = re.compile(r"log/([0-9a-f]{16})\.json")
_SWEEP = re.compile(r"sweeps/([0-9a-f]{16})\.json")
_BLOB = re.compile(r"docs(/.+)/v([1-9][0-9]{0,18})-[0-9a-f]{16}-[0-9a-f]{8}\.md", re.DOTALL)


class VersionOf(NamedTuple):
    """Whose bytes a blob holds."""

    path: str
    version: int


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


def bundle(first: int, last: int) -> str:
    """The key of the bundle of these entries' slots."""
    return f"{BUNDLES}{first:016x}-{last:016x}.json"


def bundled(key: str) -> tuple[int, int] | None:
    """The first and last entry in a bundle's key; None for another key."""
    match = _BUNDLE.fullmatch(key)
    return (int(match[1], 16), int(match[2], 16)) if match else None


def checkpoint(sequence: int, name: str) -> str:
    """The key of a part of the checkpoint at that sequence."""
    return f"{CHECKPOINTS}{sequence:016x}/{name}"


def checkpoint_of(key: str) -> int | None:
    """The sequence in the key of a checkpoint's part; None for another key."""
    match = _CHECKPOINT.fullmatch(key)
    return int(match[1], 16) if match else None


def blobs_of(path: str) -> str:
    """What the keys of all blobs of a document begin with; of `/` all keys of blobs do."""
    return DOCS if path == "/" else f"docs{encode_key(path)}/v"


def version_of(key: str) -> VersionOf | None:
    """The version whose bytes a blob of this name was made for; None for a name that `blob` never makes."""
    match = _BLOB.fullmatch(key)
    if match is None:
        return None
    try:
        return VersionOf(decode_key(match[1]), int(match[2]))
    except ValueError:
        return None


def sweep(sequence: int) -> str:
    """The key of the list of blobs that a sweep will delete."""
    return f"{SWEEPS}{sequence:016x}.json"


def sequence_of_sweep(key: str) -> int | None:
    """The sequence in the key of such a list; None for another key."""
    match = _SWEEP.fullmatch(key)
    return int(match[1], 16) if match else None
