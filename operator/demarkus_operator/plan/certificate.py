"""A World's certificate: when another one is due, and that all authorities that are trusted stand beside it."""

from __future__ import annotations

import base64
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime

from cryptography import x509
from cryptography.exceptions import InvalidSignature

from demarkus_operator.api.conditions import Reason
from demarkus_operator.api.trust import IssuerRef
from demarkus_operator.plan import secret_data
from demarkus_operator.plan.objects import Change, Manifest, Ref
from demarkus_operator.plan.recipes import ServerCertificate
from demarkus_operator.plan.refusal import Refusal
from demarkus_operator.plan.workload import Finding


@dataclass(frozen=True, slots=True, kw_only=True)
class Leaf:
    """A server certificate as far as it decides whether it is good enough."""

    names: frozenset[str]
    issuer: str
    due: datetime


def change(
    secret: Manifest, trusted: secret_data.Authorities, *, common_name: str, names: Sequence[str], now: datetime
) -> Change | None:
    """What has to become of the Secret: a new certificate at two thirds of the old one's life, for other names, of
    another authority, or for one that can't be read; else at most another list of authorities.
    """
    ref, version = Ref.of(secret), secret["metadata"].get("resourceVersion", "")
    leaf = leaf_of(secret, trusted)
    why = _why(leaf, trusted, names, now)
    if why:
        recipe = ServerCertificate(
            common_name=common_name,
            names=tuple(names),
            ca_certificate=trusted.certificates[trusted.active],
            ca_key=trusted.key,
            bundle=trusted.bundle,
        )
        return Change(ref=ref, resource_version=version, recipe=recipe, why=f"a new certificate: {why}")
    bundle = base64.b64encode(trusted.bundle).decode()
    if (secret.get("data") or {}).get("ca.crt") == bundle:
        return None
    return Change(
        ref=ref, resource_version=version, patch={"data": {"ca.crt": bundle}}, why="the authorities that are trusted"
    )


def leaf_of(secret: Manifest, trusted: secret_data.Authorities) -> Leaf | None:
    """The certificate in a Secret; None if it can't be read, or none of the trusted authorities signed it."""
    try:
        certificate = x509.load_pem_x509_certificate(secret_data.field(secret, "tls.crt"))
        found = certificate.extensions.get_extension_for_class(x509.SubjectAlternativeName).value
        secret_data.field(secret, "tls.key")
    except (ValueError, x509.ExtensionNotFound, Refusal):
        return None
    begin, end = certificate.not_valid_before_utc, certificate.not_valid_after_utc
    for kid, pem in trusted.certificates.items():
        try:
            certificate.verify_directly_issued_by(x509.load_pem_x509_certificate(pem))
        except (InvalidSignature, ValueError, TypeError):
            continue
        names = {*found.get_values_for_type(x509.DNSName), *map(str, found.get_values_for_type(x509.IPAddress))}
        return Leaf(names=frozenset(names), issuer=kid, due=begin + (end - begin) * 2 / 3)
    return None


def issuer_findings(field: str, issuer: IssuerRef | None) -> tuple[Finding, ...]:
    """That an issuer of cert-manager is named in a field of the spec, and is not used."""
    if issuer is None:
        return ()
    message = f"{field}: {issuer.kind or 'Issuer'} {issuer.name} of cert-manager is not used; take {field} away"
    return ((Reason.ISSUER_UNAVAILABLE, message),)


def _why(leaf: Leaf | None, trusted: secret_data.Authorities, names: Sequence[str], now: datetime) -> str:
    if leaf is None:
        return "there is none of this authority"
    if leaf.issuer != trusted.active:
        return "another authority signs"
    if leaf.names != frozenset(names):
        return "it is for other names"
    return "two thirds of its life are over" if now >= leaf.due else ""
