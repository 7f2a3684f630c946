"""Who may call the management port: a statement about one call, signed by the operator and good for half a minute.

A compact JWS (RFC 7515), alg Ed25519, with the claims iat, exp (at most 30 s later), method, path (without its query)
and world (the history). So what is overheard or left in a log opens neither another path nor another world, and not
for long.
"""

from __future__ import annotations

import json
from typing import Any

from joserfc import jws
from joserfc.errors import JoseError

from mark_protocol.grants import ALGORITHM, KeySet

MAX_LIFE = 30
"""Seconds between iat and exp."""
CLOCK_SKEW = 30
"""Seconds that the operator's clock may run ahead."""

_MAX_LENGTH = 4096
_CLAIMS = frozenset({"iat", "exp", "method", "path", "world"})


class CallRefused(Exception):
    """A call that its signature does not allow; says why, and never holds a part of it."""


def check_call(authorization: str, keys: KeySet, *, method: str, path: str, history: str, now: float) -> None:
    """Whether the `Authorization` of a call allows it at `now` (seconds since 1970). Raises CallRefused."""
    scheme, _, text = authorization.partition(" ")
    if scheme.lower() != "bearer" or not text or len(text) > _MAX_LENGTH:
        raise CallRefused("no bearer token")
    claims = _claims(text.strip(), keys)
    issued, expires = claims["iat"], claims["exp"]
    if type(issued) is not int or type(expires) is not int or not 0 < expires - issued <= MAX_LIFE:
        raise CallRefused(f"its life is not between 1 and {MAX_LIFE} seconds")
    if issued > now + CLOCK_SKEW:
        raise CallRefused("it is from the future: the clocks of operator and world differ")
    if now >= expires:
        raise CallRefused("it has expired")
    for name, expected in (("method", method), ("path", path), ("world", history)):
        if claims[name] != expected:
            raise CallRefused(f"it is for another {name}")


def _claims(text: str, keys: KeySet) -> dict[str, Any]:
    try:
        header = jws.extract_compact(text.encode("ascii")).headers()
        kid = header.get("kid")
        key = keys.get(kid) if isinstance(kid, str) else None
        if header.get("alg") != ALGORITHM or "crit" in header or key is None:
            raise CallRefused("it is not signed with a key of the operator")
        claims = json.loads(jws.deserialize_compact(text, key, algorithms=[ALGORITHM]).payload)
    except (JoseError, ValueError, TypeError, RecursionError):
        raise CallRefused("its signature does not fit") from None
    if not isinstance(claims, dict) or claims.keys() != _CLAIMS:
        raise CallRefused(f"its claims are not {', '.join(sorted(_CLAIMS))}")
    return claims
