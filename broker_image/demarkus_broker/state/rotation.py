"""Refresh tokens: their form, and what a presented one leads to.

Each use of a token makes its successor, `logins/<login>/<n+1>-<lane>`, whose creation is the use. Processes of one
client that share a token race: a use within GRACE seconds of the first one gets a sibling in a lane of its own, so
that neither ends the other's login. A use after that is reuse: somebody holds a copy, and the login ends (RFC 9700,
section 4.14). Pure.
"""

from __future__ import annotations

import hmac
import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from enum import StrEnum
from typing import Any

from demarkus_broker.state import names

GRACE = 60
"""Seconds in which a used token still leads to a sibling."""
SIBLINGS = 8
"""Tokens of one generation, at most, that may be there for another sibling to be made."""
KEPT = 8
"""Used tokens of a lane that are remembered, so that their reuse ends the login; older ones are only refused."""

FIRST_LANE = "0" * 8

_TOKEN = re.compile(r"(?P<login>[0-9]{10}-[0-9a-f]{32})\.(?P<n>[1-9][0-9]{0,7})\.(?P<lane>[0-9a-f]{8})\.[0-9a-f]{32}")
_KEY = re.compile(r"logins/(?P<login>[^/]+)/(?P<n>[0-9]{8})-(?P<lane>[0-9a-f]{8})")
_CHECK = re.compile(r"logins/(?P<login>[^/]+)/(?P<lane>check|claim)-(?P<n>[0-9]{8})(-[0-9]{10})?")


@dataclass(frozen=True, slots=True, kw_only=True)
class Token:
    """A refresh token taken apart. `secret` is the whole text, of which only the hash is kept."""

    login: str
    generation: int
    lane: str
    secret: str

    @property
    def key(self) -> str:
        """Where its hash is kept."""
        return f"logins/{self.login}/{self.generation:08d}-{self.lane}"

    @property
    def generation_prefix(self) -> str:
        """What the keys of all tokens of its generation begin with."""
        return f"logins/{self.login}/{self.generation:08d}-"


def make(login: str, generation: int, lane: str, entropy: bytes) -> Token:
    """A new token; `entropy` are 16 random bytes."""
    return Token(
        login=login, generation=generation, lane=lane, secret=f"{login}.{generation}.{lane}.{entropy[:16].hex()}"
    )


def parse(presented: str) -> Token | None:
    """A presented token taken apart; None if it is none of ours."""
    found = _TOKEN.fullmatch(presented)
    if found is None:
        return None
    return Token(login=found["login"], generation=int(found["n"]), lane=found["lane"], secret=presented)


def is_genuine(token: Token, kept: Mapping[str, Any] | None) -> bool:
    """Whether what is kept under a token's key is that token."""
    return kept is not None and hmac.compare_digest(str(kept.get("hash")), names.digest(token.secret))


class Used(StrEnum):
    """What the use of a token that has a successor is."""

    SIBLING = "sibling"
    REUSE = "reuse"


def judge(successor: Mapping[str, Any], *, generation: int, now: float) -> Used:
    """What it is to use a token whose successor was made at `successor["at"]`.

    `generation` is how many tokens of the successor's generation there are.
    """
    at = successor.get("at")
    in_time = isinstance(at, int) and now - at <= GRACE
    return Used.SIBLING if in_time and generation < SIBLINGS else Used.REUSE


def superseded(keys: Iterable[str]) -> list[str]:
    """Of the keys of logins, the tokens, checks and claims that need not be remembered any more, oldest first.

    In that order they have to be deleted: a token must not outlive its successor, or it could be used once more.
    """
    lanes: dict[tuple[str, str], list[tuple[int, str]]] = {}
    for key in keys:
        found = _KEY.fullmatch(key) or _CHECK.fullmatch(key)
        if found:
            lanes.setdefault((found["login"], found["lane"]), []).append((int(found["n"]), key))
    return [key for lane in lanes.values() for _, key in sorted(lane)[: -(KEPT + 1)]]
