"""A World's certificate: when another one is due, and that all authorities that are trusted stand beside it.

The authority of its Universe signs it, or its own. Where an issuer of cert-manager is asked, what that made is taken
over as soon as it is trusted; if no newer one comes, the authority steps in shortly before the end.
"""

from __future__ import annotations

import base64
import itertools
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime

from cryptography import x509
from cryptography.exceptions import InvalidSignature

from demarkus_operator.plan import secret_data
from demarkus_operator.plan.objects import Change, Manifest, Ref
from demarkus_operator.plan.recipes import ServerCertificate
from demarkus_operator.plan.refusal import Refusal


@dataclass(frozen=True, slots=True, kw_only=True)
class Leaf:
    """A server certificate as far as it decides whether it is good enough.

    Attributes:
        names: the names and addresses that it is for.
        issuer: whose it is: the key of an authority, or the fingerprint of an issuer's.
        due: when the next one should be made, `last` when somebody else has to make it.
        data: certificate and key, as they stand in a Secret.
    """

    names: frozenset[str]
    issuer: str
    due: datetime
    last: datetime
    data: Mapping[str, str] = field(repr=False)


def change(
    secret: Manifest,
    trusted: secret_data.Authorities,
    *,
    common_name: str,
    names: Sequence[str],
    now: datetime,
    asked: bool = False,
    issued: Leaf | None = None,
) -> Change | None:
    """What has to become of the Secret: a new certificate at two thirds of the old one's life, for other names, of
    another authority, or for one that can't be read; else at most another list of authorities.

    `asked` is whether an issuer of cert-manager should sign, `issued` what it made.
    """
    ref, version = Ref.of(secret), secret["metadata"].get("resourceVersion", "")
    leaf = leaf_of(secret, trusted)
    bundle = base64.b64encode(trusted.bundle).decode()
    if asked and issued is not None and issued.issuer in trusted.known and _holds(issued, trusted, names, now):
        if leaf is None or leaf.data != issued.data:
            patch = {"data": {**issued.data, "ca.crt": bundle}}
            return Change(ref=ref, resource_version=version, patch=patch, why="a new certificate: its issuer made one")
    elif not (asked and _holds(leaf, trusted, names, now)) and (why := _why(leaf, trusted, names, now)):
        recipe = ServerCertificate(
            common_name=common_name,
            names=tuple(names),
            ca_certificate=trusted.certificates[trusted.active],
            ca_key=trusted.key,
            bundle=trusted.bundle,
        )
        return Change(ref=ref, resource_version=version, recipe=recipe, why=f"a new certificate: {why}")
    if (secret.get("data") or {}).get("ca.crt") == bundle:
        return None
    return Change(
        ref=ref, resource_version=version, patch={"data": {"ca.crt": bundle}}, why="the authorities that are trusted"
    )


def leaf_of(secret: Manifest, trusted: secret_data.Authorities) -> Leaf | None:
    """The certificate in a Secret; None if it can't be read, or none of the trusted authorities vouches for it."""
    try:
        chain = x509.load_pem_x509_certificates(secret_data.field(secret, "tls.crt"))
        certificate = chain[0]
        found = certificate.extensions.get_extension_for_class(x509.SubjectAlternativeName).value
        secret_data.field(secret, "tls.key")
    except (ValueError, x509.ExtensionNotFound, Refusal):
        return None
    if not all(_signed(one, by) for one, by in itertools.pairwise(chain)):
        return None
    begin, end = certificate.not_valid_before_utc, certificate.not_valid_after_utc
    for kid, pem in {**trusted.certificates, **trusted.issuers}.items():
        authority = x509.load_pem_x509_certificate(pem)
        if chain[-1] == authority or _signed(chain[-1], authority):
            names = {*found.get_values_for_type(x509.DNSName), *map(str, found.get_values_for_type(x509.IPAddress))}
            return Leaf(
                names=frozenset(names),
                issuer=kid,
                due=begin + (end - begin) * 2 / 3,
                last=begin + (end - begin) * 19 / 20,
                data={key: secret["data"][key] for key in ("tls.crt", "tls.key")},
            )
    return None


def _signed(certificate: x509.Certificate, authority: x509.Certificate) -> bool:
    try:
        certificate.verify_directly_issued_by(authority)
    except (InvalidSignature, ValueError, TypeError):
        return False
    return True


def _holds(leaf: Leaf | None, trusted: secret_data.Authorities, names: Sequence[str], now: datetime) -> bool:
    """Whether an issuer's certificate is good enough."""
    return leaf is not None and leaf.issuer in trusted.issuers and leaf.names >= frozenset(names) and now < leaf.last


def _why(leaf: Leaf | None, trusted: secret_data.Authorities, names: Sequence[str], now: datetime) -> str:
    if leaf is None:
        return "there is none of this authority"
    if leaf.issuer != trusted.active:
        return "another authority signs"
    if leaf.names != frozenset(names):
        return "it is for other names"
    return "two thirds of its life are over" if now >= leaf.due else ""
