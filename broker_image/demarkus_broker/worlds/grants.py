"""Grants: what the broker shows a world on behalf of one person, signed when needed and kept for a while.

A grant says all that one subject may do in one world, for at most five minutes. It is kept under everything that went
into it, so that no change of access, world or identity is ever served with an old one, and no two people share one.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from cachetools import TTLCache

from demarkus_broker.identity import Person
from demarkus_broker.keys import Keys
from demarkus_broker.worlds.directory import Entry
from mark_protocol.grants import Allow, Grant, sign_grant

LIFE = 300
"""Seconds a grant is good for; a world takes no longer one."""
KEPT = 240
"""Seconds a grant is used again: a request that leaves with one still has a minute to arrive."""
MOST = 10_000
"""Grants kept at once; the least recently used goes first."""


@dataclass(frozen=True, slots=True)
class _Key:
    """What a grant depends on."""

    subject: str
    user: str | None
    world: str
    history: str
    incarnation: str
    allowed: tuple[Allow, ...]
    generation: int
    kid: str


@dataclass(frozen=True, slots=True, kw_only=True)
class SignedGrant:
    """A grant as it goes into `auth`, and when it was signed (seconds since 1970)."""

    text: str
    issued_at: int

    def __repr__(self) -> str:
        return f"SignedGrant(issued_at={self.issued_at})"


class Grants:
    """Signs and keeps grants. `now` gives seconds since 1970. Touched by the event loop's thread only."""

    def __init__(self, *, now: Callable[[], float], most: int = MOST) -> None:
        self._now = now
        self._kept: TTLCache[_Key, SignedGrant] = TTLCache(maxsize=most, ttl=KEPT, timer=now)
        self.signed = 0

    def __len__(self) -> int:
        return len(self._kept)

    def grant(self, person: Person, entry: Entry, *, keys: Keys, issuer: str) -> SignedGrant:
        """The grant of a person for a world: one that is kept, else one signed now."""
        key = self._key(person, entry, keys)
        grant = self._kept.get(key)
        if grant is None:
            issued_at = int(self._now())
            text = sign_grant(
                Grant(
                    issuer=issuer,
                    audience=f"{entry.world.history}/{entry.world.incarnation}",
                    subject=key.subject,
                    user=person.email,
                    allow=entry.allowed,
                    issued_at=issued_at,
                    expires_at=issued_at + LIFE,
                    kid=keys.grant.kid,
                ),
                keys.grant.private,
            )
            grant = self._kept[key] = SignedGrant(text=text, issued_at=issued_at)
            self.signed += 1
        return grant

    def forget(self, person: Person, entry: Entry, grant: SignedGrant, *, keys: Keys) -> None:
        """Drop a grant that its world has refused, unless a newer one has taken its place."""
        key = self._key(person, entry, keys)
        if self._kept.get(key) is grant:
            del self._kept[key]

    @staticmethod
    def _key(person: Person, entry: Entry, keys: Keys) -> _Key:
        return _Key(
            subject=keys.label(person.issuer, person.subject),
            user=person.email,
            world=entry.name,
            history=entry.world.history,
            incarnation=entry.world.incarnation,
            allowed=entry.allowed,
            generation=entry.generation,
            kid=keys.grant.kid,
        )
