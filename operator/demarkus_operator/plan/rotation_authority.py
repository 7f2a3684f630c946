"""A Universe's certificate authority: how it is exchanged.

The gateway checks Worlds by it, Worlds show what it has signed. Worlds get a new certificate as soon as another
authority is in use, so the old one has nothing left to vouch for once all of them have loaded theirs.
"""

from __future__ import annotations

import hashlib
from collections.abc import Container, Sequence
from datetime import datetime, timedelta
from typing import Any

from cryptography import x509

from demarkus_operator.plan import secret_data
from demarkus_operator.plan.objects import Change, Manifest, Ref
from demarkus_operator.plan.recipes import CertificateAuthority
from demarkus_operator.plan.reports import Report, all_loaded
from demarkus_operator.plan.rotation import Pace, Ring, Seen, Step, Turn, Turned, after, noting, ring_of, step, turned

KIND = "authority"
LINGER = timedelta(minutes=2)
"""How long the old one is trusted after the last World has gone on: nothing that it signed is shown any more."""


def turn(
    secret: Manifest,
    *,
    common_name: str,
    every: timedelta | None,
    published: str | None,
    reports: Sequence[Report],
    shown: Sequence[str | None],
    now: datetime,
    revoked: Container[str],
) -> Turned:
    """How far the exchange is.

    `published` is the gateway's file of trusted authorities as it is there, `reports` what its processes have loaded,
    `shown` which authority has signed what each serving World shows.
    """
    trusted = secret_data.authorities(secret)
    old = {kid for place, kid in trusted.places.items() if place == "previous"}
    ring = ring_of(secret, KIND, active=trusted.active, names=trusted.certificates, old=old)
    bundle = trusted.bundle
    sha256 = hashlib.sha256(bundle).hexdigest()
    seen = Seen(
        known=published is not None and published.encode() == bundle and all_loaded(reports, "caBundle", sha256),
        settled=all(one == trusted.active or one in trusted.issuers for one in shown),
    )
    # Whatever the owner wants, an authority goes before it ends.
    life = _two_thirds(trusted.certificates[trusted.active])
    pace = Pace(every=life if every is None else min(life, every), linger=LINGER)
    taken = step(ring, pace, seen, now=now, revoked=revoked)
    if taken.turn is Turn.WAIT:
        return turned("certificate authority", ring, taken, None)
    data, drop = _moved(secret, ring, taken, trusted)
    patch: dict[str, Any] = {"metadata": {"annotations": noting(secret, KIND, after(ring, taken, now))}}
    if data:
        patch["data"] = data
    change = Change(
        ref=Ref.of(secret),
        resource_version=secret["metadata"].get("resourceVersion", ""),
        patch=patch,
        recipe=CertificateAuthority(common_name=common_name, prefix="next") if taken.turn is Turn.ADD else None,
        drop=drop,
        why=f"{taken.turn} certificate authority {taken.name}".rstrip(),
    )
    return turned("certificate authority", ring, taken, change)


def _moved(
    secret: Manifest, ring: Ring, taken: Step, trusted: secret_data.Authorities
) -> tuple[dict[str, str], tuple[str, ...]]:
    """Which fields change their place, and which go. The key of one that signs no more goes at once."""
    data = secret["data"]
    place = next((place for place, kid in trusted.places.items() if kid == taken.name), "")
    match taken.turn:
        case Turn.USE | Turn.REPLACE:
            moved = {"ca.crt": data[f"{place}.crt"], "ca.key": data[f"{place}.key"]}
            if taken.turn is Turn.USE:
                moved["previous.crt"] = data["ca.crt"]
            return moved, (f"{place}.crt", f"{place}.key")
        case Turn.DROP:
            return {}, tuple(f"{place}.{part}" for part in ("crt", "key") if f"{place}.{part}" in data)
        case _:
            return {}, ()


def _two_thirds(pem: bytes) -> timedelta:
    certificate = x509.load_pem_x509_certificate(pem)
    return (certificate.not_valid_after_utc - certificate.not_valid_before_utc) * 2 / 3
