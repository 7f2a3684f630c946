"""Certificates from an issuer of cert-manager: what is asked for, and what came of it.

cert-manager writes into a Secret of its own, and pods never read that one: what came is taken over from there once
everybody who checks trusts the issuer. So nothing stops while it is waited for, or while there is no cert-manager.
What was asked for is noted on the Secret that it is for, so that it can be taken back when it is not wanted any more.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any

from demarkus_operator.api.conditions import Reason
from demarkus_operator.api.trust import IssuerRef
from demarkus_operator.plan import labels, secret_data
from demarkus_operator.plan.children import issued_certificate
from demarkus_operator.plan.objects import Attempt, Change, Manifest, Observed, Ref, Remove
from demarkus_operator.plan.owner import Owner
from demarkus_operator.plan.refusal import Refusal
from demarkus_operator.plan.workload import Finding

GROUP = "cert-manager.io"


@dataclass(frozen=True, slots=True, kw_only=True)
class Request:
    """What is asked for.

    Attributes:
        field: where the spec names the issuer, for people.
        issuer: the issuer as a Certificate names it; None if none is wanted.
        certificate: the name of the Certificate, `secret` that of its Secret.
        names: the names and addresses that it is for.
        duration: how long it holds, in cert-manager's spelling; `renew_before` its end it is renewed.
    """

    field: str
    issuer: Mapping[str, str] | None
    certificate: Ref
    secret: Ref
    names: tuple[str, ...]
    duration: str = "2160h0m0s"
    renew_before: str = "720h0m0s"


@dataclass(frozen=True, slots=True, kw_only=True)
class Issuance:
    """What came of it, and what is to be done for it.

    Attributes:
        asked: whether an issuer is wanted.
        secret: what cert-manager wrote, if it is whole: `tls.crt`, `tls.key`, `ca.crt`.
        change: what has to be done first.
        attempts: the Certificate, as far as the cluster knows that kind.
        remove: what is not wanted any more.
        findings: why there is no certificate, or no newer one.
    """

    asked: bool = False
    secret: Manifest | None = None
    change: tuple[Change, ...] = ()
    attempts: tuple[Attempt, ...] = ()
    remove: tuple[Remove, ...] = ()
    findings: tuple[Finding, ...] = ()


def named(issuer: IssuerRef | None) -> dict[str, str] | None:
    """An issuer as a Certificate names it."""
    if issuer is None:
        return None
    return {"group": issuer.group or GROUP, "kind": issuer.kind or "Issuer", "name": issuer.name}


def noted(secret: Manifest | None) -> dict[str, str] | None:
    """The issuer that was last asked for what this Secret is for."""
    text = ((secret or {}).get("metadata", {}).get("annotations") or {}).get(labels.ISSUER)
    try:
        found = None if text is None else dict(json.loads(text))
    except (ValueError, TypeError, RecursionError):
        return {}  # somebody edited it: another one than any
    return found


def reads(secret: Manifest | None, certificate: Ref, issued: Ref) -> tuple[Ref, ...]:
    """What has to be looked at besides, once it is known that an issuer was asked."""
    return () if noted(secret) is None else (certificate, issued)


def issuance_of(owner: Owner, secret: Manifest, request: Request, observed: Observed) -> Issuance:
    """How things stand; `secret` is what the certificate is for. Raises Refusal if a name is somebody else's."""
    certificate, issued = observed.get(request.certificate), observed.get(request.secret)
    before = noted(secret)
    if request.issuer is None:
        if before is None:
            return Issuance()
        remove = tuple(_ours(owner, (certificate, issued)))
        return Issuance(remove=remove, change=() if remove else (_note(secret, None),))
    if before != request.issuer:
        return Issuance(asked=True, change=(_note(secret, request.issuer),))
    owner.claim_names((request.certificate, request.secret), observed)
    manifest = issued_certificate.certificate(
        owner,
        request.certificate,
        secret=request.secret,
        names=request.names,
        issuer=request.issuer,
        duration=request.duration,
        renew_before=request.renew_before,
    )
    issuer = f"{request.field}: {request.issuer['kind']} {request.issuer['name']} of cert-manager"
    whole, problem = _whole(issued)
    told = _told(certificate) or problem if certificate is not None else ""
    return Issuance(
        asked=True,
        secret=issued if whole else None,
        change=tuple(_goes_along(owner, issued)),
        attempts=(Attempt(manifest=manifest, reason=Reason.ISSUER_UNAVAILABLE, help=f"{issuer} can't be asked"),),
        findings=((Reason.ISSUER_UNAVAILABLE, f"{issuer}: {told}"),) if told else (),
    )


def _note(secret: Manifest, issuer: Mapping[str, str] | None) -> Change:
    text = None if issuer is None else json.dumps(issuer, sort_keys=True, separators=(",", ":"))
    return Change(
        ref=Ref.of(secret),
        resource_version=secret["metadata"].get("resourceVersion", ""),
        patch={"metadata": {"annotations": {labels.ISSUER: text}}},
        why="no issuer is asked any more" if issuer is None else f"{issuer['kind']} {issuer['name']} is asked",
    )


def _ours(owner: Owner, seen: Iterable[Manifest | None]) -> Iterable[Remove]:
    for one in seen:
        if one is not None and owner.has(one):
            yield Remove(ref=Ref.of(one), uid=one["metadata"]["uid"])


def _goes_along(owner: Owner, issued: Manifest | None) -> Iterable[Change]:
    """cert-manager leaves its Secrets behind; this one goes with its owner."""
    if issued is None:
        return
    there = list(issued["metadata"].get("ownerReferences") or ())
    if all(reference.get("uid") != owner.uid for reference in there):
        yield Change(
            ref=Ref.of(issued),
            resource_version=issued["metadata"].get("resourceVersion", ""),
            patch={"metadata": {"ownerReferences": [*there, owner.reference]}},
            why="goes with its owner",
        )


def _told(certificate: Manifest) -> str:
    """What cert-manager says of a Certificate that is not ready; empty for one that is."""
    conditions = (certificate.get("status") or {}).get("conditions") or ()
    ready: Mapping[str, Any] = next((one for one in conditions if one.get("type") == "Ready"), {})
    if ready.get("status") == "True":
        return ""
    return f"{Ref.of(certificate)}: {ready.get('message') or 'nothing was issued yet'}"


def _whole(issued: Manifest | None) -> tuple[bool, str]:
    """Whether all is there, and what is missing."""
    if issued is None:
        return False, "its Secret is not there yet"
    try:
        secret_data.field(issued, "tls.crt"), secret_data.field(issued, "tls.key")
        if secret_data.certificates_in(issued, "ca.crt"):
            return True, ""
    except Refusal as refusal:
        return False, refusal.message
    return False, f"{Ref.of(issued)} names no authority in ca.crt; take an issuer that tells its own"
