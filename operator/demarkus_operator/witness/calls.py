"""The signature under a call to a World's management port: a statement about this call alone, good for half a minute.

A compact JWS (RFC 7515), alg Ed25519, with the claims iat, exp, method, path (without its query) and world (the
history).
"""

from __future__ import annotations

import json

from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey
from joserfc import jws
from joserfc.jwk import OKPKey

from mark_protocol.grants import ALGORITHM, key_id

LIFE = 30
"""Seconds."""


def authorization(key: Ed25519PrivateKey, *, method: str, path: str, history: str, now: int) -> str:
    """The `Authorization` of a call; `now` in seconds since 1970."""
    claims = {"iat": now, "exp": now + LIFE, "method": method, "path": path, "world": history}
    header = {"alg": ALGORITHM, "kid": key_id(key.public_key())}
    text = jws.serialize_compact(header, json.dumps(claims), OKPKey.import_key(key), algorithms=[ALGORITHM])
    return f"Bearer {text}"
