"""Grants: short-lived, signed statements of what a person may do in one world, and the key sets they are checked with.

A grant is a compact JWS (RFC 7515) signed with Ed25519 (RFC 8037, RFC 9864), sent as the `auth` of a request in place
of a capability token. A world knows the public keys from a JWKS file (RFC 7517) and asks nobody else.

Source: design, data path and authority; fixed names and formats, grant.
"""

import base64
import hashlib
import json
import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any

from cryptography.hazmat.primitives.asymmetric.ec import EllipticCurvePublicKey
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey, Ed25519PublicKey
from cryptography.hazmat.primitives.serialization import Encoding, PublicFormat
from joserfc import jws
from joserfc.errors import JoseError
from joserfc.jwk import ECKey, OKPKey

from mark_protocol import patterns

ALGORITHM = "Ed25519"
TYPE = "mark-grant"
MAX_LIFE = 300  # seconds
CLOCK_SKEW = 30  # seconds that an issuer's clock may run ahead

_MAX_LENGTH = 16_384
_SUBJECT = re.compile(r"s-[0-9a-f]{32}")


class GrantError(Exception):
    """A grant that allows nothing. The message says why and never holds the grant or a part of it."""


class KeySetError(Exception):
    """A key set file that cannot be used."""


@dataclass(frozen=True, slots=True)
class Allow:
    """Operations that are allowed on every path that one of the patterns matches."""

    operations: frozenset[str]
    paths: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class Grant:
    """All that a subject may do in one world.

    `audience` is `<history>/<incarnation>` of the world, `issued_at` and `expires_at` are seconds since 1970, `kid`
    names the key it is signed with, `user` is the person's e-mail address where it is known.
    """

    issuer: str
    audience: str
    subject: str
    user: str | None
    allow: tuple[Allow, ...]
    issued_at: int
    expires_at: int
    kid: str

    def permits(self, operation: str, path: str) -> bool:
        """Whether one of the entries has the operation and a pattern for the path."""
        return any(
            operation in entry.operations and any(patterns.matches(pattern, path) for pattern in entry.paths)
            for entry in self.allow
        )


def looks_like_grant(auth: str) -> bool:
    """Whether a request's `auth` is a grant; anything else is a capability token."""
    return auth.startswith("eyJ") and auth.count(".") == 2


def key_id(public_key: Ed25519PublicKey | EllipticCurvePublicKey) -> str:
    """The name of a key: the first 8 bytes of the SHA-256 of its SubjectPublicKeyInfo, base64url."""
    spki = public_key.public_bytes(Encoding.DER, PublicFormat.SubjectPublicKeyInfo)
    return base64.urlsafe_b64encode(hashlib.sha256(spki).digest()[:8]).decode().rstrip("=")


def public_jwks(keys: Iterable[Ed25519PublicKey | EllipticCurvePublicKey]) -> dict[str, Any]:
    """The key set of public keys as JSON data, in the order of their names."""
    entries = []
    for key in sorted(keys, key=key_id):
        pem = key.public_bytes(Encoding.PEM, PublicFormat.SubjectPublicKeyInfo)
        if isinstance(key, Ed25519PublicKey):
            entries.append({**OKPKey.import_key(pem).as_dict(private=False), "alg": ALGORITHM})
        else:
            entries.append({**ECKey.import_key(pem).as_dict(private=False), "alg": "ES256"})
        entries[-1].update(kid=key_id(key), use="sig")
    return {"keys": entries}


class KeySet:
    """The public keys that grants may be signed with, by name."""

    def __init__(self, keys: Mapping[str, OKPKey] | None = None) -> None:
        self._keys = dict(keys or {})

    @classmethod
    def from_jwks(cls, data: bytes) -> "KeySet":
        """The Ed25519 keys of a JWKS file; keys of other kinds are passed over. Raises KeySetError."""
        try:
            document = json.loads(data)
            entries = document["keys"]
        except (ValueError, KeyError, TypeError, RecursionError):
            raise KeySetError('a key set is a JSON object with a list "keys"') from None
        if not isinstance(entries, list):
            raise KeySetError('a key set is a JSON object with a list "keys"')
        keys: dict[str, OKPKey] = {}
        for index, entry in enumerate(entries):
            where = f"key {index + 1} of the key set"
            if not isinstance(entry, dict):
                raise KeySetError(f"{where} is not an object")
            if "d" in entry or "k" in entry:
                raise KeySetError(f"{where} is a secret key: only public keys belong here")
            if entry.get("kty") != "OKP" or entry.get("crv") != ALGORITHM:
                continue
            kid = entry.get("kid")
            if not isinstance(kid, str) or not kid or kid in keys:
                raise KeySetError(f"{where} needs a kid that no other key has")
            try:
                keys[kid] = OKPKey.import_key({"kty": "OKP", "crv": ALGORITHM, "x": entry["x"]})
                keys[kid].raw_value  # noqa: B018 -- decodes the key, and so checks it
            except (JoseError, ValueError, KeyError, TypeError):
                raise KeySetError(f"{where} is not a valid Ed25519 public key") from None
        return cls(keys)

    @property
    def key_ids(self) -> tuple[str, ...]:
        """The names of the keys, sorted."""
        return tuple(sorted(self._keys))

    def get(self, kid: str) -> OKPKey | None:
        """The key of that name."""
        return self._keys.get(kid)


