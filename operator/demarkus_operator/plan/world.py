"""The plan of a World.

A World is realised in one of three ways. Taken in by its Universe, or without one: everything. Waiting for its
Universe: everything that can be made before, but no server. Refused: nothing is made, and what is there stays as it is.
"""

from __future__ import annotations

import json
from collections.abc import Container, Iterable, Mapping, Sequence
from datetime import datetime
from typing import Any

from demarkus_operator.api.check import problems
from demarkus_operator.api.conditions import Condition, ConditionType, Reason
from demarkus_operator.api.world import WorldSpec
from demarkus_operator.plan import loss, membership, record, secret_data
from demarkus_operator.plan.children import (
    service_account,
    world_claim,
    world_config,
    world_network_policy,
    world_secrets,
    world_services,
    world_stateful_set,
)
from demarkus_operator.plan.home import Home, home_of, home_reads
from demarkus_operator.plan.names import WorldNames, world_server_name
from demarkus_operator.plan.objects import Generate, Manifest, Observed, Plan, Ref, Remove
from demarkus_operator.plan.owner import Owner
from demarkus_operator.plan.refusal import Refusal, unmet
from demarkus_operator.plan.reports import Report
from demarkus_operator.plan.site import Site
from demarkus_operator.plan.witness import Testimony
from mark_protocol.grants import public_jwks
from mark_protocol.patterns import PatternError, check_pattern
from mark_protocol.tokens import hash_token

LOOK_AGAIN = 30.0
"""Seconds after which a World that waits for something is looked at even if nothing was heard."""


def world_reads(world: Manifest, site: Site) -> tuple[Ref, ...]:
    """Everything that the plan of this World looks at, by name. Nothing if the World can't be understood."""
    if problems(world):
        return ()
    names = _names(world)
    reads = [
        *_children(names, _tokens_now_and_before(world)),
        *home_reads(world, site),
    ]
    return tuple(dict.fromkeys(reads))


def plan_world(
    world: Manifest,
    observed: Observed,
    site: Site,
    now: datetime,
    reports: Sequence[Report] = (),
    testimony: Testimony | None = None,
) -> Plan:
    """The plan. `observed` has what was read of `world_reads` and `record_reads`, `reports` what the World's processes
    say, `testimony` how it proved its history; `now` is in UTC. Raises nothing for what users write.
    """
    status = _status_before(world)
    try:
        spec = _spec(world)
        return _plan(world, spec, observed, site, now, status, reports, testimony)
    except Refusal as refusal:
        return Plan(conditions=refusal.conditions, status=status, requeue=_patience(refusal.reason))


def _plan(
    world: Manifest,
    spec: WorldSpec,
    observed: Observed,
    site: Site,
    now: datetime,
    status: Mapping[str, Any],
    reports: Sequence[Report],
    testimony: Testimony | None,
) -> Plan:
    names = _names(world)
    universe = membership.universe_of(world)
    owner = Owner.of_world(world, None if universe is None else universe[1])
    own = [*_children(names, [token.name for token in spec.tokens or ()])]
    if universe is None:
        own.append(names.authority(site.operator_namespace))
    owner.claim_names(own, observed)

    home = home_of(world, observed, site)
    loss.check_identity(names, observed)
    generate = list(_to_generate(owner, names, spec, home, observed, site))
    if generate:
        return Plan(generate=tuple(generate), conditions=_conditions(home, None), status=status, requeue=LOOK_AGAIN)

    identity_secret = _there(observed, names.identity)
    identity = world_config.Identity(
        history=secret_data.identifier(identity_secret, "history"),
        incarnation=secret_data.identifier(identity_secret, "incarnation"),
    )
    if home.authority is not None and home.waiting_for is None:
        ca_certificate, _ = secret_data.authority(home.authority)
        secret_data.check_certificate(_there(observed, names.certificate), ca_certificate, now)

    history = loss.history_of(
        world, owner, names, observed, site, reports, testimony, claimed=spec.store.volume is not None
    )
    if history.change:
        return Plan(change=history.change, conditions=_conditions(home, None), status=status, requeue=LOOK_AGAIN)

    version = spec.version or home.version or record.version_of(identity_secret) or site.version
    document = world_config.settings(owner, spec, identity, expect=history.expect)
    key_set = None if universe is None else _key_set(home.grant_keys)
    tokens = spec.tokens or []
    hashes = {token.name: _hash(_there(observed, names.token(token.name))) for token in tokens}

    apply = [
        *history.record,
        service_account.service_account(owner, names.service_account),
        world_secrets.tokens(owner, names, tokens, hashes),
        world_config.config(owner, names, document, key_set),
        world_network_policy.network_policy(owner, names, site, universe),
        world_services.service(owner, names),
        world_services.pods_service(owner, names),
    ]
    if spec.store.volume is not None:
        seen = observed.get(names.claim)
        apply += history.claim(world_claim.claim(owner, names, spec.store.volume, seen), seen)
    if home.waiting_for is None:
        apply.append(
            world_stateful_set.stateful_set(
                owner,
                names,
                image=f"{site.images.world}:{version}",
                config_hash=world_config.restart_hash(document),
            )
        )
    conditions = history.told(_conditions(home, observed.get(names.stateful_set)))
    return Plan(
        apply=tuple(apply),
        remove=tuple(_removed_tokens(world, owner, names, {token.name for token in tokens}, observed)),
        conditions=conditions,
        status={
            "version": version,
            "endpoint": f"mark://{world_server_name(names.namespace, names.name)}",
            "history": identity.history,
            "incarnation": identity.incarnation,
            "tokens": [{"name": token.name, "secret": names.token(token.name).name} for token in tokens],
        },
        requeue=None if all(condition.status for condition in conditions) else LOOK_AGAIN,
    )


