"""The plan of a World.

A World is realised in one of three ways. Taken in by its Universe, or without one: everything. Waiting for its
Universe: everything that can be made before, but no server. Refused: nothing is made, and what is there stays as it is.
"""

from __future__ import annotations

import json
from collections.abc import Container, Iterable, Mapping, Sequence
from datetime import datetime
from typing import Any

from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PublicKey

from demarkus_operator.api import quantities
from demarkus_operator.api.check import problems
from demarkus_operator.api.conditions import Reason
from demarkus_operator.api.world import WorldSpec
from demarkus_operator.plan import (
    growth,
    images,
    inquiry,
    issuance_world,
    keeping,
    labels,
    loss,
    membership,
    pause,
    reach,
    record,
    references,
    rotation,
    rotation_world,
    secret_data,
    size,
)
from demarkus_operator.plan.bucket_facts import BucketFacts
from demarkus_operator.plan.children import (
    disruption_budget,
    service_account,
    world_claim,
    world_config,
    world_network_policy,
    world_secrets,
    world_services,
    world_stateful_set,
)
from demarkus_operator.plan.children import operator_key as operator_key_secret
from demarkus_operator.plan.defaults import with_defaults
from demarkus_operator.plan.home import Home, home_of, home_reads
from demarkus_operator.plan.names import WorldNames, operator_key, world_server_name
from demarkus_operator.plan.objects import Attempt, Generate, Manifest, Observed, Plan, Ref, Remove
from demarkus_operator.plan.owner import Owner
from demarkus_operator.plan.refusal import Refusal
from demarkus_operator.plan.reports import Report
from demarkus_operator.plan.seeds import seeds
from demarkus_operator.plan.site import Site
from demarkus_operator.plan.validity import spec_of
from demarkus_operator.plan.witness import Testimony
from demarkus_operator.plan.workload import Workload
from demarkus_operator.plan.world_conditions import conditions, in_motion
from mark_protocol.grants import public_jwks

_STATUS = ("version", "endpoint", "history", "incarnation", "loaded", "store", "backup", "tokens")

LOOK_AGAIN = 30.0
"""Seconds after which a World that waits for something is looked at even if nothing was heard."""


def world_reads(world: Manifest, site: Site) -> tuple[Ref, ...]:
    """Everything that the plan of this World looks at, by name. Nothing if the World can't be understood."""
    if problems(world):
        return ()
    names = _names(world)
    reads = [
        *_children(names, _tokens_now_and_before(world)),
        *_optional(names, WorldSpec.model_validate(world["spec"])),
        *others_reads(world, site),
    ]
    return tuple(dict.fromkeys(reads))


def others_reads(world: Manifest, site: Site) -> tuple[Ref, ...]:
    """What of that is not the World's own: its surroundings, what its spec names, the operator's key."""
    if problems(world):
        return ()
    named = references.of_world(WorldSpec.model_validate(world["spec"]), world["metadata"]["namespace"])
    return (*home_reads(world, site), *named, operator_key(site.operator_namespace))


def later_reads(world: Manifest, observed: Observed, site: Site) -> tuple[Ref, ...]:
    """What it looks at besides, of which the names are known only once the rest was read."""
    return (*inquiry.record_reads(world, observed, site), *issuance_world.reads(world, observed))


