"""The issuer of cert-manager that a Universe names, and how its gateway comes to trust it.

The authority of the issuer is taken from a Certificate in the Universe's own namespace that nobody shows: it lasts a
week and is renewed every two days, so that another authority gets known long before the certificates of Worlds end. It
is not taken from what Worlds have: who writes Secrets beside one World could have all others' gateway trust anybody.

It is kept beside the Universe's own authority, where every World reads it, until no World shows what it signed.
"""

from __future__ import annotations

import base64
from collections.abc import Container, Iterable, Sequence
from datetime import datetime, timedelta

from demarkus_operator.api.universe import UniverseSpec
from demarkus_operator.plan import issuance, labels, secret_data
from demarkus_operator.plan.issuance import Issuance, Request
from demarkus_operator.plan.names import UniverseNames, world_server_name
from demarkus_operator.plan.objects import Change, Manifest, Observed, Ref
from demarkus_operator.plan.owner import Owner
from demarkus_operator.plan.rotation import Turned
from demarkus_operator.plan.site import Site

LOOK_AGAIN = timedelta(seconds=30)


def reads(universe: Manifest, observed: Observed, site: Site) -> tuple[Ref, ...]:
    """What has to be looked at besides, once the authority was read."""
    names = UniverseNames(universe["metadata"]["namespace"], universe["metadata"]["name"])
    return issuance.reads(
        observed.get(names.authority(site.operator_namespace)), names.issuer_certificate, names.issuer
    )


def issuance_of(
    owner: Owner, names: UniverseNames, spec: UniverseSpec, authority: Manifest, observed: Observed
) -> Issuance:
    """How things stand. Raises Refusal if a name is somebody else's."""
    return issuance.issuance_of(
        owner,
        authority,
        Request(
            field="spec.trust.issuerRef",
            issuer=issuance.named(spec.trust.issuer_ref if spec.trust else None),
            certificate=names.issuer_certificate,
            secret=names.issuer,
            names=(world_server_name(names.namespace, names.issuer.name),),
            duration="168h0m0s",
            renew_before="120h0m0s",
        ),
        observed,
    )


def turns(
    authority: Manifest, found: Issuance, *, shown: Container[str | None], in_force: bool, now: datetime
) -> Sequence[Turned]:
    """How far the gateway is. `shown` is whose certificates Worlds show, `in_force` whether all of the gateway's
    processes trust exactly those that are in `authority`.
    """
    trusted = secret_data.authorities(authority)
    current = {} if found.secret is None else secret_data.certificates_in(found.secret, "ca.crt")
    waiting = found.asked and found.secret is None
    kept = {kid: pem for kid, pem in trusted.issuers.items() if waiting or kid in shown}
    wanted = kept | current
    if wanted != trusted.issuers:
        pem = b"".join(wanted[kid] for kid in sorted(wanted))
        text = base64.b64encode(pem).decode() if wanted else None
        patch = {
            "data": {secret_data.ISSUERS: text},
            "metadata": {"annotations": {labels.TRUSTED_ISSUERS: _joined(trusted.known & wanted.keys())}},
        }
        return (Turned(change=_change(authority, patch, "the authorities of issuers")),)
    if trusted.known != trusted.issuers.keys():
        if not in_force:
            return (Turned(waits="the authority of the issuer is used once the gateway trusts it"),)
        patch = {"metadata": {"annotations": {labels.TRUSTED_ISSUERS: _joined(trusted.issuers.keys())}}}
        return (Turned(change=_change(authority, patch, "the gateway trusts the issuer")),)
    return (Turned(until=now + LOOK_AGAIN),) if waiting else ()


def _joined(kids: Iterable[str]) -> str | None:
    return ",".join(sorted(kids)) or None


def _change(authority: Manifest, patch: dict[str, object], why: str) -> Change:
    version = authority["metadata"].get("resourceVersion", "")
    return Change(ref=Ref.of(authority), resource_version=version, patch=patch, why=why)
