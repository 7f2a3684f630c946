"""Certificates of listeners: loading PEM pairs, and making short-lived ones for development and tests."""

from __future__ import annotations

import ipaddress
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from pathlib import Path

from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec, ed25519, rsa
from cryptography.x509.oid import ExtendedKeyUsageOID, NameOID

from mark_protocol.transport.port import Certificate, TransportError

DEVELOPMENT_NAMES = ("localhost", "127.0.0.1", "::1")

PrivateKey = ec.EllipticCurvePrivateKey | ed25519.Ed25519PrivateKey | rsa.RSAPrivateKey


@dataclass(frozen=True, slots=True, kw_only=True)
class ParsedCertificate:
    """A certificate pair as objects: leaf, the rest of the chain, key, and the names that the leaf is for."""

    leaf: x509.Certificate
    rest: tuple[x509.Certificate, ...]
    key: PrivateKey
    names: frozenset[str]


def load(chain_file: str | Path, key_file: str | Path) -> Certificate:
    """Read a PEM chain and its key.

    Raises:
        TransportError: a file cannot be read, or the two are no pair; the text names the file.
    """
    contents = []
    for file in (chain_file, key_file):
        try:
            contents.append(Path(file).read_bytes())
        except OSError as error:
            raise TransportError(f"certificate file {file}: {error.strerror or error}") from error
    certificate = Certificate(name=str(chain_file), chain_pem=contents[0], key_pem=contents[1])
    parse(certificate)
    return certificate


def parse(certificate: Certificate) -> ParsedCertificate:
    """The objects of a pair, after the checks that a listener needs.

    Raises:
        TransportError: not PEM, no certificate in it, a kind of key that TLS 1.3 does not sign with, or a key that does
            not belong to the leaf. The text names the certificate, and quotes nothing of the key.
    """
    try:
        chain = x509.load_pem_x509_certificates(certificate.chain_pem)
    except ValueError as error:
        raise TransportError(f"certificate {certificate.name}: the chain is not PEM: {error}") from error
    try:
        key = serialization.load_pem_private_key(certificate.key_pem, password=None)
    except (ValueError, TypeError) as error:
        raise TransportError(f"certificate {certificate.name}: the key is not an unencrypted PEM key") from error
    if not isinstance(key, PrivateKey):
        raise TransportError(f"certificate {certificate.name}: the key is neither EC, Ed25519 nor RSA")
    if key.public_key() != chain[0].public_key():
        raise TransportError(f"certificate {certificate.name}: the key does not belong to the first certificate")
    return ParsedCertificate(leaf=chain[0], rest=tuple(chain[1:]), key=key, names=_names(chain[0]))


def _names(leaf: x509.Certificate) -> frozenset[str]:
    try:
        names = leaf.extensions.get_extension_for_class(x509.SubjectAlternativeName).value
    except x509.ExtensionNotFound:
        return frozenset()
    return frozenset(name.lower() for name in names.get_values_for_type(x509.DNSName))


def self_signed(
    *, now: datetime, names: Sequence[str] = DEVELOPMENT_NAMES, life: timedelta = timedelta(hours=24)
) -> Certificate:
    """A P-256 certificate that vouches for itself: for development, where clients pin it as their only root.

    `names` are DNS names and IP addresses; `now` is an aware time; valid from 5 minutes earlier, for clocks that lag.
    """
    key = ec.generate_private_key(ec.SECP256R1())
    subject = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, names[0])])
    leaf = (
        x509.CertificateBuilder()
        .subject_name(subject)
        .issuer_name(subject)
        .public_key(key.public_key())
        .serial_number(x509.random_serial_number())
        .not_valid_before(now - timedelta(minutes=5))
        .not_valid_after(now + life)
        .add_extension(x509.SubjectAlternativeName([_general_name(name) for name in names]), critical=False)
        .add_extension(x509.ExtendedKeyUsage([ExtendedKeyUsageOID.SERVER_AUTH]), critical=False)
        .sign(key, hashes.SHA256())
    )
    return Certificate(
        name="self-signed for " + ", ".join(names),
        chain_pem=leaf.public_bytes(serialization.Encoding.PEM),
        key_pem=key.private_bytes(
            serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8, serialization.NoEncryption()
        ),
    )


def _general_name(name: str) -> x509.GeneralName:
    try:
        return x509.IPAddress(ipaddress.ip_address(name))
    except ValueError:
        return x509.DNSName(name)
