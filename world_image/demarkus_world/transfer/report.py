"""What became of a transfer: counts, what was left out and why, in words and as JSON."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any

from mark_protocol.metadata import quoted

LISTED = 10_000
"""Refusals that are kept and listed; more are counted."""


@dataclass(frozen=True, slots=True)
class Refusal:
    """A path, or some versions of it, that did not come over."""

    path: str
    reason: str
    versions: tuple[int, int] | None = None

    def __str__(self) -> str:
        which = ""
        if self.versions is not None:
            first, last = self.versions
            which = f" version {first}" if first == last else f" versions {first} to {last}"
        return f"{shown(self.path)}{which}: {self.reason}"


@dataclass(slots=True)
class Report:
    """Filled while a transfer runs. `present` counts documents that needed nothing, `ignored` files of no document."""

    versions: int = 0
    octets: int = 0
    archived: int = 0
    unarchived: int = 0
    present: int = 0
    ignored: int = 0
    refusals: list[Refusal] = field(default_factory=list)
    refused: int = 0
    notes: list[str] = field(default_factory=list)
    _told: set[object] = field(default_factory=set)
    _changed: set[int] = field(default_factory=set)

    @property
    def documents(self) -> int:
        """How many documents got versions."""
        return len(self._changed)

    def add_version(self, path: str, octets: int) -> None:
        """Count a version that was added to a document."""
        self._changed.add(hash(path))
        self.versions += 1
        self.octets += octets

    def refuse(self, path: str, reason: str, versions: tuple[int, int] | None = None) -> None:
        """List something that does not come over."""
        refusal = Refusal(path, reason, versions)
        if refusal in self._told:
            return  # a document that was looked at again
        self.refused += 1
        if len(self.refusals) < LISTED:
            self.refusals.append(refusal)
            self._told.add(refusal)

    def note(self, path: str, text: str) -> None:
        """Mention something that whoever looks after the source may want to know; nothing is lost by it."""
        note = f"{shown(path)}: {text}"
        if len(self.notes) < LISTED and note not in self._told:
            self.notes.append(note)
            self._told.add(note)

    def sentences(self) -> Iterator[str]:
        """The report for people, a line each, refusals last."""
        changed = [f"{self.documents} documents", f"{self.versions} versions", f"{self.octets} bytes"]
        if self.archived:
            changed.append(f"{self.archived} archived")
        if self.unarchived:
            changed.append(f"{self.unarchived} unarchived")
        yield f"added: {', '.join(changed)}"
        yield f"already there: {self.present} documents"
        if self.ignored:
            yield f"ignored: {self.ignored} files that belong to no document"
        yield from (f"note: {note}" for note in self.notes)
        yield from (f"refused: {refusal}" for refusal in self.refusals)
        if self.refused > len(self.refusals):
            yield f"refused: {self.refused - len(self.refusals)} more"

    def as_json(self) -> dict[str, Any]:
        """The report for programs."""
        refusals = [
            {"path": shown(refusal.path), "reason": refusal.reason}
            | ({"versions": list(refusal.versions)} if refusal.versions else {})
            for refusal in self.refusals
        ]
        return {
            "documents": self.documents,
            "versions": self.versions,
            "bytes": self.octets,
            "archived": self.archived,
            "unarchived": self.unarchived,
            "present": self.present,
            "ignored": self.ignored,
            "refused": self.refused,
            "refusals": refusals,
            "notes": self.notes,
        }


def shown(path: str) -> str:
    """A path as a terminal may show it: as it is, or quoted when it holds anything unprintable."""
    return path if path.isprintable() else quoted(path)