def _conditions(home: Home, stateful_set: Manifest | None) -> tuple[Condition, ...]:
    """`Ready` and `Reconciled` of a World that is not refused."""
    if home.waiting_for is not None:
        return unmet(Reason.WAITING_FOR_UNIVERSE, home.waiting_for)
    reconciled = Condition(type=ConditionType.RECONCILED, status=True, reason=Reason.APPLIED)
    return (_ready(stateful_set, home.universe_gone), reconciled)


def _ready(stateful_set: Manifest | None, universe_gone: str | None) -> Condition:
    ready = 0 if stateful_set is None else (stateful_set.get("status") or {}).get("readyReplicas") or 0
    if not ready:
        message = "the server's pod is not ready yet"
        return Condition(type=ConditionType.READY, status=False, reason=Reason.STARTING, message=message)
    if universe_gone is not None:
        return Condition(type=ConditionType.READY, status=True, reason=Reason.UNIVERSE_GONE, message=universe_gone)
    return Condition(type=ConditionType.READY, status=True, reason=Reason.SERVING)


def _to_generate(
    owner: Owner, names: WorldNames, spec: WorldSpec, home: Home, observed: Observed, site: Site
) -> Iterable[Generate]:
    """What has to be made and is not there yet. A certificate comes in the round after its authority."""
    if observed.get(names.identity) is None:
        yield world_secrets.identity(owner, names, site)
    for token in spec.tokens or ():
        if observed.get(names.token(token.name)) is None:
            yield world_secrets.token(owner, names, token.name)
    if home.authority is None:
        if spec.universe_ref is None:
            yield world_secrets.authority(owner, names, site)
    elif home.waiting_for is None and observed.get(names.certificate) is None:
        yield world_secrets.certificate(owner, names, site, *secret_data.authority(home.authority))


def _removed_tokens(
    world: Manifest, owner: Owner, names: WorldNames, wanted: Container[str], observed: Observed
) -> Iterable[Remove]:
    """The Secrets of tokens that the spec no longer names: should the name come back, the old token does not."""
    for name in _tokens_now_and_before(world):
        secret = observed.get(names.token(name))
        if name not in wanted and secret is not None and owner.has(secret):
            yield Remove(ref=names.token(name), uid=secret["metadata"]["uid"])


def _key_set(grant_keys: Manifest | None) -> str:
    """The text of keys.json. Without keys it is an empty set: no grant is valid."""
    keys = [] if grant_keys is None else secret_data.grant_keys(grant_keys)
    return json.dumps(public_jwks(keys), sort_keys=True, separators=(",", ":"))


def _hash(secret: Manifest) -> str:
    return hash_token(secret_data.field(secret, "token").decode(errors="surrogateescape"))


def _spec(world: Manifest) -> WorldSpec:
    """The spec, if it holds. Raises Refusal naming every field that does not."""
    found = [str(problem) for problem in problems(world)]
    if not found:
        spec = WorldSpec.model_validate(world["spec"])
        found = list(_pattern_problems(spec))
        if not found:
            return spec
    raise Refusal(Reason.INVALID_SPEC, "; ".join(found))


def _pattern_problems(spec: WorldSpec) -> Iterable[str]:
    """Patterns that only their own parser can judge, such as those with an open bracket."""
    access = spec.access
    groups = [(f"spec.tokens[{index}]", token.paths) for index, token in enumerate(spec.tokens or ())]
    for kind, entries in (("readers", access and access.readers), ("writers", access and access.writers)):
        groups += [(f"spec.access.{kind}[{index}]", entry.paths or []) for index, entry in enumerate(entries or ())]
    for place, patterns in groups:
        for index, pattern in enumerate(patterns):
            try:
                check_pattern(pattern)
            except PatternError as error:
                yield f"{place}.paths[{index}]: {error}"


def _patience(reason: Reason) -> float | None:
    """Whether to look again: at what another object decides, yes; at what the World's owner has to change, no."""
    return None if reason is Reason.INVALID_SPEC else LOOK_AGAIN


def _names(world: Manifest) -> WorldNames:
    return WorldNames(world["metadata"]["namespace"], world["metadata"]["name"])


def _there(observed: Observed, ref: Ref) -> Manifest:
    """An object that was generated in an earlier round."""
    found = observed.get(ref)
    if found is None:
        raise Refusal(Reason.MATERIAL_INVALID, f"{ref} is missing")
    return found


def _tokens_now_and_before(world: Manifest) -> tuple[str, ...]:
    """The names of the tokens that the spec names, and of those that the status knows."""
    spec, status = world.get("spec") or {}, world.get("status") or {}
    entries = [*(spec.get("tokens") or ()), *(status.get("tokens") or ())]
    return tuple(dict.fromkeys(str(entry["name"]) for entry in entries))


def _status_before(world: Manifest) -> dict[str, Any]:
    """The status so far, which a refusal leaves as it is."""
    status = world.get("status") or {}
    return {key: status[key] for key in ("version", "endpoint", "history", "incarnation", "tokens") if key in status}


def _children(names: WorldNames, tokens: Iterable[str]) -> tuple[Ref, ...]:
    return (
        names.identity,
        names.certificate,
        names.tokens,
        *(names.token(token) for token in tokens),
        names.service_account,
        names.config,
        names.network_policy,
        names.service,
        names.pods_service,
        names.claim,
        names.stateful_set,
    )
