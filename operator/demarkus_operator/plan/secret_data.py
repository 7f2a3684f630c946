"""Reading Secrets and the keys in them: whatever is not as it was made is a refusal that names the Secret."""

from __future__ import annotations

import base64
import binascii
import dataclasses
import json
import re
from collections.abc import Mapping
from dataclasses import dataclass

from cryptography import x509
from cryptography.hazmat.primitives.asymmetric.ec import EllipticCurvePublicKey
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey, Ed25519PublicKey
from cryptography.hazmat.primitives.hashes import SHA256
from cryptography.hazmat.primitives.serialization import Encoding, load_pem_private_key

from demarkus_operator.api.conditions import Reason
from demarkus_operator.plan import labels
from demarkus_operator.plan.objects import Manifest, Observed, Ref
from demarkus_operator.plan.refusal import Refusal
from mark_protocol.grants import key_id

SIGNING = "signing.json"
"""Of a gateway's keys: which of them sign."""

ISSUERS = "issuer.crt"
"""Of an authority: the authorities of issuers of cert-manager that are trusted beside it."""

_IDENTIFIER = re.compile(rb"[0-9a-f]{32}")


def there(observed: Observed, ref: Ref) -> Manifest:
    """A Secret that was generated in an earlier round. Raises Refusal if it is gone."""
    found = observed.get(ref)
    if found is None:
        raise Refusal(Reason.MATERIAL_INVALID, f"{ref} is missing")
    return found


def field(secret: Manifest, key: str) -> bytes:
    """One field of a Secret. Raises Refusal if it is missing or not base64."""
    try:
        return base64.b64decode((secret.get("data") or {})[key], validate=True)
    except (KeyError, TypeError, binascii.Error):
        raise _invalid(secret, f"has no usable field {key}; restore the Secret") from None


def identifier(secret: Manifest, key: str) -> str:
    """A field that is 32 lower-case hex digits. Raises Refusal."""
    value = field(secret, key)
    if not _IDENTIFIER.fullmatch(value):
        raise _invalid(secret, f"field {key} is not 32 lower-case hex digits; restore the Secret")
    return value.decode()


def world_key(secret: Manifest) -> Ed25519PublicKey:
    """The public key of the key that a World signs with. Raises Refusal."""
    return _ed25519(secret, "world.key")


def operator_key(secret: Manifest) -> Ed25519PublicKey:
    """The public key of the key that the operator signs its calls with. Raises Refusal."""
    return _ed25519(secret, "operator.key")


def authority(secret: Manifest) -> tuple[bytes, bytes]:
    """Certificate and key of a certificate authority, in PEM. Raises Refusal if they can't be read."""
    certificate, key = field(secret, "ca.crt"), field(secret, "ca.key")
    try:
        x509.load_pem_x509_certificate(certificate)
        load_pem_private_key(key, password=None)
    except (ValueError, TypeError):
        raise _invalid(secret, "holds no readable certificate and key in ca.crt and ca.key; restore it") from None
    return certificate, key


@dataclass(frozen=True, slots=True, kw_only=True)
class Authorities:
    """The certificate authorities that are trusted at present.

    Attributes:
        certificates: by the identifiers of their keys, in PEM.
        active: which of them signs.
        key: its key, in PEM.
        places: field of the Secret (`ca`, `next`, `previous`) -> identifier.
        issuers: those of issuers of cert-manager, by their fingerprints, in PEM.
        known: which of the issuers' the gateway is known to trust.
    """

    certificates: Mapping[str, bytes]
    active: str
    key: bytes = dataclasses.field(repr=False)
    places: Mapping[str, str]
    issuers: Mapping[str, bytes] = dataclasses.field(default_factory=dict)
    known: frozenset[str] = frozenset()

    @property
    def bundle(self) -> bytes:
        """All of them, in an order that does not depend on their places."""
        found = {**self.certificates, **self.issuers}
        return b"".join(found[kid] for kid in sorted(found))


