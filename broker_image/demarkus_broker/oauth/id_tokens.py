"""ID tokens of the company's provider (OpenID Connect Core 1.0, 3.1.3.7), and what is kept of them. Pure.

The algorithm is one of a few asymmetric ones; the key is one of the provider's own, whatever the token's header says.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any

from joserfc import jws
from joserfc.errors import JoseError
from joserfc.jwk import KeySet

ALGORITHMS = ("RS256", "RS384", "RS512", "PS256", "PS384", "PS512", "ES256", "ES384", "Ed25519", "EdDSA")
GOOGLE = "https://accounts.google.com"
MAX_BYTES = 64 << 10
CLOCK_SKEW = 60
"""Seconds by which the provider's clock may differ from ours."""

_KEY_TYPES = {"R": "RSA", "P": "RSA", "E": "EC"}
_OF_THE_TOKEN = frozenset(
    {"iss", "aud", "azp", "exp", "iat", "nbf", "jti", "nonce", "at_hash", "c_hash", "s_hash", "sid", "acr", "amr"}
)
_MAX_KEPT = 128 << 10


class IdTokenError(Exception):
    """An ID token is not valid. The text says what does not hold, and nothing of the token.

    `unknown_key`: it may be valid, with a key that is not known yet.
    """

    def __init__(self, message: str, *, unknown_key: bool = False) -> None:
        super().__init__(message)
        self.unknown_key = unknown_key


def verify(token: str, keys: KeySet, *, issuer: str, client_id: str, nonce: str | None, now: float) -> dict[str, Any]:
    """The claims of a valid ID token for this client. Raises IdTokenError. `nonce` None: none is expected."""
    claims = _signed_claims(token, keys)
    if claims.get("iss") != issuer:
        raise IdTokenError("iss is not the provider")
    audience = claims.get("aud")
    audiences = audience if isinstance(audience, list) else [audience]
    if client_id not in audiences or (len(audiences) > 1 and claims.get("azp") != client_id):
        raise IdTokenError("aud is not this gateway's client")
    if claims.get("azp", client_id) != client_id:
        raise IdTokenError("azp is not this gateway's client")
    if _seconds(claims, "exp") + CLOCK_SKEW <= now:
        raise IdTokenError("exp is over")
    if max(_seconds(claims, "iat"), _seconds({"nbf": 0, **claims}, "nbf")) - CLOCK_SKEW > now:
        raise IdTokenError("iat or nbf is yet to come")
    if nonce is not None and claims.get("nonce") != nonce:
        raise IdTokenError("nonce is not the one that was sent")
    subject = claims.get("sub")
    if not isinstance(subject, str) or not 0 < len(subject) <= 255 or not subject.isprintable():
        raise IdTokenError("sub is missing or odd")
    return claims


def kept(claims: Mapping[str, Any], *, issuer: str) -> dict[str, Any]:
    """What is kept of a person's claims: what access entries could compare, not what is about the token.

    Google names the organisation in `hd`. Somebody without one belongs to none, though their verified address may be
    one of an organisation that they have left: they get an empty `hd`, so that their address does not count for it.
    """
    found = {
        name: value
        for name, value in claims.items()
        if name not in _OF_THE_TOKEN and isinstance(value, str | bool | int | list)
    }
    if len(json.dumps(found)) > _MAX_KEPT:
        found = {name: found[name] for name in ("sub", "email", "email_verified", "hd") if name in found}
    return {"hd": "", **found} if issuer == GOOGLE else found


def _signed_claims(token: str, keys: KeySet) -> dict[str, Any]:
    if len(token) > MAX_BYTES or not token.isascii():
        raise IdTokenError("not a token")
    try:
        signed = jws.extract_compact(token.encode("ascii"))
        header = signed.headers()
    except (JoseError, ValueError, TypeError, AttributeError, RecursionError):
        raise IdTokenError("not a token") from None
    algorithm, kid = header.get("alg"), header.get("kid")
    if algorithm not in ALGORITHMS:
        raise IdTokenError("alg is not an asymmetric one that is taken")
    if "crit" in header or "b64" in header:
        raise IdTokenError("the header asks for extensions")
    kind = "OKP" if algorithm.startswith("Ed") else _KEY_TYPES[algorithm[0]]
    candidates = [
        key
        for key in keys.keys
        if key.key_type == kind and (kid is None or key.kid == kid) and key.get("use") in (None, "sig")
    ]
    if not candidates:
        raise IdTokenError("no key of the provider is the one of the token", unknown_key=True)
    for key in candidates[:10]:
        try:
            genuine = jws.validate_compact(signed, key, algorithms=[algorithm])
        except (JoseError, ValueError):
            genuine = False
        if genuine:
            break
    else:
        raise IdTokenError("the signature is not the provider's", unknown_key=kid is None)
    try:
        claims = json.loads(signed.payload)
    except (ValueError, RecursionError):
        claims = None
    if not isinstance(claims, dict):
        raise IdTokenError("not a token")
    return claims


def _seconds(claims: Mapping[str, Any], name: str) -> float:
    at = claims.get(name)
    if isinstance(at, bool) or not isinstance(at, int | float):
        raise IdTokenError(f"{name} is no time")
    return at
