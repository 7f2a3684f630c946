"""Recipes of generated material: what the data of a Secret is to be made of.

A recipe is a value in a plan; `demarkus_operator.material` makes the data from it, with randomness and a clock.
"""

from __future__ import annotations

from dataclasses import dataclass, field


@dataclass(frozen=True, slots=True, kw_only=True)
class WorldIdentity:
    """`history` and `incarnation` (32 hex each) and `world.key` (Ed25519).

    With `history`, that one is taken over.
    """

    history: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Incarnation:
    """`incarnation` (32 hex): another life of a history that is known already."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Token:
    """The raw text of a capability token, as `field`."""

    field: str = "token"


@dataclass(frozen=True, slots=True, kw_only=True)
class CertificateAuthority:
    """`ca.crt` and `ca.key` (P-256); `common_name` is what the certificate says of itself, at most 64 characters.

    With another `prefix` than `ca`, the fields begin with that.
    """

    common_name: str
    prefix: str = "ca"


@dataclass(frozen=True, slots=True, kw_only=True)
class ServerCertificate:
    """`tls.crt`, `tls.key` (P-256) and `ca.crt`: a certificate for `names`, which are DNS names or IP addresses.

    `ca.crt` is the `bundle`: every authority that is trusted at present, not only the one that signs.
    """

    common_name: str
    names: tuple[str, ...]
    ca_certificate: bytes
    ca_key: bytes = field(repr=False)
    bundle: bytes


@dataclass(frozen=True, slots=True, kw_only=True)
class BrokerKeys:
    """`broker-<kid>.pem` (ES256), `grant-<kid>.pem` (Ed25519), `signing.json` that names both, `subject.key` and
    `cookie.key` (32 bytes as hex).
    """


@dataclass(frozen=True, slots=True, kw_only=True)
class BrokerKey:
    """`broker-<kid>.pem`: one more key for bearers."""


@dataclass(frozen=True, slots=True, kw_only=True)
class GrantKey:
    """`grant-<kid>.pem`: one more key for grants."""


@dataclass(frozen=True, slots=True, kw_only=True)
class OperatorKey:
    """`operator.key` (Ed25519): what the operator signs its calls to worlds with."""


Recipe = (
    WorldIdentity
    | Incarnation
    | Token
    | CertificateAuthority
    | ServerCertificate
    | BrokerKeys
    | BrokerKey
    | GrantKey
    | OperatorKey
)