def authorities(secret: Manifest) -> Authorities:
    """The authorities in a Secret. Raises Refusal if they can't be read."""
    _, key = authority(secret)
    certificates, places = {}, {}
    for place in ("ca", "next", "previous"):
        if f"{place}.crt" in (secret.get("data") or {}):
            pem = field(secret, f"{place}.crt")
            kid = _issuer(secret, place, pem)
            certificates[kid], places[place] = pem, kid
    known = ((secret["metadata"].get("annotations") or {}).get(labels.TRUSTED_ISSUERS) or "").split(",")
    return Authorities(
        certificates=certificates,
        active=places["ca"],
        key=key,
        places=places,
        issuers=certificates_in(secret, ISSUERS) if ISSUERS in (secret.get("data") or {}) else {},
        known=frozenset(known) - {""},
    )


def certificates_in(secret: Manifest, key: str) -> dict[str, bytes]:
    """The certificates in a field, by their fingerprints, in PEM. Raises Refusal if they can't be read."""
    try:
        found = x509.load_pem_x509_certificates(field(secret, key))
    except ValueError:
        raise _invalid(secret, f"holds no readable certificates in {key}; restore it") from None
    return {one.fingerprint(SHA256()).hex()[:32]: one.public_bytes(Encoding.PEM) for one in found}


def _issuer(secret: Manifest, place: str, pem: bytes) -> str:
    try:
        key = x509.load_pem_x509_certificate(pem).public_key()
    except ValueError:
        key = None
    if not isinstance(key, EllipticCurvePublicKey):
        raise _invalid(secret, f"holds no readable certificate in {place}.crt; restore it")
    return key_id(key)


def kids(secret: Manifest, kind: str) -> list[str]:
    """The identifiers of the keys `<kind>-<kid>.pem` in a Secret, sorted. Raises Refusal if there is none."""
    names = [name for name in secret.get("data") or {} if name.startswith(f"{kind}-") and name.endswith(".pem")]
    if not names:
        raise _invalid(secret, f"holds no {kind}-<kid>.pem; restore the Secret")
    return sorted(name.removeprefix(f"{kind}-").removesuffix(".pem") for name in names)


def signing_keys(secret: Manifest) -> dict[str, str]:
    """Which keys of a gateway sign: kind (`broker`, `grant`) -> kid. Raises Refusal if that can't be told.

    Where there is only one key of a kind, it need not be named.
    """
    try:
        named = dict(json.loads(field(secret, SIGNING))) if SIGNING in (secret.get("data") or {}) else {}
    except (ValueError, TypeError, RecursionError):
        raise _invalid(secret, f"field {SIGNING} is not a JSON object; restore the Secret") from None
    signing: dict[str, str] = {}
    for kind in ("broker", "grant"):
        there = kids(secret, kind)
        signing[kind] = str(named.get(kind, there[0] if len(there) == 1 else ""))
        if signing[kind] not in there:
            raise _invalid(secret, f"field {SIGNING} names none of the {kind} keys; restore the Secret")
    return signing


def grant_keys(secret: Manifest) -> list[Ed25519PublicKey]:
    """The public keys by which grants are verified, in the order of their names. Raises Refusal if there is none."""
    return [_ed25519(secret, f"grant-{kid}.pem") for kid in kids(secret, "grant")]


def _ed25519(secret: Manifest, name: str) -> Ed25519PublicKey:
    try:
        key = load_pem_private_key(field(secret, name), password=None)
    except (ValueError, TypeError):
        key = None
    if not isinstance(key, Ed25519PrivateKey):
        raise _invalid(secret, f"field {name} is not an Ed25519 key; restore the Secret")
    return key.public_key()


def _invalid(secret: Manifest, problem: str) -> Refusal:
    return Refusal(Reason.MATERIAL_INVALID, f"{Ref.of(secret)} {problem}")
