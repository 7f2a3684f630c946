"""One reconcile of one object: read, plan, generate, apply, remove, write the status, tell events.

Everything is decided from what is there now, so it does not matter what was heard, in which order, or how often; a
reconcile that ends in the middle is taken up by the next. It needs only the port: the local runner uses the same loop.
"""

from __future__ import annotations

import contextlib
import logging
from collections.abc import Awaitable, Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any

from demarkus_operator.api.conditions import Reason
from demarkus_operator.buckets.port import Buckets, NoBuckets
from demarkus_operator.cluster.port import Conflict, NotFound, Port, PortError, Refused, TryLater
from demarkus_operator.plan.objects import Manifest, Observed, Plan, Ref
from demarkus_operator.plan.site import Site
from demarkus_operator.processes.port import NobodyAsks, Processes
from demarkus_operator.reconcile import children, finalizer, status
from demarkus_operator.reconcile.children import Writes
from demarkus_operator.reconcile.events import Conditions, transitions
from demarkus_operator.reconcile.observe import Family, Shared, named, observe
from demarkus_operator.witness.port import NobodyWitnesses, Witness

logger = logging.getLogger(__name__)

ROUNDS = 8
"""How many times one reconcile may plan. Each round needs the material that the one before made."""
PATIENCE = 3
"""Reconciles in a row that fail for reasons that pass by themselves before the status says so."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Edge:
    """What a reconcile touches the world with.

    Attributes:
        port: the cluster.
        site: the operator's surroundings, handed to the planner.
        now: the time, in UTC.
        random: random bytes for generated material (`os.urandom`).
        processes: what runs, and what it says.
        witness: who asks Worlds to prove their history.
        buckets: the buckets that Worlds may be in.
        namespaces: where Worlds and Universes are looked after; empty for everywhere.
        instance: the process, as events name it; without it no events are told.
        saw: told of every child that a reconcile of its owner saw, so that its echo is no news.
    """

    port: Port
    site: Site
    now: Callable[[], datetime]
    random: Callable[[int], bytes]
    processes: Processes = field(default_factory=NobodyAsks)
    witness: Witness = field(default_factory=NobodyWitnesses)
    buckets: Buckets = field(default_factory=NoBuckets)
    namespaces: tuple[str, ...] = ()
    instance: str = ""
    saw: Callable[[Manifest], None] = lambda _: None


@dataclass(slots=True, kw_only=True)
class Outcome:
    """What a reconcile did; filled while it runs, so that it also tells of one that failed.

    Attributes:
        generation: the `metadata.generation` that was looked at; None when the object is gone.
        writes: what was written.
        requeue: seconds after which to look again, or None.
        ready: what `Ready` came out as: its reason, or empty.
        wakes: whom it made something for that they may have waited for.
    """

    generation: int | None = None
    writes: Writes = field(default_factory=Writes)
    requeue: float | None = None
    ready: str = ""
    wakes: Sequence[Ref] = ()

    @property
    def written(self) -> list[str]:
        """A word on every write."""
        return self.writes.words


class NotSettled(Exception):
    """A planner that never stops asking for material: a bug."""


async def _nothing_outside(_: Manifest) -> float | None:
    return None


@dataclass(frozen=True, slots=True, kw_only=True)
class Concern:
    """What makes the reconcile of a World that of a World.

    Attributes:
        family: how its children are found.
        reads: everything that its plan looks at, by name.
        then: what is looked at besides, once the names of it are known from the rest.
        plan: makes the plan from what was observed.
        release: lets go of what is outside the cluster before the object goes: None when nothing is left, else the
            seconds after which to try again. Only asked of an object that has our finalizer.
        wakes: from the names of what was written to those who may have waited for it.
    """

    family: Callable[[Manifest], Family]
    reads: Callable[[Manifest], tuple[Ref, ...]]
    plan: Callable[[Manifest, Observed], Awaitable[Plan]]
    then: Callable[[Manifest, Observed], tuple[Ref, ...]] = lambda _, __: ()
    release: Callable[[Manifest], Awaitable[float | None]] = _nothing_outside
    wakes: Callable[[Sequence[Ref]], Sequence[Ref]] = lambda _: ()


@dataclass(frozen=True, slots=True, kw_only=True)
class Seen:
    """An object as a look at the whole cluster found it: itself, its children, and what others read already."""

    subject: Manifest
    children: Mapping[Ref, Manifest]
    shared: Shared


async def glance(edge: Edge, concern: Concern, seen: Seen, *, outcome: Outcome) -> bool:
    """Whether nothing has to be done, judged by what was seen a while ago; nothing is written. Raises `PortError`.

    A wrong yes does no harm: whatever changed since was heard of, or is found by the next look at everything.
    """
    subject = seen.subject
    if "deletionTimestamp" in subject["metadata"]:
        return False
    observed = await _observed(edge, subject, concern, children=seen.children, shared=seen.shared)
    plan = await concern.plan(subject, observed)
    wanted = status.planned(subject, plan, now=edge.now())
    if plan.generate or plan.change or plan.outside or plan.remove or plan.holds != finalizer.holds(subject):
        return False
    if next(iter(children.differences(plan, observed)), None) or status.change(status.of(subject), wanted):
        return False
    outcome.generation = subject["metadata"].get("generation", 0)
    outcome.ready = _ready(wanted)
    outcome.requeue = plan.requeue
    return True


async def reconcile(edge: Edge, ref: Ref, concern: Concern, *, outcome: Outcome, attempt: int = 1) -> None:
    """One reconcile. Raises `PortError` if it was not carried out; the status says why if that will not pass by itself.

    `attempt` counts from 1 while reconciles of this object fail in a row.
    """
    try:
        subject = await edge.port.get(ref)
    except NotFound:
        return
    outcome.generation = subject["metadata"].get("generation", 0)
    goes = "deletionTimestamp" in subject["metadata"]
    if goes and not finalizer.holds(subject):
        return  # its children go with it; making one anew would be in the way
    plan: Plan | None = None
    try:
        if goes:
            outcome.requeue = await concern.release(subject)
            if outcome.requeue is None:
                await finalizer.hold(edge.port, subject, False, writes=outcome.writes)
            return
        subject, observed, plan = await _settled(edge, subject, concern, outcome)
        denied = await children.carry_out(edge.port, plan, observed, writes=outcome.writes, saw=edge.saw)
        plan = status.with_denials(plan, denied)
    except Exception as error:
        reason = _reason(error, attempt)
        if reason is not None:
            message = str(error) if isinstance(error, PortError) else f"{type(error).__name__}; see the operator's log"
            with contextlib.suppress(PortError):  # what failed before is what matters
                told = status.failed(subject, plan, reason, message, now=edge.now())
                await _write_status(edge, subject, told, outcome)
        raise
    finally:
        outcome.wakes = concern.wakes(outcome.writes.refs)
    await _write_status(edge, subject, status.planned(subject, plan, now=edge.now()), outcome)
    outcome.requeue = plan.requeue


async def _settled(
    edge: Edge, subject: Manifest, concern: Concern, outcome: Outcome
) -> tuple[Manifest, Observed, Plan]:
    """The plan once there is nothing left to generate or change, and what it was made from."""
    family = concern.family(subject)
    strays: dict[Ref, Manifest | None] = {}  # what no list had, by name
    for _ in range(ROUNDS):
        observed = await _observed(edge, subject, concern)
        for ref, child in observed.items():
            if child is not None and family.has(ref):
                edge.saw(child)
        observed |= {ref: stray for ref, stray in strays.items() if observed.get(ref) is None}
        plan = await concern.plan(subject, observed)
        subject = await finalizer.hold(edge.port, subject, plan.holds, writes=outcome.writes)
        unseen = [ref for ref in _to_be_made(plan, observed, family) if ref not in strays]
        if unseen:
            found = await named(edge.port, unseen)
            strays.update(found)
            if any(found.values()):
                continue
        if not plan.generate and not plan.change and not plan.outside:
            return subject, observed, plan
        made: dict[str, Any] = {"random": edge.random, "now": edge.now(), "writes": outcome.writes}
        await children.generate(edge.port, plan.generate, **made)
        await children.change(edge.port, plan.change, **made)
        for step in plan.outside:
            await edge.buckets.carry_out(step)
            outcome.writes.words.append(f"{type(step).__name__.lower()} bucket {step.bucket}")
        strays.clear()
    raise NotSettled(f"{Ref.of(subject)}: after {ROUNDS} rounds there is still material to make")


async def _observed(
    edge: Edge,
    subject: Manifest,
    concern: Concern,
    *,
    children: Mapping[Ref, Manifest] | None = None,
    shared: Shared | None = None,
) -> dict[Ref, Manifest | None]:
    """Everything that the plan looks at; `children` and `shared` as for `observe`."""
    cluster_wide = not edge.namespaces
    reads, family = concern.reads(subject), concern.family(subject)
    observed = await observe(edge.port, reads, family, cluster_wide=cluster_wide, children=children, shared=shared)
    more = [ref for ref in concern.then(subject, observed) if ref not in observed]
    return {**observed, **await named(edge.port, more, cluster_wide=cluster_wide)}


def _to_be_made(plan: Plan, observed: Observed, family: Family) -> Iterator[Ref]:
    """Children that no list had and that are about to be made: now, or once what is generated is there."""
    later = [ref for ref in observed if family.has(ref)] if plan.generate else []
    applied = (*plan.apply, *(attempt.manifest for attempt in plan.attempts))
    for ref in (*(Ref.of(manifest) for manifest in applied), *later):
        if observed.get(ref) is None and family.has(ref):
            yield ref


def _reason(error: Exception, attempt: int) -> Reason | None:
    """What the status should give as the reason, or None if it should say nothing yet."""
    match error:
        case Conflict():
            return None  # somebody else wrote in between; the next one sees it
        case TryLater():
            return Reason.TRY_LATER if attempt >= PATIENCE else None
        case Refused() | NotFound():  # what is not found here is a namespace or a kind
            return Reason.REFUSED
        case _:
            return Reason.INTERNAL_ERROR


async def _write_status(edge: Edge, subject: Manifest, wanted: dict[str, Any], outcome: Outcome) -> None:
    outcome.ready = _ready(wanted)
    before = status.of(subject)
    patch = status.change(before, wanted)
    if not patch:
        return
    ref = Ref.of(subject)
    try:
        await edge.port.patch_status(ref, patch)
    except NotFound:
        return  # deleted in between
    outcome.writes.note("patch", ref, f"status: {', '.join(sorted(patch))}")
    await _tell(edge, subject, before.get("conditions", ()), wanted["conditions"])


async def _tell(edge: Edge, subject: Manifest, before: Conditions, after: Conditions) -> None:
    if not edge.instance:
        return
    suffix = edge.random(5).hex()
    for event in transitions(subject, before, after, now=edge.now(), instance=edge.instance, suffix=suffix):
        try:
            await edge.port.create(event)
        except PortError as error:  # the status says the same; a namespace that goes away takes no events
            logger.info("can't tell an event", extra={"fields": {"error": str(error)}})


def _ready(wanted: Mapping[str, Any]) -> str:
    return next((str(entry["reason"]) for entry in wanted["conditions"] if entry["type"] == "Ready"), "")
