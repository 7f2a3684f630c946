"""The plan of a Universe: who belongs to it, and the gateway that leads there."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from datetime import datetime
from typing import Any

from demarkus_operator.api.check import problems
from demarkus_operator.api.conditions import Condition, ConditionType, Reason
from demarkus_operator.api.gateway import Broker
from demarkus_operator.api.universe import UniverseSpec, Worlds
from demarkus_operator.plan import (
    gateway,
    issuance_universe,
    keeping,
    labels,
    membership,
    pause,
    record,
    references,
    rotation,
    rotation_universe,
)
from demarkus_operator.plan.children import (
    broker_config,
    broker_deployment,
    broker_network_policy,
    broker_record,
    broker_route,
    broker_secrets,
    broker_service,
    disruption_budget,
    service_account,
)
from demarkus_operator.plan.names import UniverseNames
from demarkus_operator.plan.objects import Generate, Manifest, Observed, Plan, Ref, Remove
from demarkus_operator.plan.owner import Owner
from demarkus_operator.plan.refusal import Refusal
from demarkus_operator.plan.reports import Report
from demarkus_operator.plan.routes import Member, routes
from demarkus_operator.plan.site import Site
from demarkus_operator.plan.versions import Versions, versions_of
from demarkus_operator.plan.workload import Finding, Workload, degraded, paused, progressing

LOOK_AGAIN = 30.0
"""Seconds after which a Universe that waits for something is looked at even if nothing was heard."""


def universe_reads(universe: Manifest, site: Site) -> tuple[Ref, ...]:
    """Everything that the plan of this Universe looks at, by name, besides its Worlds and their namespaces."""
    if problems(universe):
        return ()
    names = _names(universe)
    spec = UniverseSpec.model_validate(universe["spec"])
    named = references.of_universe(spec, names.namespace)
    return tuple(dict.fromkeys([*_children(names, site), *_optional(names, spec), *named]))


def later_reads(universe: Manifest, observed: Observed, site: Site) -> tuple[Ref, ...]:
    """What it looks at besides, of which the names are known only once the rest was read."""
    return issuance_universe.reads(universe, observed, site)


def plan_universe(
    universe: Manifest,
    observed: Observed,
    worlds: Sequence[Manifest],
    namespaces: Mapping[str, Manifest],
    site: Site,
    now: datetime,
    reports: Sequence[Report] = (),
) -> Plan:
    """The plan.

    `observed` has what was read of `universe_reads` and `later_reads`, `worlds` all Worlds that name this Universe,
    `namespaces` the Namespaces they live in, `reports` what the gateway's processes say. Raises nothing for what users
    write.
    """
    status = _status_before(universe)
    try:
        found = problems(universe)
        if found:
            raise Refusal(Reason.INVALID_SPEC, "; ".join(str(problem) for problem in found))
        return _plan(
            universe,
            UniverseSpec.model_validate(universe["spec"]),
            observed,
            worlds,
            namespaces,
            site,
            now,
            status,
            reports,
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
    now: datetime,
    status: Mapping[str, Any],
    reports: Sequence[Report],
) -> Plan:
    names = _names(universe)
    owner = Owner.of_universe(universe)
    optional = _optional(names, spec)
    owner.claim_names([*_children(names, site), *(ref for ref, wanted in optional.items() if wanted)], observed)
    generate = list(_to_generate(owner, names, observed, site))
    if generate:
        return Plan(
            generate=tuple(generate),
            conditions=_conditions(Workload(wanted=1)),
            status=status,
            requeue=LOOK_AGAIN,
        )
    trust = rotation_universe.trust_of(universe, spec, owner, names, observed, worlds, reports, site, now)
    if change := rotation.one_of_each((*trust.change, *keeping.changes(owner, [names.keys], observed))):
        return Plan(change=change, conditions=_conditions(Workload(wanted=1)), status=status, requeue=LOOK_AGAIN)

    kept = observed.get(names.record)
    members = [
        Member.of(world)
        for world in worlds
        if membership.universe_of(world) == (names.namespace, names.name)
        and membership.admits(
            spec, names.namespace, world["metadata"]["namespace"], namespaces.get(world["metadata"]["namespace"])
        )
    ]
    annotations = universe["metadata"].get("annotations") or {}
    bindings = record.bound(
        record.bindings_of(kept),
        [record.Claimant.of(member.world) for member in members if member.spec is not None],
        release=annotations.get(labels.RELEASE_NAME),
    )
    replicas = broker_deployment.replicas_of(spec)
    deployed = observed.get(names.deployment)
    versions = versions_of(universe, spec, kept, members, deployed, replicas, site, now)
    found = routes(members, bindings, site, observed.get(names.config))
    document, findings = gateway.document_of(spec, names, found, observed)
    config = broker_config.config(owner, names, document, trust.bundle)
    too_large = list(gateway.too_large(config, found))
    if too_large and observed.get(names.config) is None:
        raise Refusal(*too_large[0])
    template = (spec.broker or Broker()).template
    restart = {labels.CONFIG_HASH: broker_config.restart_hash(document)}
    if labels.RESTARTED_AT in annotations:
        restart[labels.RESTARTED_AT] = annotations[labels.RESTARTED_AT]

    apply = [
        broker_record.record(
            owner,
            names,
            bindings,
            (spec.worlds or Worlds()).defaults,
            version=versions.note,
            rollout=versions.rollout,
            seen=kept,
        ),
        service_account.service_account(owner, names.service_account, acts_as=_google_account(spec)),
        *(() if too_large else (config,)),
        broker_service.service(owner, names),
        broker_deployment.deployment(
            owner,
            names,
            spec,
            image=(None if template is None else template.image) or versions.gateway,
            annotations=restart,
            pull_secrets=site.images.pull_secrets,
        ),
    ]
    if optional[names.network_policy]:
        apply.append(broker_network_policy.network_policy(owner, names, spec, site))
    if optional[names.disruption_budget]:
        selector = labels.broker_selector(owner.name)
        apply.append(disruption_budget.disruption_budget(owner, names.disruption_budget, selector))
    if spec.broker is not None and spec.broker.ingress is not None:
        apply.append(broker_route.route(owner, names, spec.broker.ingress, spec.public_url))
    remove = [*trust.issuance.remove]
    remove += [removal for ref, wanted in optional.items() if not wanted for removal in _seen(ref, owner, observed)]
    is_paused = pause.is_paused(universe)
    if is_paused:
        files = {names.config: broker_config.CONFIG_FILE}
        apply, remove = list(pause.going_on(apply, observed, files=files, records=(names.record,))), []
    findings = [*findings, *too_large, *versions.findings, *trust.issuance.findings]
    conditions = versions.told(_conditions(Workload.of(deployed, replicas), findings, is_paused=is_paused))
    conditions = rotation.told(conditions, trust.waits, trust.late)
    return Plan(
        apply=tuple(apply),
        attempts=() if is_paused else trust.issuance.attempts,
        remove=tuple(remove),
        conditions=conditions,
        status={**versions.status(), "endpoint": f"{spec.public_url}/mcp", "worlds": len(found)},
        requeue=rotation.soonest(_requeue(versions, conditions), trust.requeue),
    )


def _conditions(
    workload: Workload, findings: Sequence[Finding] = (), *, is_paused: bool = False
) -> tuple[Condition, ...]:
    """The conditions of a Universe that is not refused. What waits for a pause to end says nothing of `Reconciled`."""
    reconciled = Condition(type=ConditionType.RECONCILED, status=True, reason=Reason.APPLIED)
    return (
        _ready(workload),
        progressing(workload),
        degraded(findings),
        paused(is_paused),
        *(() if is_paused else (reconciled,)),
    )


def _requeue(versions: Versions, conditions: Iterable[Condition]) -> float | None:
    if versions.progress is not None and versions.progress.requeue is not None:
        return versions.progress.requeue
    return LOOK_AGAIN if _in_motion(conditions) else None


def _in_motion(conditions: Iterable[Condition]) -> bool:
    """Whether something is waited for that may not be heard of."""
    status = {condition.type: condition.status for condition in conditions}
    return not status[ConditionType.READY] or status[ConditionType.PROGRESSING] or bool(status[ConditionType.DEGRADED])


def _ready(workload: Workload) -> Condition:
    if not workload.ready:
        message = "no pod of the gateway is ready yet"
        return Condition(type=ConditionType.READY, status=False, reason=Reason.STARTING, message=message)
    few = workload.ready < workload.wanted
    message = f"{workload.ready} of {workload.wanted} pods of the gateway are ready" if few else ""
    return Condition(type=ConditionType.READY, status=True, reason=Reason.SERVING, message=message)


def _google_account(spec: UniverseSpec) -> str | None:
    state = (spec.broker or Broker()).state
    return state.gcs.service_account if state is not None and state.gcs is not None else None


def _to_generate(owner: Owner, names: UniverseNames, observed: Observed, site: Site) -> Iterable[Generate]:
    if observed.get(names.authority(site.operator_namespace)) is None:
        yield broker_secrets.authority(owner, names, site)
    if observed.get(names.keys) is None:
        yield broker_secrets.keys(owner, names)


def _seen(ref: Ref, owner: Owner, observed: Observed) -> Iterable[Remove]:
    found = observed.get(ref)
    if found is not None and owner.has(found):
        yield Remove(ref=ref, uid=found["metadata"]["uid"])


def _names(universe: Manifest) -> UniverseNames:
    return UniverseNames(universe["metadata"]["namespace"], universe["metadata"]["name"])


def _status_before(universe: Manifest) -> dict[str, Any]:
    """The status so far, which a refusal leaves as it is."""
    status = universe.get("status") or {}
    return {key: status[key] for key in ("version", "endpoint", "worlds", "rollout") if key in status}


def _children(names: UniverseNames, site: Site) -> tuple[Ref, ...]:
    return (
        names.authority(site.operator_namespace),
        names.keys,
        names.record,
        names.service_account,
        names.config,
        names.service,
        names.deployment,
    )


def _optional(names: UniverseNames, spec: UniverseSpec) -> dict[Ref, bool]:
    """Children that not every Universe has, and whether this one has them."""
    ingress = (spec.broker or Broker()).ingress
    return {
        names.network_policy: spec.network_policy is None or spec.network_policy.enabled is not False,
        names.disruption_budget: broker_deployment.replicas_of(spec) > 1,
        names.ingress: ingress is not None and ingress.gateway is None,
        names.http_route: ingress is not None and ingress.gateway is not None,
    }
