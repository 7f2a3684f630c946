"""What one document is to its writers: a register of versions, changed by one operation after another.

A pure model, without a log, slots or several processes: what a history is compared with.
"""

from __future__ import annotations

import hashlib
from dataclasses import dataclass
from typing import NamedTuple

NEVER = 1 << 62
"""The end of an operation whose outcome nobody was told."""


class Register(NamedTuple):
    """A document as it stands. `version` 0: there is none. `body` is the SHA-256 of the newest body."""

    version: int = 0
    first: int = 1
    archived: bool = False
    body: str = ""
    retention: int = 0


@dataclass(frozen=True, slots=True, kw_only=True)
class Operation:
    """Something one client asked for, from `called` to `ended` (ns of one clock), and what it was told.

    `outcome`: created, unchanged, archived, unarchived, pruned, seen (a read), conflict, closed (the document is
    archived), missing, or unknown. `version`, `first`, `body` are what the answer said; `text` is what was sent.
    `retention` is what a publish asked to keep, `keep` what a prune did.
    """

    name: str
    op: str
    path: str
    called: int
    ended: int = NEVER
    outcome: str = "unknown"
    text: str = ""
    expected: int | None = None
    retention: int = 0
    keep: int = 0
    version: int = 0
    first: int = 1
    archived: bool = False
    body: str = ""

    @property
    def unknown(self) -> bool:
        return self.outcome == "unknown"


class Bodies:
    """Bodies by their hash, so that states stay small."""

    def __init__(self) -> None:
        self._texts = {"": b""}

    def keep(self, text: bytes) -> str:
        """The hash under which a body is known from now on."""
        name = hashlib.sha256(text).hexdigest()
        self._texts[name] = text
        return name

    def appended(self, base: str, text: bytes) -> str:
        """The hash of a body with something behind it, on a line of its own."""
        before = self._texts[base]
        return self.keep(before + (b"\n" if before and not before.endswith(b"\n") else b"") + text)


def effect(state: Register, operation: Operation, bodies: Bodies) -> tuple[str, Register]:
    """What the operation comes to in that state: the outcome it has to be told, and the state it leaves."""
    op, version = operation.op, state.version
    if op == "read":
        return "seen", state
    if op in ("archive", "unarchive"):
        return (f"{op}d", state._replace(archived=op == "archive")) if version else ("missing", state)
    if op in ("append", "prune") and version == 0:
        return "missing", state
    if op == "prune":
        first = max(state.first, version + 1 - operation.keep)
        return ("pruned" if first > state.first else "unchanged"), state._replace(first=first)
    if operation.expected is not None and operation.expected != version:
        return "conflict", state
    if state.archived:
        return "closed", state
    text = operation.text.encode()
    body = bodies.keep(text) if op == "publish" else bodies.appended(state.body, text)
    if op == "publish" and version and (body, operation.retention) == (state.body, state.retention):
        return "unchanged", state
    first = max(state.first, version + 2 - operation.retention) if operation.retention else state.first
    return "created", Register(version + 1, first, False, body, operation.retention)


def step(state: Register, operation: Operation, bodies: Bodies) -> Register | None:
    """The state after the operation, or None if what it was told could not be told here.

    An operation of unknown outcome fits only where it changes something: elsewhere it may as well not have happened.
    """
    outcome, after = effect(state, operation, bodies)
    if operation.unknown:
        return after if after != state else None
    if outcome != operation.outcome:
        return None
    if outcome == "seen":
        seen = (operation.version, operation.archived, operation.body)
        whole = seen == (state.version, state.archived, state.body)
        return after if whole and (not state.version or operation.first == state.first) else None
    if outcome in ("missing", "closed"):
        return after
    return after if operation.version == after.version else None
