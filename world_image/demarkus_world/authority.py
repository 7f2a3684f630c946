"""Who may do what: one set of rules, made anew when its files change, pinned by every request.

`Rules` holds what decisions depend on: the read mode, the capability tokens, the key set that grants are checked
against. It is a value: a request takes the set of its arrival and keeps it, a reload makes another one. No clock, no
file and no socket is touched here; times come in as seconds since 1970.

Read mode `public` is Mark protocol 9.3 to the letter: what no read token covers is open. In the other two modes every
read needs a credential with `read` on the path; a directory above a permitted path can then be listed, but shows only
what is readable or on the way to it (`on_the_way`). `/health` never comes here, it needs no decision.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterator
from dataclasses import dataclass, field
from datetime import UTC, datetime
from enum import StrEnum
from functools import cached_property
from typing import Literal, NamedTuple

from cachetools import LRUCache

from demarkus_world.settings import AGENT_MANIFEST, ReadMode
from mark_protocol.grants import Allow, Grant, GrantError, KeySet, looks_like_grant, verify_grant
from mark_protocol.patterns import matches, may_contain
from mark_protocol.status import Status
from mark_protocol.tokens import TokenSet

VERIFIED_GRANTS = 4096
"""Grants whose signature is remembered; a grant lives 5 minutes, so this is many thousands of callers an hour."""


class Operation(StrEnum):
    """What a request does to a path."""

    READ = "read"
    APPEND = "append"
    WRITE = "write"
    ARCHIVE = "archive"
    PRUNE = "prune"
    REVIEW = "review"


GRANTED_BY: dict[Operation, frozenset[str]] = {
    Operation.READ: frozenset({"read"}),
    Operation.APPEND: frozenset({"append", "write", "publish"}),
    Operation.WRITE: frozenset({"write", "publish"}),
    Operation.ARCHIVE: frozenset({"archive", "publish"}),
    Operation.PRUNE: frozenset({"prune"}),
    Operation.REVIEW: frozenset({"review"}),
}
"""The words of a token or grant that permit an operation; `publish` is upstream's word for write and archive."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Credential:
    """A valid token or grant: what it permits, and how its holder is named in log and history (`label`).

    `user` is the verified person behind a grant, if the gateway knows one.
    """

    kind: Literal["token", "grant"]
    label: str
    allow: tuple[Allow, ...]
    user: str | None = None

    def permits(self, operation: Operation, path: str) -> bool:
        """Whether one entry has both the operation and a pattern that matches."""
        return any(matches(pattern, path) for pattern in self._patterns(operation))

    def may_somewhere(self, operation: Operation) -> bool:
        """Whether there is any path for the operation."""
        return any(True for _ in self._patterns(operation))

    def on_the_way(self, directory: str) -> bool:
        """Whether something that may be read can be below this directory."""
        return any(may_contain(pattern, directory) for pattern in self._patterns(Operation.READ))

    def _patterns(self, operation: Operation) -> Iterator[str]:
        words = GRANTED_BY[operation]
        for entry in self.allow:
            if words & entry.operations:
                yield from entry.paths


class Presented(NamedTuple):
    """What a request brought: a valid credential, or none and the reason (for the log, never for the caller)."""

    credential: Credential | None
    problem: str = ""


class Denial(NamedTuple):
    """Why not: the status and the message that the caller gets."""

    status: Status
    message: str


AUTHENTICATION_REQUIRED = Denial(Status.UNAUTHORIZED, "authentication required")
INSUFFICIENT_PERMISSIONS = Denial(Status.NOT_PERMITTED, "insufficient permissions")


