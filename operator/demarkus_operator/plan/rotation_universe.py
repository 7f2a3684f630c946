"""What of a Universe's keys and authority has to be changed next, and what for the time being is trusted."""

from __future__ import annotations

import hashlib
import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime

from demarkus_operator.api.durations import duration
from demarkus_operator.api.universe import UniverseSpec
from demarkus_operator.plan import issuance_universe, labels, rotation_authority, rotation_keys, secret_data, sync
from demarkus_operator.plan.children.broker_config import CA_FILE, CONFIG_FILE
from demarkus_operator.plan.issuance import Issuance
from demarkus_operator.plan.names import UniverseNames
from demarkus_operator.plan.objects import Change, Manifest, Observed
from demarkus_operator.plan.owner import Owner
from demarkus_operator.plan.reports import Report, all_loaded
from demarkus_operator.plan.rotation import Turned, one_of_each
from demarkus_operator.plan.site import Site

LOOK = 10.0
"""Seconds until processes that have to load something are asked again."""
_SOONEST = 1.0


@dataclass(frozen=True, slots=True, kw_only=True)
class Trust:
    """How things stand.

    Attributes:
        change: what has to be done first.
        bundle: the certificates of all authorities that are trusted.
        issuance: what an issuer of cert-manager is asked, and made.
        waits: what is waited for, in sentences; `late` are the names of those who have not followed yet.
        requeue: seconds after which to look again, or None.
    """

    change: tuple[Change, ...]
    bundle: bytes
    issuance: Issuance
    waits: tuple[str, ...] = ()
    late: tuple[str, ...] = ()
    requeue: float | None = None


def trust_of(
    universe: Manifest,
    spec: UniverseSpec,
    owner: Owner,
    names: UniverseNames,
    observed: Observed,
    worlds: Sequence[Manifest],
    reports: Sequence[Report],
    site: Site,
    now: datetime,
) -> Trust:
    """How things stand with a Universe whose Secrets are there. `worlds` are all that name it.

    Raises Refusal for what can't be read.
    """
    authority = secret_data.there(observed, names.authority(site.operator_namespace))
    keys = secret_data.there(observed, names.keys)
    every = duration(spec.trust.rotate_every) if spec.trust and spec.trust.rotate_every else None
    revoked = revoked_by(universe)
    serving = [world for world in worlds if _serves(world)]
    loaded = [_loaded(world) for world in serving]
    config = (observed.get(names.config) or {}).get("data") or {}
    trusted = secret_data.authorities(authority)
    found = issuance_universe.issuance_of(owner, names, spec, authority, observed)
    in_force = _sha256(config.get(CA_FILE))
    turns = [
        *(Turned(change=change) for change in found.change),
        *issuance_universe.turns(
            authority,
            found,
            shown={_loaded(world).get("authority") for world in worlds},
            in_force=in_force == _sha256(trusted.bundle.decode()) and all_loaded(reports, "caBundle", in_force),
            now=now,
        ),
        rotation_authority.turn(
            authority,
            common_name=f"universe {names.name}",
            every=every,
            published=config.get(CA_FILE),
            reports=reports,
            shown=[one.get("authority") for one in loaded],
            now=now,
            revoked=revoked,
        ),
        *rotation_keys.turns(
            keys,
            every=every,
            reports=reports,
            key_sets=[one.get("keySet") for one in loaded],
            now=now,
            revoked=revoked,
        ),
    ]
    change = one_of_each(turn.change for turn in turns if turn.change is not None)
    wanted = {
        "config": _sha256(config.get(CONFIG_FILE)),
        "caBundle": in_force,
        "keys": rotation_keys.digest(keys),
    }
    waits = tuple(turn.waits for turn in turns if turn.waits)
    key_set = _sha256(rotation_keys.key_set(keys))
    late = [f"World {_name_of(world)}" for world in serving if not _follows(_loaded(world), trusted, key_set)]
    late += [f"pod {report.pod}" for report in reports if report.ready and not _has(report, wanted)]
    return Trust(
        change=change or sync.nudges(names.namespace, reports, wanted),
        bundle=trusted.bundle,
        issuance=found,
        waits=waits,
        late=tuple(late) if waits else (),
        requeue=requeue_of(turns, now),
    )


def revoked_by(subject: Manifest) -> frozenset[str]:
    """What the owner of a World or Universe wants to be accepted no longer."""
    text = (subject["metadata"].get("annotations") or {}).get(labels.REVOKE_KEY) or ""
    return frozenset(re.split(r"[\s,]+", text)) - {""}


def requeue_of(turns: Iterable[Turned], now: datetime) -> float | None:
    """When the first of them wants to be looked at again, in seconds from now."""
    found = [(turn.until - now).total_seconds() for turn in turns if turn.until is not None]
    found += [LOOK for turn in turns if turn.waits]
    return max(_SOONEST, min(found)) if found else None


def _name_of(subject: Manifest) -> str:
    return f"{subject['metadata']['namespace']}/{subject['metadata']['name']}"


def _has(report: Report, wanted: Mapping[str, str]) -> bool:
    return report.reached and all(report.loaded.get(what) == wanted[what] for what in ("keys", "caBundle"))


def _follows(loaded: Mapping[str, str], trusted: secret_data.Authorities, key_set: str) -> bool:
    shown = loaded.get("authority")
    return loaded.get("keySet") == key_set and (shown == trusted.active or shown in trusted.issuers)


def _serves(world: Manifest) -> bool:
    conditions = (world.get("status") or {}).get("conditions") or ()
    return any(one.get("type") == "Ready" and one.get("status") == "True" for one in conditions)


def _loaded(world: Manifest) -> Mapping[str, str]:
    loaded: Mapping[str, str] = (world.get("status") or {}).get("loaded") or {}
    return loaded


def _sha256(text: str | None) -> str:
    return hashlib.sha256((text or "").encode()).hexdigest()
