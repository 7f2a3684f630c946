"""What a verification finds: which object is not what it should be, and what that means in words."""

from collections.abc import Iterator
from dataclasses import dataclass, fields
from enum import StrEnum
from typing import Any

KEPT = 1000
"""Findings that are told one by one; more are only counted."""


class Fault(StrEnum):
    """The verdicts. The words are stable: scripts may rely on them."""

    MARKER = "marker"
    """The store's marker is missing, altered or another's."""
    RESTORE_UNFINISHED = "restore-unfinished"
    """The marker says that the store was restored, the log does not: that broke off, or its entry is gone."""
    FOREIGN = "foreign"
    """An object belongs to another world."""
    STRAY = "stray"
    """Something is in the log that no world puts there."""
    SLOT_MISSING = "slot-missing"
    """Entries are gone from the middle or the beginning of the log."""
    SLOT_ALTERED = "slot-altered"
    """Entries were edited, reordered or replaced after they were written."""
    LOG_SHORTER = "log-shorter"
    """The newest entries are gone: a bundle, a checkpoint or the configuration knows of more."""
    ENTRY_IMPOSSIBLE = "entry-impossible"
    """An entry that no world could have committed there."""
    VERSION_MISSING = "version-missing"
    VERSION_ALTERED = "version-altered"
    VERSION_UNLINKED = "version-unlinked"
    """A version that does not follow the one before it."""
    BUNDLE = "bundle"
    CHECKPOINT = "checkpoint"
    NOTE_FORGED = "note-forged"
    """A note that the world did not sign."""
    NOTE_FOREIGN = "note-foreign"
    """A note about another world, or about an incarnation of this one that the log does not go back to."""
    ROLLED_BACK = "rolled-back"
    """A witnessed note knows of entries that are not there any more."""
    FORKED = "forked"
    """The history is another one than a witnessed note vouches for."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Finding:
    """One thing that is wrong. `object` is a key of the store, or the file of a note; `entry` a sequence."""

    fault: Fault
    object: str
    text: str
    entry: int | None = None
    field: str | None = None
    path: str | None = None
    version: int | None = None

    def as_json(self) -> dict[str, Any]:
        """The finding with what it names, nothing that it does not."""
        values = ((field.name, getattr(self, field.name)) for field in fields(self))
        return {name: value for name, value in values if value is not None}


class Findings:
    """Findings in the order they were made, at most KEPT of them; `total` counts all."""

    def __init__(self) -> None:
        self.total = 0
        self._kept: list[Finding] = []

    def __iter__(self) -> Iterator[Finding]:
        return iter(self._kept)

    def add(self, finding: Finding) -> None:
        """Take a finding down."""
        self.total += 1
        if len(self._kept) < KEPT:
            self._kept.append(finding)