@dataclass(frozen=True, kw_only=True, eq=False)
class Rules:
    """One set of rules.

    Attributes:
        reads: the read mode.
        audience: `<history>/<incarnation>`; a grant for another world is void.
        tokens: the capability tokens, None if no token file is configured.
        keys: the keys of the gateway, None if no key set is configured.
        not_before: grants issued earlier (seconds since 1970) are void.
        read_only: nobody writes, whatever a credential permits.
    """

    reads: ReadMode
    audience: str
    tokens: TokenSet | None = None
    keys: KeySet | None = None
    not_before: int | None = None
    read_only: bool = False
    _verified: LRUCache[bytes, Grant] = field(default_factory=lambda: LRUCache(VERIFIED_GRANTS), repr=False)

    @property
    def configured(self) -> bool:
        """Whether there is anything to check a credential against; without it a world can't be written to."""
        return self.tokens is not None or self.keys is not None

    @cached_property
    def read_patterns(self) -> frozenset[str]:
        """The patterns that make paths private in mode `public`, also those of expired tokens."""
        tokens = () if self.tokens is None else self.tokens.tokens
        return frozenset(p for token in tokens if Operation.READ in token.operations for p in token.paths)

    @cached_property
    def _holders(self) -> dict[str, Credential]:
        """What each token permits, by its hash: two files may have tokens of one label."""
        return {
            token.hash: Credential(
                kind="token", label=token.label, allow=(Allow(operations=token.operations, paths=token.paths),)
            )
            for token in (() if self.tokens is None else self.tokens.tokens)
        }

    def identify(self, auth: str, *, now: float) -> Presented:
        """The credential in a request's `auth`; unknown, expired and forged ones are no credential."""
        if not auth:
            return Presented(None)
        if looks_like_grant(auth):
            return self._identify_grant(auth, now=now)
        token = None if self.tokens is None else self.tokens.find(auth)
        if token is None:
            return Presented(None, "unknown token")
        if token.expired(datetime.fromtimestamp(now, UTC)):
            return Presented(None, f"token {token.label} has expired")
        return Presented(self._holders[token.hash])

    def read(self, credential: Credential | None, path: str) -> Denial | None:
        """Whether a path may be read: None, or why not. Directories may carry a trailing slash."""
        if path == AGENT_MANIFEST or self._is_open(path):
            return None
        if credential is None:
            return AUTHENTICATION_REQUIRED
        if any(credential.permits(Operation.READ, spelling) for spelling in _spellings(path)):
            return None
        return INSUFFICIENT_PERMISSIONS

    def on_the_way(self, credential: Credential | None, directory: str) -> bool:
        """Whether an unreadable directory may still show what is readable below it; never in mode `public`."""
        return self.reads is not ReadMode.PUBLIC and credential is not None and credential.on_the_way(directory)

    def writer(self, credential: Credential | None, operation: Operation, path: str) -> Credential | Denial:
        """The credential if it permits this change of a path, or why not."""
        if credential is None:
            return AUTHENTICATION_REQUIRED
        return credential if credential.permits(operation, path) else INSUFFICIENT_PERMISSIONS

    def _is_open(self, path: str) -> bool:
        if self.reads is not ReadMode.PUBLIC:
            return False
        spellings = _spellings(path)
        return not any(matches(pattern, spelling) for pattern in self.read_patterns for spelling in spellings)

    def _identify_grant(self, text: str, *, now: float) -> Presented:
        if self.keys is None:
            return Presented(None, "a grant, but no key set is configured")
        # Keyed by digest, so that no usable credential stays in memory.
        key = hashlib.sha256(text.encode("utf-8", "surrogateescape")).digest()
        grant = self._verified.get(key)
        if grant is None or grant.expires_at <= now:
            try:
                grant = verify_grant(text, self.keys, audience=self.audience, now=int(now), not_before=self.not_before)
            except GrantError as error:
                return Presented(None, str(error))
            self._verified[key] = grant
        return Presented(Credential(kind="grant", label=grant.subject, allow=grant.allow, user=grant.user))


def _spellings(path: str) -> tuple[str, ...]:
    """A path and, if it could be a directory, its form with a slash: patterns may be written for either."""
    return (path,) if path.endswith("/") else (path, path + "/")


def opened_by(old: Rules, new: Rules) -> str | None:
    """What a change of rules lays open to everybody, as a sentence for the log; None if nothing."""
    if new.reads is not ReadMode.PUBLIC:
        return None
    if old.reads is not ReadMode.PUBLIC:
        return f"reads changed from {old.reads} to public: all that no read token covers can now be read by everybody"
    lost = sorted(old.read_patterns - new.read_patterns)
    if not lost:
        return None
    rest = "no read token is left, everything" if not new.read_patterns else "what no other read token covers"
    return f"{rest} can now be read by everybody; patterns that no longer protect: {', '.join(lost)}"
