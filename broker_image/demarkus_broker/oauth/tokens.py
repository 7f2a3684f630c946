"""Access tokens: what the bearers are that the gateway hands out. Pure.

A token says of a person what access entries compare and nothing more: somebody in 200 groups gets a token with the few
that occur in broker.yaml, so it stays small and tells its bearer little.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

from joserfc import jwt
from joserfc.jwk import ECKey

from demarkus_broker.bearer import ALGORITHM
from demarkus_broker.keys import Keys
from demarkus_broker.settings import BrokerSettings, PersonEntry

LIFE = 900
"""Seconds for which an access token is good."""

_ALWAYS = ("email", "email_verified", "hd")


def claims_of(identity: Mapping[str, Any], settings: BrokerSettings) -> dict[str, Any]:
    """Of what the provider says of a person, what a token carries."""
    entries = list(_entries(settings))
    groups = {group.lower() for entry in entries for group in entry.groups or ()}
    names = {name for entry in entries for name in entry.claims or {}} - {"groups"}
    claims = {name: identity[name] for name in sorted({*_ALWAYS, *names}) if name in identity}
    mine = identity.get("groups")
    compared = any("groups" in (entry.claims or {}) for entry in entries)
    if isinstance(mine, list) and (groups or compared):
        claims["groups"] = mine if compared else [one for one in mine if isinstance(one, str) and one.lower() in groups]
    return claims


def issue(
    keys: Keys, settings: BrokerSettings, *, identity: Mapping[str, Any], client_id: str, scope: str, now: int, jti: str
) -> str:
    """A signed access token for whom `identity` (claims with `sub`) describes."""
    claims = {
        **claims_of(identity, settings),
        "iss": settings.public_url,
        "aud": settings.resource,
        "sub": identity["sub"],
        "client_id": client_id,
        "scope": scope,
        "iat": now,
        "exp": now + LIFE,
        "jti": jti,
    }
    return jwt.encode(
        {"alg": ALGORITHM, "kid": keys.bearer.kid, "typ": "at+jwt"}, claims, keys.bearer.private, algorithms=[ALGORITHM]
    )


def public_keys(keys: Mapping[str, ECKey]) -> dict[str, Any]:
    """The key set (RFC 7517) with which others may check tokens of this gateway."""
    return {
        "keys": [
            {**keys[kid].as_dict(private=False), "kid": kid, "use": "sig", "alg": ALGORITHM} for kid in sorted(keys)
        ]
    }


def _entries(settings: BrokerSettings) -> Iterable[PersonEntry]:
    if settings.identity is not None:
        yield from settings.identity.rules
    for world in settings.worlds:
        yield from world.access.readers
        yield from world.access.writers
