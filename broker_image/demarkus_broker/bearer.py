"""Bearers: the ES256 tokens with which people and agents come to `/mcp`, and what makes one valid.

A bearer is a JWT (RFC 7519, RFC 9068 in spirit) signed with one of the broker's own keys, for this gateway alone. The
algorithm is pinned, the key is chosen by `kid` among ours and by nothing else in the token, and a header member that
is not known is a refusal. Messages are constant: neither the token nor a part of it appears in one.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from enum import StrEnum
from typing import Any

from joserfc import jws
from joserfc.errors import JoseError
from joserfc.jwk import ECKey

ALGORITHM = "ES256"
MAX_BYTES = 8192
"""A longer token is refused unread."""
CLOCK_SKEW = 30
"""Seconds by which `iat` and `nbf` may lie ahead of our clock."""

_HEADER = frozenset({"alg", "kid", "typ"})


class BearerFault(StrEnum):
    """Why a bearer was refused: for logs and metrics, not for its sender."""

    MALFORMED = "malformed"
    ALGORITHM = "algorithm"
    UNKNOWN_KEY = "unknown-key"
    SIGNATURE = "signature"
    ISSUER = "issuer"
    AUDIENCE = "audience"
    EXPIRED = "expired"
    NOT_YET_VALID = "not-yet-valid"
    NOT_ADMITTED = "not-admitted"


class BearerError(Exception):
    """The bearer is not valid here."""

    def __init__(self, fault: BearerFault) -> None:
        super().__init__(fault.value)
        self.fault = fault


def verify(token: str, keys: Mapping[str, ECKey], *, issuer: str, audience: str, now: float) -> dict[str, Any]:
    """The claims of a valid bearer; `iss` and `sub` are text in them. Raises BearerError.

    `keys` are ours by kid, `now` is in seconds since 1970.
    """
    claims = _signed_claims(token, keys)
    if claims.get("iss") != issuer:
        raise BearerError(BearerFault.ISSUER)
    named = claims.get("aud")
    if audience not in (named if isinstance(named, list) else [named]):
        raise BearerError(BearerFault.AUDIENCE)
    subject = claims.get("sub")
    if not isinstance(subject, str) or not subject or not subject.isprintable():
        raise BearerError(BearerFault.MALFORMED)
    if _seconds(claims, "exp") <= now:
        raise BearerError(BearerFault.EXPIRED)
    if max(_seconds(claims, "iat"), _seconds(claims, "nbf", default=0)) > now + CLOCK_SKEW:
        raise BearerError(BearerFault.NOT_YET_VALID)
    return claims


def _signed_claims(token: str, keys: Mapping[str, ECKey]) -> dict[str, Any]:
    if len(token) > MAX_BYTES or not token.isascii():
        raise BearerError(BearerFault.MALFORMED)
    try:
        signed = jws.extract_compact(token.encode("ascii"))
        header = signed.headers()
    except (JoseError, ValueError, TypeError, AttributeError, RecursionError):
        raise BearerError(BearerFault.MALFORMED) from None
    if not set(header) <= _HEADER:
        raise BearerError(BearerFault.MALFORMED)
    if header.get("alg") != ALGORITHM:
        raise BearerError(BearerFault.ALGORITHM)
    kid = header.get("kid")
    key = keys.get(kid) if isinstance(kid, str) else None
    if key is None:
        raise BearerError(BearerFault.UNKNOWN_KEY)
    try:
        genuine = jws.validate_compact(signed, key, algorithms=[ALGORITHM])
    except (JoseError, ValueError):
        genuine = False
    if not genuine:
        raise BearerError(BearerFault.SIGNATURE)
    try:
        claims = json.loads(signed.payload)
    except (ValueError, RecursionError):
        claims = None
    if not isinstance(claims, dict):
        raise BearerError(BearerFault.MALFORMED)
    return claims


def _seconds(claims: Mapping[str, Any], name: str, *, default: float | None = None) -> float:
    value = claims.get(name, default)
    if isinstance(value, bool) or not isinstance(value, int | float) or not 0 <= value < 1e12:
        raise BearerError(BearerFault.MALFORMED)
    return value
