"""The certificate of a World from an issuer of cert-manager: of the one that its Universe names in `trust.issuerRef`,
or, without a Universe, the one in its own `expose.issuerRef`.
"""

from __future__ import annotations

import dataclasses
from datetime import datetime, timedelta

from demarkus_operator.api.conditions import Reason
from demarkus_operator.api.world import WorldSpec
from demarkus_operator.plan import issuance, secret_data
from demarkus_operator.plan.certificate import Leaf
from demarkus_operator.plan.children import world_secrets
from demarkus_operator.plan.home import Home
from demarkus_operator.plan.issuance import Issuance, Request
from demarkus_operator.plan.names import WorldNames
from demarkus_operator.plan.objects import Manifest, Observed, Ref
from demarkus_operator.plan.owner import Owner
from demarkus_operator.plan.rotation import Turned
from demarkus_operator.plan.site import Site
from demarkus_operator.plan.workload import Finding

LOOK_AGAIN = timedelta(seconds=30)
"""Until cert-manager is looked at again: of its objects nothing is heard."""

_OF_UNIVERSE, _OF_WORLD = "spec.trust.issuerRef of the Universe", "spec.expose.issuerRef"


def reads(world: Manifest, observed: Observed) -> tuple[Ref, ...]:
    """What has to be looked at besides, once the World's certificate was read."""
    names = WorldNames(world["metadata"]["namespace"], world["metadata"]["name"])
    return issuance.reads(observed.get(names.certificate), names.issued_certificate, names.issued)


def issuance_of(
    owner: Owner, names: WorldNames, spec: WorldSpec, home: Home, seen: Manifest, observed: Observed, site: Site
) -> Issuance:
    """How things stand; `seen` is the World's certificate. What a Universe said that is gone goes on holding."""
    in_universe = spec.universe_ref is not None
    own = issuance.named(spec.expose.issuer_ref if spec.expose else None)
    theirs = issuance.named(home.issuer) if home.is_told else issuance.noted(seen)
    found = issuance.issuance_of(
        owner,
        seen,
        Request(
            field=_OF_UNIVERSE if in_universe else _OF_WORLD,
            issuer=theirs if in_universe else own,
            certificate=names.issued_certificate,
            secret=names.issued,
            names=world_secrets.certificate_names(owner, spec, site),
        ),
        observed,
    )
    return dataclasses.replace(found, findings=(*found.findings, *_unused(spec)))


def trusted(known: secret_data.Authorities, spec: WorldSpec, found: Issuance) -> secret_data.Authorities:
    """Who may vouch for the certificate. Without a Universe there is no gateway that would have to learn of it."""
    if spec.universe_ref is not None or found.secret is None:
        return known
    issuers = secret_data.certificates_in(found.secret, "ca.crt")
    return dataclasses.replace(known, issuers=issuers, known=frozenset(issuers))


def turn(found: Issuance, issued: Leaf | None, known: secret_data.Authorities, now: datetime) -> Turned:
    """What is waited for until what came can be shown."""
    if found.secret is not None and (issued is None or issued.issuer not in known.known):
        return Turned(waits="the certificate that the issuer made is shown once the gateway trusts its authority")
    return Turned(until=now + LOOK_AGAIN if issued is None or now >= issued.due else None)


def _unused(spec: WorldSpec) -> tuple[Finding, ...]:
    if spec.universe_ref is None or spec.expose is None or spec.expose.issuer_ref is None:
        return ()
    message = (
        f"{_OF_WORLD} is not used in a Universe: a World shows one certificate for all its names, and the gateway has "
        "to trust it; name the issuer in spec.trust.issuerRef of the Universe, or take this one away"
    )
    return ((Reason.ISSUER_UNAVAILABLE, message),)
