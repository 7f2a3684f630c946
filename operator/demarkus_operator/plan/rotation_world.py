"""What of a World's credentials has to be changed next, what it accepts for the time being, and what it has loaded."""

from __future__ import annotations

import hashlib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any

from demarkus_base.settings import content_digest
from demarkus_operator.api.durations import duration
from demarkus_operator.api.world import WorldSpec
from demarkus_operator.plan import certificate, issuance_world, rotation_keys, rotation_token, secret_data, sync
from demarkus_operator.plan.children import world_secrets
from demarkus_operator.plan.children.world_config import CONFIG_FILE, KEY_SET_FILE
from demarkus_operator.plan.home import Home
from demarkus_operator.plan.issuance import Issuance
from demarkus_operator.plan.names import WorldNames
from demarkus_operator.plan.objects import Change, Manifest, Observed, Ref
from demarkus_operator.plan.owner import Owner
from demarkus_operator.plan.reports import Report, all_loaded
from demarkus_operator.plan.rotation import Turned, one_of_each, soonest
from demarkus_operator.plan.rotation_universe import LOOK, requeue_of, revoked_by
from demarkus_operator.plan.site import Site

LOOK_FOR_LOST = 60.0
"""Seconds until a process that serves and did not answer is asked again."""

_FILES = {"config": CONFIG_FILE, "keySet": KEY_SET_FILE}
"""What a process has loaded -> the file of the World's ConfigMap that it comes from."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Trust:
    """How things stand.

    Attributes:
        change: what has to be done first.
        tokens: the token file that the World reads, as a Secret to apply.
        key_set: the text of keys.json; None without a Universe.
        incarnation: which life of its history it serves; None if that was never said.
        status: what of it the World's status tells.
        issuance: what an issuer of cert-manager is asked, and made.
        waits: what is waited for, in sentences; `late` are the pods that have not followed yet.
        requeue: seconds after which to look again, or None.
    """

    change: tuple[Change, ...]
    tokens: Manifest
    key_set: str | None
    incarnation: str | None
    issuance: Issuance
    status: Mapping[str, Any] = field(default_factory=dict)
    waits: tuple[str, ...] = ()
    late: tuple[str, ...] = ()
    requeue: float | None = None


def trust_of(
    world: Manifest,
    spec: WorldSpec,
    owner: Owner,
    names: WorldNames,
    home: Home,
    observed: Observed,
    reports: Sequence[Report],
    site: Site,
    now: datetime,
) -> Trust:
    """How things stand with a World whose Secrets are all there. Raises Refusal for what can't be read."""
    specs = spec.tokens or []
    secrets = {token.name: secret_data.there(observed, names.token(token.name)) for token in specs}
    accepted = {name: rotation_token.accepted(secret, name) for name, secret in secrets.items()}
    tokens = world_secrets.tokens(owner, names, specs, {name: one.entries for name, one in accepted.items()})
    published = observed.get(names.tokens)
    ours = published is not None and (published.get("data") or {}) == tokens["data"]
    in_force = _token_files(spec, names, observed)
    turns = [
        rotation_token.turn(
            secrets[token.name],
            token.name,
            every=duration(token.rotate_every) if token.rotate_every else None,
            tokens_sha256=in_force if ours else None,
            reports=reports,
            now=now,
            revoked=revoked_by(world),
        )
        for token in specs
    ]
    key_set = None if spec.universe_ref is None else rotation_keys.key_set(home.grant_keys)
    changes = [turn.change for turn in turns if turn.change is not None]
    wanted = _published(names, observed, in_force)
    loaded: dict[str, str] = dict((world.get("status") or {}).get("loaded") or {})
    if "keySet" in wanted and all_loaded(reports, "keySet", wanted["keySet"]):
        loaded["keySet"] = wanted["keySet"]
    seen = observed.get(names.certificate)
    issuance = Issuance()
    if home.authority is not None and home.waiting_for is None and seen is not None:
        issuance = issuance_world.issuance_of(owner, names, spec, home, seen, observed, site)
        trusted = issuance_world.trusted(secret_data.authorities(home.authority), spec, issuance)
        issued = None if issuance.secret is None else certificate.leaf_of(issuance.secret, trusted)
        changes += issuance.change
        host_names = world_secrets.certificate_names(owner, spec, site)
        renewed = certificate.change(
            seen, trusted, common_name=owner.name, names=host_names, now=now, asked=issuance.asked, issued=issued
        )
        if renewed is not None:
            changes.append(renewed)
        leaf = certificate.leaf_of(seen, trusted)
        if leaf is not None:
            turns.append(Turned(until=leaf.due if now < leaf.due else None))
            if all_loaded(reports, "tls", wanted["tls"]):
                loaded["authority"] = leaf.issuer
        if issuance.asked:
            turns.append(issuance_world.turn(issuance, issued, trusted, now))
    waits = tuple(turn.waits for turn in turns if turn.waits)
    return Trust(
        issuance=issuance,
        change=one_of_each(changes) or sync.nudges(names.namespace, reports, wanted),
        tokens=tokens,
        key_set=key_set,
        incarnation=_incarnation(world, reports),
        status={"loaded": loaded} if loaded else {},
        waits=waits,
        late=tuple(f"pod {report.pod}" for report in reports if waits and _is_late(report, in_force)),
        requeue=soonest(requeue_of(turns, now), _patience(reports, wanted)),
    )


def _token_files(spec: WorldSpec, names: WorldNames, observed: Observed) -> str | None:
    """What the World calls the content of all its token files as they are there; None if one of them is not there."""
    contents = []
    files = [(names.tokens, world_secrets.TOKENS_FILE)]
    for file in spec.token_files or ():
        files.append((Ref("v1", "Secret", names.namespace, file.secret_ref.name), file.secret_ref.key))
    for ref, key in files:
        secret = observed.get(ref)
        if secret is None or key not in (secret.get("data") or {}):
            return None
        contents.append(secret_data.field(secret, key))
    return content_digest(contents)


def _published(names: WorldNames, observed: Observed, token_files: str | None) -> dict[str, str]:
    """What processes call the content of the files that lie ready for them, as far as they can lie ready."""
    found: dict[str, str] = {}
    data = (observed.get(names.config) or {}).get("data") or {}
    for what, file in _FILES.items():
        if file in data:
            found[what] = hashlib.sha256(data[file].encode()).hexdigest()
    secret = observed.get(names.certificate)
    if secret is not None and {"tls.crt", "tls.key"} <= (secret.get("data") or {}).keys():
        found["tls"] = content_digest([secret_data.field(secret, name) for name in ("tls.crt", "tls.key")])
    if token_files is not None:
        found["tokens"] = token_files
    return found


def _is_late(report: Report, token_files: str | None) -> bool:
    return report.ready and not (report.reached and report.loaded.get("tokens") == token_files)


def _patience(reports: Sequence[Report], wanted: Mapping[str, str]) -> float | None:
    """When to ask again, if something lies ready that a process has not loaded, or if one does not answer."""
    serving = [report for report in reports if report.ready]
    # A configuration is written in other words where there is no cluster.
    if any(sync.behind(report, {**wanted, "config": report.loaded.get("config", "")}) for report in serving):
        return LOOK
    return None if all(report.reached for report in serving) else LOOK_FOR_LOST


def _incarnation(world: Manifest, reports: Sequence[Report]) -> str | None:
    """What a process says of it, or what one said last: a store that exists keeps its own."""
    said = (report.incarnation for report in reports if report.reached and report.incarnation)
    return next(said, (world.get("status") or {}).get("incarnation"))
