"""The plan of a Universe: who belongs to it, and the gateway that leads there."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from datetime import datetime
from typing import Any

from demarkus_operator.api.check import problems
from demarkus_operator.api.conditions import Condition, ConditionType, Reason
from demarkus_operator.api.universe import UniverseSpec
from demarkus_operator.api.world import WorldSpec
from demarkus_operator.plan import labels, membership, record, secret_data
from demarkus_operator.plan.children import (
    broker_config,
    broker_deployment,
    broker_network_policy,
    broker_record,
    broker_secrets,
    broker_service,
    service_account,
)
from demarkus_operator.plan.children.world_config import Identity
from demarkus_operator.plan.names import UniverseNames, WorldNames
from demarkus_operator.plan.objects import Generate, Manifest, Observed, Plan, Ref, Remove
from demarkus_operator.plan.owner import Owner
from demarkus_operator.plan.refusal import Refusal
from demarkus_operator.plan.site import Site

DEFAULT_REPLICAS = 2
LOOK_AGAIN = 30.0
"""Seconds after which a Universe that waits for something is looked at even if nothing was heard."""


def universe_reads(universe: Manifest, site: Site) -> tuple[Ref, ...]:
    """Everything that the plan of this Universe looks at, by name, besides its Worlds and their namespaces."""
    return () if problems(universe) else _children(_names(universe), site)


def plan_universe(
    universe: Manifest,
    observed: Observed,
    worlds: Sequence[Manifest],
    namespaces: Mapping[str, Manifest],
    site: Site,
    now: datetime,
) -> Plan:
    """The plan.

    `observed` has what was read of `universe_reads`, `worlds` all Worlds that name this Universe, `namespaces` the
    Namespaces they live in. Raises nothing for what users write.
    """
    status = _status_before(universe)
    try:
        found = problems(universe)
        if found:
            raise Refusal(Reason.INVALID_SPEC, "; ".join(str(problem) for problem in found))
        return _plan(
            universe, UniverseSpec.model_validate(universe["spec"]), observed, worlds, namespaces, site, status
        )
    except Refusal as refusal:
        requeue = None if refusal.reason is Reason.INVALID_SPEC else LOOK_AGAIN
        return Plan(conditions=refusal.conditions, status=status, requeue=requeue)


def _plan(
    universe: Manifest,
    spec: UniverseSpec,
    observed: Observed,
    worlds: Sequence[Manifest],
    namespaces: Mapping[str, Manifest],
    site: Site,
    status: Mapping[str, Any],
) -> Plan:
    names = _names(universe)
    owner = Owner.of_universe(universe)
    owner.claim_names(_children(names, site), observed)
    authority = observed.get(names.authority(site.operator_namespace))
    generate = list(_to_generate(owner, names, observed, site))
    if generate or authority is None:
        conditions = (_ready(None, 0), Condition(type=ConditionType.RECONCILED, status=True, reason=Reason.APPLIED))
        return Plan(generate=tuple(generate), conditions=conditions, status=status, requeue=LOOK_AGAIN)
    ca_certificate, _ = secret_data.authority(authority)

    kept = observed.get(names.record)
    admitted = [
        world
        for world in worlds
        if membership.universe_of(world) == (names.namespace, names.name)
        and not problems(world)
        and membership.admits(
            spec, names.namespace, world["metadata"]["namespace"], namespaces.get(world["metadata"]["namespace"])
        )
    ]
    release = (universe["metadata"].get("annotations") or {}).get(labels.RELEASE_NAME)
    bindings = record.bound(
        record.bindings_of(kept), [record.Claimant.of(world) for world in admitted], release=release
    )
    version = spec.version or record.version_of(kept) or site.version
    routes = [route for world in admitted for route in _routes(world, bindings, site)]
    document = broker_config.settings(spec, routes)
    replicas = DEFAULT_REPLICAS if spec.broker is None else spec.broker.replicas or DEFAULT_REPLICAS

    apply = [
        broker_record.record(owner, names, bindings, version, kept),
        service_account.service_account(owner, names.service_account),
        broker_config.config(owner, names, document, ca_certificate),
        broker_network_policy.network_policy(owner, names, site),
        broker_service.service(owner, names),
        broker_deployment.deployment(
            owner,
            names,
            image=f"{site.images.broker}:{version}",
            replicas=replicas,
            config_hash=broker_config.restart_hash(document),
        ),
    ]
    if replicas > 1:
        apply.append(broker_deployment.disruption_budget(owner, names))
    ready = _ready(observed.get(names.deployment), replicas)
    return Plan(
        apply=tuple(apply),
        remove=() if replicas > 1 else tuple(_seen(names.disruption_budget, observed)),
        conditions=(ready, Condition(type=ConditionType.RECONCILED, status=True, reason=Reason.APPLIED)),
        status={"version": version, "endpoint": f"{spec.public_url}/mcp", "worlds": len(routes)},
        requeue=None if ready.status else LOOK_AGAIN,
    )


def _routes(world: Manifest, bindings: Mapping[str, record.Binding], site: Site) -> Iterable[dict[str, Any]]:
    """The entry of broker.yaml for a World that has its name and says who it is; else nothing."""
    metadata, status = world["metadata"], world.get("status") or {}
    history, incarnation = status.get("history"), status.get("incarnation")
    binding = bindings[metadata["name"]]
    if history and incarnation and binding == record.Binding(metadata["namespace"], history):
        names = WorldNames(metadata["namespace"], metadata["name"])
        access = WorldSpec.model_validate(world["spec"]).access
        yield broker_config.route(names, Identity(history=history, incarnation=incarnation), access, site)


def _ready(deployment: Manifest | None, replicas: int) -> Condition:
    ready = 0 if deployment is None else (deployment.get("status") or {}).get("readyReplicas") or 0
    if not ready:
        message = "no pod of the gateway is ready yet"
        return Condition(type=ConditionType.READY, status=False, reason=Reason.STARTING, message=message)
    message = "" if ready >= replicas else f"{ready} of {replicas} pods of the gateway are ready"
    return Condition(type=ConditionType.READY, status=True, reason=Reason.SERVING, message=message)


def _to_generate(owner: Owner, names: UniverseNames, observed: Observed, site: Site) -> Iterable[Generate]:
    if observed.get(names.authority(site.operator_namespace)) is None:
        yield broker_secrets.authority(owner, names, site)
    if observed.get(names.keys) is None:
        yield broker_secrets.keys(owner, names)


def _seen(ref: Ref, observed: Observed) -> Iterable[Remove]:
    found = observed.get(ref)
    if found is not None:
        yield Remove(ref=ref, uid=found["metadata"]["uid"])


def _names(universe: Manifest) -> UniverseNames:
    return UniverseNames(universe["metadata"]["namespace"], universe["metadata"]["name"])


def _status_before(universe: Manifest) -> dict[str, Any]:
    """The status so far, which a refusal leaves as it is."""
    status = universe.get("status") or {}
    return {key: status[key] for key in ("version", "endpoint", "worlds") if key in status}


def _children(names: UniverseNames, site: Site) -> tuple[Ref, ...]:
    return (
        names.authority(site.operator_namespace),
        names.keys,
        names.record,
        names.service_account,
        names.config,
        names.network_policy,
        names.service,
        names.deployment,
        names.disruption_budget,
    )
