"""The keys of a gateway: how those that sign bearers and those that sign grants are exchanged.

Bearers are checked by the gateway's own processes, grants by every World of the Universe. Both are signed by the
gateway, which has gone on to another key when it has loaded the Secret that says so.
"""

from __future__ import annotations

import base64
import hashlib
import json
from collections.abc import Container, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Any

from demarkus_base.settings import content_digest
from demarkus_operator.plan import secret_data
from demarkus_operator.plan.objects import Change, Manifest, Ref
from demarkus_operator.plan.recipes import BrokerKey, GrantKey
from demarkus_operator.plan.reports import Report, all_gone_on, all_loaded
from demarkus_operator.plan.rotation import Pace, Seen, Turn, Turned, after, noting, ring_of, step, turned
from mark_protocol.grants import MAX_LIFE, public_jwks

MARGIN = timedelta(minutes=2)
"""What is added to the longest life of what a key has signed: clocks differ, and requests take their time."""
BEARER_LIFE = timedelta(hours=12)
"""The longest life of a bearer."""


@dataclass(frozen=True, slots=True, kw_only=True)
class _Kind:
    name: str
    what: str
    recipe: BrokerKey | GrantKey
    life: timedelta


_KINDS = (
    _Kind(name="grant", what="key for grants", recipe=GrantKey(), life=timedelta(seconds=MAX_LIFE)),
    _Kind(name="broker", what="key for bearers", recipe=BrokerKey(), life=BEARER_LIFE),
)


def turns(
    secret: Manifest,
    *,
    every: timedelta | None,
    reports: Sequence[Report],
    key_sets: Sequence[str | None],
    now: datetime,
    revoked: Container[str],
) -> list[Turned]:
    """How far the exchange of each kind is. `key_sets` are the SHA-256 of what each serving World takes grants by."""
    loaded = digest(secret)
    wanted = hashlib.sha256(key_set(secret).encode()).hexdigest()
    settled = all_gone_on(reports, "keys", loaded)
    known = {"grant": all(one == wanted for one in key_sets), "broker": all_loaded(reports, "keys", loaded)}
    found = []
    for kind in _KINDS:
        seen = Seen(known=known[kind.name], settled=settled)
        found.append(_turn(secret, kind, Pace(every=every, linger=kind.life + MARGIN), seen, now, revoked))
    return found


def _turn(secret: Manifest, kind: _Kind, pace: Pace, seen: Seen, now: datetime, revoked: Container[str]) -> Turned:
    signing = secret_data.signing_keys(secret)
    ring = ring_of(secret, kind.name, active=signing[kind.name], names=secret_data.kids(secret, kind.name))
    taken = step(ring, pace, seen, now=now, revoked=revoked)
    if taken.turn is Turn.WAIT:
        return turned(kind.what, ring, taken, None)
    new = after(ring, taken, now)
    there = {ring.active, *ring.coming, *(old.name for old in ring.old)}
    gone = there - {new.active, *new.coming, *(old.name for old in new.old)}
    patch: dict[str, Any] = {"metadata": {"annotations": noting(secret, kind.name, new)}}
    if new.active != ring.active:
        text = json.dumps({**signing, kind.name: new.active}, sort_keys=True)
        patch["data"] = {secret_data.SIGNING: base64.b64encode(text.encode()).decode()}
    change = Change(
        ref=Ref.of(secret),
        resource_version=secret["metadata"].get("resourceVersion", ""),
        patch=patch,
        recipe=kind.recipe if taken.turn is Turn.ADD else None,
        drop=tuple(f"{kind.name}-{kid}.pem" for kid in sorted(gone)),
        why=f"{taken.turn} {kind.what} {taken.name}".rstrip(),
    )
    return turned(kind.what, ring, taken, change)


def digest(secret: Manifest) -> str:
    """What a gateway that has loaded this Secret calls it: the name of the content of all its files."""
    return content_digest([secret_data.field(secret, name) for name in sorted(secret.get("data") or {})])


def key_set(secret: Manifest | None) -> str:
    """The text of keys.json, by which Worlds take grants. Without keys it is an empty set: no grant is valid."""
    keys = [] if secret is None else secret_data.grant_keys(secret)
    return json.dumps(public_jwks(keys), sort_keys=True, separators=(",", ":"))
