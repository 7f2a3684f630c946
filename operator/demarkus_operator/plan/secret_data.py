"""Reading Secrets and the keys in them: whatever is not as it was made is a refusal that names the Secret."""

from __future__ import annotations

import base64
import binascii
import re
from datetime import datetime

from cryptography import x509
from cryptography.exceptions import InvalidSignature
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey, Ed25519PublicKey
from cryptography.hazmat.primitives.serialization import load_pem_private_key

from demarkus_operator.api.conditions import Reason
from demarkus_operator.plan.objects import Manifest, Ref
from demarkus_operator.plan.refusal import Refusal

_IDENTIFIER = re.compile(rb"[0-9a-f]{32}")


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


def authority(secret: Manifest) -> tuple[bytes, bytes]:
    """Certificate and key of a certificate authority, in PEM. Raises Refusal if they can't be read."""
    certificate, key = field(secret, "ca.crt"), field(secret, "ca.key")
    try:
        x509.load_pem_x509_certificate(certificate)
        load_pem_private_key(key, password=None)
    except (ValueError, TypeError):
        raise _invalid(secret, "holds no readable certificate and key in ca.crt and ca.key; restore it") from None
    return certificate, key


def check_certificate(secret: Manifest, ca_certificate: bytes, now: datetime) -> None:
    """Refuses a server certificate that clients would refuse: another authority's, or one that has ended."""
    anew = "delete the Secret and a certificate is made anew"
    try:
        certificate = x509.load_pem_x509_certificate(field(secret, "tls.crt"))
        certificate.verify_directly_issued_by(x509.load_pem_x509_certificate(ca_certificate))
    except InvalidSignature:
        raise _invalid(secret, f"holds a certificate of another authority; {anew}") from None
    except (ValueError, TypeError):
        raise _invalid(secret, f"holds no certificate of this authority in tls.crt; {anew}") from None
    if certificate.not_valid_after_utc <= now:
        ended = certificate.not_valid_after_utc.isoformat()
        raise _invalid(secret, f"holds a certificate that ended at {ended}; {anew}")


def grant_keys(secret: Manifest) -> list[Ed25519PublicKey]:
    """The public keys by which grants are verified, in the order of their names. Raises Refusal if there is none."""
    keys = []
    for name in sorted(secret.get("data") or {}):
        if not (name.startswith("grant-") and name.endswith(".pem")):
            continue
        try:
            key = load_pem_private_key(field(secret, name), password=None)
        except (ValueError, TypeError):
            key = None
        if not isinstance(key, Ed25519PrivateKey):
            raise _invalid(secret, f"field {name} is not an Ed25519 key; restore the Secret")
        keys.append(key.public_key())
    if not keys:
        raise _invalid(secret, "holds no grant-<kid>.pem; restore the Secret")
    return keys


def _invalid(secret: Manifest, problem: str) -> Refusal:
    return Refusal(Reason.MATERIAL_INVALID, f"{Ref.of(secret)} {problem}")
