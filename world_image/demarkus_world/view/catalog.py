"""What the catalog knows of a document: facts from its newest version's stored bytes (Mark protocol 8.1)."""

import math
from collections.abc import Mapping
from dataclasses import dataclass

from demarkus_world.view.paths import name_of
from mark_protocol.outline import first_title
from mark_protocol.versions import StoredVersion

NEUTRAL_IMPORTANCE = 0.5


@dataclass(frozen=True, slots=True, kw_only=True)
class Described:
    """`title` is what a row shows; `tags` keep their case; `importance` is from 0 to 1."""

    metadata: Mapping[str, str]
    title: str
    tags: tuple[str, ...]
    importance: float


def describe(path: str, version: StoredVersion) -> Described:
    """What a version says of the document at `path`."""
    metadata = version.metadata
    return Described(
        metadata=metadata,
        title=metadata.get("title", "").strip() or first_title(version.body) or name_of(path),
        tags=tags_of(metadata),
        importance=importance_of(metadata),
    )


def tags_of(metadata: Mapping[str, str]) -> tuple[str, ...]:
    """The tags, in their own case."""
    return tuple(filter(None, (tag.strip() for tag in metadata.get("tags", "").split(","))))


def importance_of(metadata: Mapping[str, str]) -> float:
    """From 0 to 1; what is absent or no such number counts as 0.5 (Mark protocol 6.3)."""
    text = metadata.get("importance", "").strip()
    try:
        value = float.fromhex(text) if text[:2].lower() == "0x" and "p" in text.lower() else float(text)
    except (ValueError, OverflowError):
        return NEUTRAL_IMPORTANCE
    if "_" in text or not math.isfinite(value) or not 0 <= value <= 1:
        return NEUTRAL_IMPORTANCE
    return value
