"""Recipes of generated material: what the data of a Secret is to be made of.

A recipe is a value in a plan; `demarkus_operator.material` makes the data from it, with randomness and a clock.
"""

from __future__ import annotations

from dataclasses import dataclass, field


@dataclass(frozen=True, slots=True, kw_only=True)
class WorldIdentity:
    """`history` and `incarnation` (32 hex each) and `world.key` (Ed25519)."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Token:
    """`token`: the raw text of a capability token."""


@dataclass(frozen=True, slots=True, kw_only=True)
class CertificateAuthority:
    """`ca.crt` and `ca.key` (P-256); `common_name` is what the certificate says of itself, at most 64 characters."""

    common_name: str


@dataclass(frozen=True, slots=True, kw_only=True)
class ServerCertificate:
    """`tls.crt`, `tls.key` (P-256) and `ca.crt`: a certificate for `names`, which are DNS names or IP addresses."""

    common_name: str
    names: tuple[str, ...]
    ca_certificate: bytes
    ca_key: bytes = field(repr=False)


@dataclass(frozen=True, slots=True, kw_only=True)
class BrokerKeys:
    """`broker-<kid>.pem` (ES256), `grant-<kid>.pem` (Ed25519), `subject.key` and `cookie.key` (32 bytes as hex)."""


Recipe = WorldIdentity | Token | CertificateAuthority | ServerCertificate | BrokerKeys