def plan_world(
    world: Manifest,
    observed: Observed,
    site: Site,
    now: datetime,
    reports: Sequence[Report] = (),
    testimony: Testimony | None = None,
    bucket: BucketFacts | None = None,
) -> Plan:
    """The plan. `observed` has what was read of `world_reads` and `later_reads`, `reports` what the World's processes
    say, `testimony` how it proved its history, `bucket` how its bucket is; `now` is in UTC. Raises nothing for what
    users write.
    """
    status = _status_before(world)
    try:
        spec = spec_of(world)
        return _plan(world, spec, observed, site, now, status, reports, testimony, bucket)
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
    bucket: BucketFacts | None,
) -> Plan:
    names = _names(world)
    universe = membership.universe_of(world)
    owner = Owner.of_world(world, None if universe is None else universe[1])
    home = home_of(world, observed, site)
    spec = with_defaults(spec, home.defaults)
    optional = _optional(names, spec)
    own = [*_children(names, [token.name for token in spec.tokens or ()])]
    own += [ref for ref, wanted in optional.items() if wanted]
    if universe is None:
        own.append(names.authority(site.operator_namespace))
    owner.claim_names(own, observed)
    loss.check_identity(names, observed)
    starting = conditions(home, Workload(wanted=1), is_paused=pause.is_paused(world))
    generate = list(_to_generate(owner, names, spec, home, observed, site))
    if generate:
        return Plan(generate=tuple(generate), conditions=starting, status=status, requeue=LOOK_AGAIN)

    identity_secret = _there(observed, names.identity)
    identity = world_config.Identity(
        history=secret_data.identifier(identity_secret, "history"),
        incarnation=secret_data.identifier(identity_secret, "incarnation"),
    )
    trust = rotation_world.trust_of(world, spec, owner, names, home, observed, reports, site, now)
    history = loss.history_of(world, owner, names, spec.store, observed, site, reports, testimony, bucket)
    keep = keeping.changes(owner, _generated(names, spec), observed)
    change = rotation.one_of_each((*history.change, *trust.change, *keep))
    outside = () if pause.is_paused(world) else history.outside
    if change or outside:
        return Plan(change=change, outside=outside, conditions=starting, status=status, requeue=LOOK_AGAIN)

    version = spec.version or home.version or record.version_of(identity_secret) or site.version
    seen_config = observed.get(names.config)
    texts = seeds(spec, names.namespace, observed, seen_config)
    document = world_config.settings(owner, spec, identity, seeds=texts, expect=history.expect)
    _check_token_files(spec, names, observed)
    management_key = secret_data.operator_key(_there(observed, operator_key(site.operator_namespace)))
    tokens = spec.tokens or []

    config = world_config.config(owner, names, document, trust.key_set, _jwks([management_key]))
    size.check_size(config, "give shorter seeds, or fewer")
    acts_as = None if spec.store.bucket is None else spec.store.bucket.service_account

    apply = [
        *history.record,
        service_account.service_account(owner, names.service_account, acts_as=acts_as),
        trust.tokens,
        config,
        world_services.service(owner, names, spec.expose),
        world_services.pods_service(owner, names),
    ]
    if optional[names.network_policy]:
        apply.append(world_network_policy.network_policy(owner, names, spec, site, universe))
    if optional[names.disruption_budget]:
        selector = labels.world_selector(owner.name)
        apply.append(disruption_budget.disruption_budget(owner, names.disruption_budget, selector))
    attempts: tuple[Attempt, ...] = trust.issuance.attempts
    if spec.store.volume is not None:
        seen = observed.get(names.claim)
        claim = world_claim.claim(owner, names, spec.store.volume, seen)
        apply += history.claim(claim, seen)
        attempts += growth.attempts(claim, spec.store.volume)
    pods: Manifest | None = None
    if home.waiting_for is None:
        beside = home.digests if version == home.version else images.noted(version, identity_secret)
        pods = world_stateful_set.stateful_set(
            owner,
            names,
            spec,
            image=(None if spec.template is None else spec.template.image)
            or images.image(site.images, images.WORLD, version, beside),
            annotations=_pod_annotations(world, document),
            pull_secrets=site.images.pull_secrets,
        )
        apply.append(pods)
    remove = [*_removed_tokens(world, owner, names, {token.name for token in tokens}, observed)]
    remove += trust.issuance.remove
    remove += [removal for ref, wanted in optional.items() if not wanted for removal in _seen(ref, owner, observed)]
    is_paused = pause.is_paused(world)
    if is_paused:
        records = {Ref.of(manifest) for manifest in history.record}
        files = {names.config: world_config.CONFIG_FILE}
        apply, remove = list(pause.going_on(apply, observed, files=files, records=records)), []
    replicas = world_stateful_set.replicas_of(spec)
    workload = Workload.of(observed.get(names.stateful_set), replicas, planned=None if is_paused else pods)
    findings = (*history.findings, *reach.findings(reports), *trust.issuance.findings)
    found = history.told(conditions(home, workload, findings, is_suspended=bool(spec.suspend), is_paused=is_paused))
    found = rotation.told(growth.told(found, observed.get(names.claim)), trust.waits, trust.late)
    found = (*found, *reach.reachable(reports))
    return Plan(
        apply=tuple(apply),
        attempts=() if is_paused else attempts,
        remove=tuple(remove),
        conditions=found,
        status={
            "version": version,
            "endpoint": _endpoint(names, spec),
            "history": identity.history,
            "incarnation": trust.incarnation or identity.incarnation,
            **trust.status,
            "store": _store(spec, observed.get(names.claim)),
            "backup": "-",
            "tokens": [{"name": token.name, "secret": names.token(token.name).name} for token in tokens],
        },
        requeue=rotation.soonest(LOOK_AGAIN if in_motion(found) else None, trust.requeue),
        holds=spec.store.bucket is not None and spec.deletion_policy == "Delete",
    )


