"""A capability token of a World: how it is exchanged.

The World takes the next one before anybody can read it, and the one before for a while after: who uses a token is not
among our processes, so its use is what counts. The Secret holds the text to use as `token`, the one to come as `next`,
and of the one before only the hash, as `previous`. In the World's file the newest has the token's name as its label,
the older one the label `<name>.previous`.
"""

from __future__ import annotations

import base64
import re
from collections.abc import Container, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from typing import Any

from demarkus_operator.plan import secret_data
from demarkus_operator.plan.objects import Change, Manifest, Ref
from demarkus_operator.plan.recipes import Token
from demarkus_operator.plan.reports import Report, all_loaded
from demarkus_operator.plan.rotation import Pace, Ring, Seen, Turn, Turned, after, noting, ring_of, step, turned
from mark_protocol.tokens import hash_token

KIND = "token"
PREVIOUS = ".previous"
"""What stands behind the name in the label of an older token."""

LINGER = timedelta(hours=24)
IDLE = timedelta(hours=1)
LONGEST = timedelta(days=7)

_HASH = re.compile(rb"sha256-[0-9a-f]{64}")


@dataclass(frozen=True, slots=True)
class Accepted:
    """What a World takes of a token: the label and hash of each, the newest first."""

    ring: Ring
    entries: tuple[tuple[str, str], ...]


def accepted(secret: Manifest, name: str) -> Accepted:
    """What a World should take of the token in a Secret. Raises Refusal."""
    data = secret.get("data") or {}
    token = _hash(secret, "token")
    coming = (_hash(secret, "next"),) if "next" in data else ()
    old = [secret_data.field(secret, "previous")] if "previous" in data else []
    before = tuple(one.decode() for one in old if _HASH.fullmatch(one))
    ring = ring_of(secret, KIND, active=token, names=(token, *coming, *before), old=before)
    newest = (*coming, token, *before)
    labels = (name, *[name + PREVIOUS] * (len(newest) - 1))
    return Accepted(ring, tuple(zip(labels, newest, strict=True))[:2])


def turn(
    secret: Manifest,
    name: str,
    *,
    every: timedelta | None,
    tokens_sha256: str | None,
    reports: Sequence[Report],
    now: datetime,
    revoked: Container[str],
) -> Turned:
    """How far the exchange is. `tokens_sha256` is what a World calls the token files as they are there; None if they
    are not what they should be.
    """
    ring = accepted(secret, name).ring
    pace = Pace(every=every, linger=LINGER, idle=IDLE, longest=LONGEST)
    seen = Seen(
        known=tokens_sha256 is not None and all_loaded(reports, "tokens", tokens_sha256),
        settled=True,
        last_use=_last_use(reports, name + PREVIOUS),
    )
    taken = step(ring, pace, seen, now=now, revoked=revoked)
    if taken.turn is Turn.WAIT:
        return turned(f"token {name}", ring, taken, None)
    data = secret["data"]
    moved: dict[str, str] = {}
    drop: tuple[str, ...] = ()
    match taken.turn:
        case Turn.USE:
            moved = {"token": data["next"], "previous": base64.b64encode(ring.active.encode()).decode()}
            drop = ("next",)
        case Turn.REPLACE:
            moved, drop = {"token": data["next"]}, ("next",)
        case Turn.DROP:
            drop = ("next",) if taken.name in ring.coming else ("previous",)
        case _:
            pass
    patch: dict[str, Any] = {"metadata": {"annotations": noting(secret, KIND, after(ring, taken, now))}}
    if moved:
        patch["data"] = moved
    change = Change(
        ref=Ref.of(secret),
        resource_version=secret["metadata"].get("resourceVersion", ""),
        patch=patch,
        recipe=Token(field="next") if taken.turn is Turn.ADD else None,
        drop=drop,
        why=f"{taken.turn} token {name}",
    )
    return turned(f"token {name}", ring, taken, change)


def _hash(secret: Manifest, key: str) -> str:
    return hash_token(secret_data.field(secret, key).decode(errors="surrogateescape"))


def _last_use(reports: Sequence[Report], label: str) -> datetime | None:
    """When any process last saw a token of this label; None if one of them can't tell."""
    serving = [report for report in reports if report.ready]
    if not serving or not all(report.reached and label in report.used for report in serving):
        return None
    return datetime.fromtimestamp(max(report.used[label] for report in serving) / 1000, UTC)
