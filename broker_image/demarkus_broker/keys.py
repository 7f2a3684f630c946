"""The broker's keys: what signs and verifies bearers, what signs grants, what hides subjects, what seals cookies.

They lie as files in one directory, a mounted Secret: `broker-<kid>.pem` (ES256, P-256) and `grant-<kid>.pem` (Ed25519),
both PKCS #8, `subject.key` and `cookie.key` (32 bytes as hex). `<kid>` is the key's own identifier, so that a file
under a wrong name is found at once. While keys are exchanged there are two of a kind, and `signing.json` says which of
them signs: `{"broker": "<kid>", "grant": "<kid>"}`. Pure: `load` takes the files' bytes. Nothing in here shows private
material in a repr or message.
"""

from __future__ import annotations

import hashlib
import hmac
import json
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field

from cryptography.hazmat.primitives.asymmetric.ec import SECP256R1, EllipticCurvePrivateKey
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey
from cryptography.hazmat.primitives.serialization import load_pem_private_key
from joserfc.jwk import ECKey

from demarkus_base.settings import SettingsError
from mark_protocol.grants import key_id

SIGNING = "signing.json"

_SECRET_BYTES = 32


@dataclass(frozen=True, slots=True, kw_only=True)
class BearerKey:
    """What signs bearers."""

    kid: str
    private: ECKey = field(repr=False)


@dataclass(frozen=True, slots=True, kw_only=True)
class GrantKey:
    """What signs grants."""

    kid: str
    private: Ed25519PrivateKey = field(repr=False)


@dataclass(frozen=True, slots=True, kw_only=True)
class Keys:
    """All keys of one moment.

    Attributes:
        bearers: kid -> public key that verifies bearers. Several while keys are exchanged.
        bearer: signs bearers; its public key is among `bearers`.
        grant: signs grants.
        subject: turns a subject into its label.
        cookie: seals what browsers keep for the gateway while somebody signs in.
    """

    bearers: Mapping[str, ECKey] = field(repr=False)
    bearer: BearerKey
    grant: GrantKey
    subject: bytes = field(repr=False)
    cookie: bytes = field(repr=False)

    def label(self, issuer: str, subject: str) -> str:
        """The label under which worlds, logs and metrics know a subject: `s-` and 32 hex, the same at every replica."""
        mac = hmac.new(self.subject, f"{issuer}\n{subject}".encode(), hashlib.sha256)
        return f"s-{mac.hexdigest()[:32]}"


def load(files: Mapping[str, bytes], *, source: str) -> Keys:
    """Read a keys directory given as file name -> content. `source` names it in messages. Raises SettingsError.

    Other files (what a mount brings along) are left alone. `signing.json` may be missing only where there
    is one key of each kind.
    """
    bearers: dict[str, ECKey] = {}
    signers: dict[str, BearerKey] = {}
    grants: dict[str, GrantKey] = {}
    for name in sorted(files):
        kind, dash, rest = name.partition("-")
        if not (dash and rest.endswith(".pem") and kind in ("broker", "grant")):
            continue
        kid = rest.removesuffix(".pem")
        private = _private_key(files[name], name, source)
        if kind == "broker":
            if not isinstance(private, EllipticCurvePrivateKey) or not isinstance(private.curve, SECP256R1):
                raise SettingsError(f"{source}: {name}: expected a P-256 key (ES256)")
            bearers[kid] = ECKey.import_key(private.public_key())
            signers[kid] = BearerKey(kid=kid, private=ECKey.import_key(private))
        else:
            if not isinstance(private, Ed25519PrivateKey):
                raise SettingsError(f"{source}: {name}: expected an Ed25519 key")
            grants[kid] = GrantKey(kid=kid, private=private)
        if key_id(private.public_key()) != kid:
            raise SettingsError(f"{source}: {name}: the name does not carry this key's identifier")
    if not bearers:
        raise SettingsError(f"{source}: no broker-<kid>.pem; bearers can't be verified without one")
    if not grants:
        raise SettingsError(f"{source}: no grant-<kid>.pem; worlds can't be reached without one")
    signing = _signing(files.get(SIGNING), source)
    return Keys(
        bearers=bearers,
        bearer=signers[_signer(signing, "broker", signers, source)],
        grant=grants[_signer(signing, "grant", grants, source)],
        subject=_secret(files, "subject.key", source),
        cookie=_secret(files, "cookie.key", source),
    )


def _signing(text: bytes | None, source: str) -> Mapping[str, str]:
    if text is None:
        return {}
    try:
        named = json.loads(text)
    except (ValueError, RecursionError):
        named = None
    if not isinstance(named, dict) or not all(isinstance(kid, str) for kid in named.values()):
        raise SettingsError(f'{source}: {SIGNING}: expected {{"broker": "<kid>", "grant": "<kid>"}}')
    return named


def _signer(signing: Mapping[str, str], kind: str, kids: Iterable[str], source: str) -> str:
    """The key of a kind that signs: the one that is named, or the only one. Raises SettingsError."""
    there = list(kids)
    kid = signing.get(kind, there[0] if len(there) == 1 else None)
    if kid is None:
        raise SettingsError(f"{source}: several {kind}-<kid>.pem; {SIGNING} has to say which of them signs")
    if kid not in there:
        raise SettingsError(f"{source}: {SIGNING}: there is no {kind}-{kid}.pem")
    return kid


def _private_key(pem: bytes, name: str, source: str) -> object:
    try:
        return load_pem_private_key(pem, password=None)
    except (ValueError, TypeError):
        raise SettingsError(f"{source}: {name}: expected a private key in PEM (PKCS #8) without a password") from None


def _secret(files: Mapping[str, bytes], name: str, source: str) -> bytes:
    text = files.get(name)
    if text is None:
        raise SettingsError(f"{source}: {name} is missing; expected 32 bytes as hex")
    try:
        key = bytes.fromhex(text.decode("ascii").strip())
    except ValueError:
        key = b""
    if len(key) != _SECRET_BYTES:
        raise SettingsError(f"{source}: {name}: expected 32 bytes as hex")
    return key