def _pod_annotations(world: Manifest, document: dict[str, Any]) -> dict[str, str]:
    """What is said of the pods: when something of it changes, they are replaced."""
    restarted = (world["metadata"].get("annotations") or {}).get(labels.RESTARTED_AT)
    found = {labels.CONFIG_HASH: world_config.restart_hash(document)}
    return found if restarted is None else {**found, labels.RESTARTED_AT: restarted}


def _endpoint(names: WorldNames, spec: WorldSpec) -> str:
    """Where native clients reach the World: by the first name that it is exposed by, else in the cluster."""
    exposed = (spec.expose and spec.expose.hostnames) or ()
    return f"mark://{exposed[0] if exposed else world_server_name(names.namespace, names.name)}"


def _store(spec: WorldSpec, claim: Manifest | None) -> str:
    """Where the history is, for people: what the volume has, or else what is asked for."""
    if spec.store.bucket is not None:
        return spec.store.bucket.url
    capacity: str | None = ((claim or {}).get("status") or {}).get("capacity", {}).get("storage")
    return capacity or (quantities.canonical(spec.store.volume.size) if spec.store.volume else "")


def _check_token_files(spec: WorldSpec, names: WorldNames, observed: Observed) -> None:
    """Refuses token files that are not there: without them no pod starts."""
    for index, file in enumerate(spec.token_files or ()):
        ref = references.secret(names.namespace, file.secret_ref.name)
        references.secret_bytes(observed, ref, file.secret_ref.key, f"spec.tokenFiles[{index}].secretRef")


def _generated(names: WorldNames, spec: WorldSpec) -> Iterable[Ref]:
    """The Secrets that are generated."""
    return (names.identity, names.certificate, *(names.token(token.name) for token in spec.tokens or ()))


def _seen(ref: Ref, owner: Owner, observed: Observed) -> Iterable[Remove]:
    found = observed.get(ref)
    if found is not None and owner.has(found):
        yield Remove(ref=ref, uid=found["metadata"]["uid"])


def _to_generate(
    owner: Owner, names: WorldNames, spec: WorldSpec, home: Home, observed: Observed, site: Site
) -> Iterable[Generate]:
    """What has to be made and is not there yet. A certificate comes in the round after its authority."""
    if observed.get(names.identity) is None:
        taken_over = None if spec.store.bucket is None else spec.store.bucket.history_id
        yield world_secrets.identity(owner, names, site, history=taken_over)
    if observed.get(operator_key(site.operator_namespace)) is None:
        yield operator_key_secret.key(site)
    for token in spec.tokens or ():
        if observed.get(names.token(token.name)) is None:
            yield world_secrets.token(owner, names, token.name)
    if home.authority is None:
        if spec.universe_ref is None:
            yield world_secrets.authority(owner, names, site)
    elif home.waiting_for is None and observed.get(names.certificate) is None:
        yield world_secrets.certificate(owner, names, spec, site, secret_data.authorities(home.authority))


def _removed_tokens(
    world: Manifest, owner: Owner, names: WorldNames, wanted: Container[str], observed: Observed
) -> Iterable[Remove]:
    """The Secrets of tokens that the spec no longer names: should the name come back, the old token does not."""
    for name in _tokens_now_and_before(world):
        secret = observed.get(names.token(name))
        if name not in wanted and secret is not None and owner.has(secret):
            yield Remove(ref=names.token(name), uid=secret["metadata"]["uid"])


def _jwks(keys: Sequence[Ed25519PublicKey]) -> str:
    return json.dumps(public_jwks(keys), sort_keys=True, separators=(",", ":"))


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
    return {key: status[key] for key in _STATUS if key in status}


def _children(names: WorldNames, tokens: Iterable[str]) -> tuple[Ref, ...]:
    return (
        names.identity,
        names.certificate,
        names.tokens,
        *(names.token(token) for token in tokens),
        names.service_account,
        names.config,
        names.service,
        names.pods_service,
        names.claim,
        names.stateful_set,
    )


def _optional(names: WorldNames, spec: WorldSpec) -> dict[Ref, bool]:
    """Children that not every World has, and whether this one has them."""
    return {
        names.network_policy: spec.network_policy is None or spec.network_policy.enabled is not False,
        names.disruption_budget: world_stateful_set.replicas_of(spec) > 1,
    }
