"""Makes the data of generated Secrets from their recipes, with randomness and a clock that the caller brings.

Keys are derived from the given randomness, so equal input gives equal data, signatures included. Lifetimes:
authorities 10 years, because exchanging one means exchanging what every gateway and client trusts; server certificates
90 days. All begin five minutes before `now`, for clocks that are behind.
"""

from __future__ import annotations

import ipaddress
import json
from collections.abc import Callable
from datetime import datetime, timedelta

from cryptography import x509
from cryptography.hazmat.primitives.asymmetric.ec import SECP256R1, EllipticCurvePrivateKey, derive_private_key
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey
from cryptography.hazmat.primitives.hashes import SHA256
from cryptography.hazmat.primitives.serialization import (
    Encoding,
    NoEncryption,
    PrivateFormat,
    load_pem_private_key,
)
from cryptography.x509.oid import ExtendedKeyUsageOID, NameOID

from demarkus_operator.plan.recipes import (
    BrokerKey,
    BrokerKeys,
    CertificateAuthority,
    GrantKey,
    Incarnation,
    OperatorKey,
    Recipe,
    ServerCertificate,
    Token,
    WorldIdentity,
)
from mark_protocol.grants import key_id
from mark_protocol.tokens import new_token

Random = Callable[[int], bytes]
"""Gives that many random bytes, like `os.urandom`."""

AUTHORITY_LIFETIME = timedelta(days=3650)
SERVER_LIFETIME = timedelta(days=90)
_CLOCKS_BEHIND = timedelta(minutes=5)
_P256_ORDER = 0xFFFFFFFF00000000FFFFFFFFFFFFFFFFBCE6FAADA7179E84F3B9CAC2FC632551


def make(recipe: Recipe, *, random: Random, now: datetime) -> dict[str, bytes]:
    """The data of a Secret. `now` is in UTC."""
    match recipe:
        case WorldIdentity():
            return {
                "history": (recipe.history or random(16).hex()).encode(),
                "incarnation": random(16).hex().encode(),
                "world.key": _pem(_ed25519(random)),
            }
        case Incarnation():
            return {"incarnation": random(16).hex().encode()}
        case Token():
            return {recipe.field: new_token(random).encode()}
        case CertificateAuthority():
            return _authority(recipe, random, now)
        case ServerCertificate():
            return _server_certificate(recipe, random, now)
        case BrokerKeys():
            bearer, grant = _p256(random), _ed25519(random)
            signing = {"broker": key_id(bearer.public_key()), "grant": key_id(grant.public_key())}
            return {
                f"broker-{signing['broker']}.pem": _pem(bearer),
                f"grant-{signing['grant']}.pem": _pem(grant),
                "signing.json": json.dumps(signing, sort_keys=True).encode(),
                "subject.key": random(32).hex().encode(),
                "cookie.key": random(32).hex().encode(),
            }
        case BrokerKey():
            bearer = _p256(random)
            return {f"broker-{key_id(bearer.public_key())}.pem": _pem(bearer)}
        case GrantKey():
            grant = _ed25519(random)
            return {f"grant-{key_id(grant.public_key())}.pem": _pem(grant)}
        case OperatorKey():
            return {"operator.key": _pem(_ed25519(random))}


def _authority(recipe: CertificateAuthority, random: Random, now: datetime) -> dict[str, bytes]:
    key = _p256(random)
    name = _name(recipe.common_name)
    certificate = (
        _certificate(name, name, key, random, now, AUTHORITY_LIFETIME)
        .add_extension(x509.BasicConstraints(ca=True, path_length=0), critical=True)
        .add_extension(_usage(signs_certificates=True), critical=True)
        .sign(key, SHA256(), ecdsa_deterministic=True)
    )
    return {
        f"{recipe.prefix}.crt": certificate.public_bytes(Encoding.PEM),
        f"{recipe.prefix}.key": _pem(key),
    }


def _server_certificate(recipe: ServerCertificate, random: Random, now: datetime) -> dict[str, bytes]:
    authority = x509.load_pem_x509_certificate(recipe.ca_certificate)
    authority_key = load_pem_private_key(recipe.ca_key, password=None)
    if not isinstance(authority_key, EllipticCurvePrivateKey):
        raise TypeError("the authority's key is not an elliptic curve key")
    key = _p256(random)
    certificate = (
        _certificate(_name(recipe.common_name), authority.subject, key, random, now, SERVER_LIFETIME)
        .add_extension(x509.SubjectAlternativeName([_alternative(name) for name in recipe.names]), critical=False)
        .add_extension(x509.BasicConstraints(ca=False, path_length=None), critical=True)
        .add_extension(_usage(signs_certificates=False), critical=True)
        .add_extension(x509.ExtendedKeyUsage([ExtendedKeyUsageOID.SERVER_AUTH]), critical=False)
        .add_extension(x509.AuthorityKeyIdentifier.from_issuer_public_key(authority_key.public_key()), critical=False)
        .sign(authority_key, SHA256(), ecdsa_deterministic=True)
    )
    return {
        "tls.crt": certificate.public_bytes(Encoding.PEM),
        "tls.key": _pem(key),
        "ca.crt": recipe.bundle,
    }


def _certificate(
    subject: x509.Name,
    issuer: x509.Name,
    key: EllipticCurvePrivateKey,
    random: Random,
    now: datetime,
    lifetime: timedelta,
) -> x509.CertificateBuilder:
    begin = now.replace(microsecond=0) - _CLOCKS_BEHIND
    return (
        x509.CertificateBuilder()
        .subject_name(subject)
        .issuer_name(issuer)
        .public_key(key.public_key())
        # 19 bytes: a serial number is positive and has at most 20 bytes (RFC 5280, 4.1.2.2).
        .serial_number(int.from_bytes(random(19)) | 1)
        .not_valid_before(begin)
        .not_valid_after(begin + lifetime)
        .add_extension(x509.SubjectKeyIdentifier.from_public_key(key.public_key()), critical=False)
    )


def _name(common_name: str) -> x509.Name:
    return x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, common_name)])


def _alternative(name: str) -> x509.GeneralName:
    try:
        return x509.IPAddress(ipaddress.ip_address(name))
    except ValueError:
        return x509.DNSName(name)


def _usage(*, signs_certificates: bool) -> x509.KeyUsage:
    return x509.KeyUsage(
        digital_signature=not signs_certificates,
        content_commitment=False,
        key_encipherment=False,
        data_encipherment=False,
        key_agreement=False,
        key_cert_sign=signs_certificates,
        crl_sign=signs_certificates,
        encipher_only=False,
        decipher_only=False,
    )


def _p256(random: Random) -> EllipticCurvePrivateKey:
    """A P-256 key from 64 bits more than it has, so that no value is likelier than another (FIPS 186-5, A.2.1)."""
    return derive_private_key(int.from_bytes(random(40)) % (_P256_ORDER - 1) + 1, SECP256R1())


def _ed25519(random: Random) -> Ed25519PrivateKey:
    return Ed25519PrivateKey.from_private_bytes(random(32))


def _pem(key: EllipticCurvePrivateKey | Ed25519PrivateKey) -> bytes:
    return key.private_bytes(Encoding.PEM, PrivateFormat.PKCS8, NoEncryption())