def sign_grant(grant: Grant, private_key: Ed25519PrivateKey) -> str:
    """The grant as it is sent. Raises ValueError where its `kid` is not the key's."""
    if grant.kid != key_id(private_key.public_key()):
        raise ValueError("the grant names another key than the one it is to be signed with")
    claims: dict[str, Any] = {
        "iss": grant.issuer,
        "aud": grant.audience,
        "sub": grant.subject,
        "allow": [{"operations": sorted(entry.operations), "paths": list(entry.paths)} for entry in grant.allow],
        "iat": grant.issued_at,
        "exp": grant.expires_at,
    }
    if grant.user is not None:
        claims["user"] = grant.user
    key = OKPKey.import_key(private_key)
    header = {"alg": ALGORITHM, "kid": grant.kid, "typ": TYPE}
    payload = json.dumps(claims, separators=(",", ":"), sort_keys=True)
    return jws.serialize_compact(header, payload, key, algorithms=[ALGORITHM])


def verify_grant(text: str, keys: KeySet, *, audience: str, now: int, not_before: int | None = None) -> Grant:
    """The grant in a request's `auth`, checked in every respect that does not depend on the request.

    `audience` is the world's `<history>/<incarnation>`; `now` and `not_before` are seconds since 1970, and grants
    issued before `not_before` are void. Raises GrantError.
    """
    if len(text) > _MAX_LENGTH:
        raise GrantError(f"the grant is longer than {_MAX_LENGTH} characters")
    try:
        header = jws.extract_compact(text.encode("ascii")).headers()
    except (JoseError, ValueError, TypeError, RecursionError):
        raise GrantError("the grant is not a compact JWS") from None
    if header.get("alg") != ALGORITHM or header.get("typ") != TYPE or header.keys() != {"alg", "kid", "typ"}:
        raise GrantError(f"the grant's header is not alg {ALGORITHM}, typ {TYPE} and a kid")
    kid = header["kid"]
    key = keys.get(kid) if isinstance(kid, str) else None
    if key is None:
        raise GrantError("the grant is signed with a key that is not in the key set")
    try:
        payload = jws.deserialize_compact(text, key, algorithms=[ALGORITHM]).payload
    except (JoseError, ValueError):
        raise GrantError("the grant's signature does not fit") from None
    try:
        claims = json.loads(payload)
        grant = _from_claims(claims, kid)
    except (ValueError, KeyError, TypeError, AttributeError, RecursionError, patterns.PatternError):
        raise GrantError("the grant's claims are not those of a grant") from None
    if grant.audience != audience:
        raise GrantError("the grant is for another world or another incarnation of this one")
    if not 0 < grant.expires_at - grant.issued_at <= MAX_LIFE:
        raise GrantError(f"the grant's life is not between 1 and {MAX_LIFE} seconds")
    if grant.issued_at > now + CLOCK_SKEW:
        raise GrantError("the grant is from the future: the clocks of issuer and world differ")
    if now >= grant.expires_at:
        raise GrantError("the grant has expired")
    if not_before is not None and grant.issued_at < not_before:
        raise GrantError("the grant was issued before grants of that age were revoked")
    return grant


def _from_claims(claims: dict[str, Any], kid: str) -> Grant:
    issuer, audience, subject, user = claims["iss"], claims["aud"], claims["sub"], claims.get("user")
    issued_at, expires_at = claims["iat"], claims["exp"]
    texts = [issuer, audience, subject] if user is None else [issuer, audience, subject, user]
    if not all(type(text) is str for text in texts) or not _SUBJECT.fullmatch(subject):
        raise ValueError("a text claim")
    if type(issued_at) is not int or type(expires_at) is not int:
        raise ValueError("a time claim")
    allow: list[Allow] = []
    for entry in claims["allow"]:
        operations, paths = entry["operations"], entry["paths"]
        if type(operations) is not list or type(paths) is not list:
            raise ValueError("an entry of allow")
        if not all(type(text) is str for text in [*operations, *paths]):
            raise ValueError("an entry of allow")
        for path in paths:
            patterns.check_pattern(path)
        allow.append(Allow(frozenset(operations), tuple(paths)))
    return Grant(issuer, audience, subject, user, tuple(allow), issued_at, expires_at, kid)
