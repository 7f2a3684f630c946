"""One reconcile of one object: read, plan, generate, apply, remove, write the status.

Everything is decided from what is there now, so it does not matter what was heard, in which order, or how often; a
reconcile that ends in the middle is taken up by the next. It needs only the port: the local runner uses the same loop.
"""

from __future__ import annotations

import contextlib
from collections.abc import Awaitable, Callable
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any

from demarkus_operator.api.conditions import Reason
from demarkus_operator.cluster.port import Conflict, NotFound, Port, PortError, Refused, TryLater
from demarkus_operator.plan.objects import Manifest, Observed, Plan, Ref
from demarkus_operator.plan.site import Site
from demarkus_operator.processes.port import NobodyAsks, Processes
from demarkus_operator.reconcile import children, status
from demarkus_operator.witness.port import NobodyWitnesses, Witness

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
        namespaces: where Worlds and Universes are looked after; empty for everywhere.
    """

    port: Port
    site: Site
    now: Callable[[], datetime]
    random: Callable[[int], bytes]
    processes: Processes = field(default_factory=NobodyAsks)
    witness: Witness = field(default_factory=NobodyWitnesses)
    namespaces: tuple[str, ...] = ()


@dataclass(slots=True, kw_only=True)
class Outcome:
    """What a reconcile did; filled while it runs, so that it also tells of one that failed.

    Attributes:
        generation: the `metadata.generation` that was looked at; None when the object is gone.
        written: a word on every write.
        requeue: seconds after which to look again, or None.
        ready: what `Ready` came out as: its reason, or empty.
    """

    generation: int | None = None
    written: list[str] = field(default_factory=list)
    requeue: float | None = None
    ready: str = ""


class NotSettled(Exception):
    """A planner that never stops asking for material: a bug."""


Look = Callable[[Manifest], Awaitable[tuple[Observed, Plan]]]
"""Reads what an object's plan is made of, and makes it."""


async def reconcile(edge: Edge, ref: Ref, look: Look, *, outcome: Outcome, attempt: int = 1) -> None:
    """One reconcile. Raises `PortError` if it was not carried out; the status says why if that will not pass by itself.

    `attempt` counts from 1 while reconciles of this object fail in a row.
    """
    try:
        subject = await edge.port.get(ref)
    except NotFound:
        return
    if "deletionTimestamp" in subject["metadata"]:
        return  # its children go with it; making one anew would be in the way
    outcome.generation = subject["metadata"].get("generation", 0)
    plan: Plan | None = None
    try:
        observed, plan = await _with_material(edge, subject, look, outcome)
        denied = await children.carry_out(edge.port, plan, observed, written=outcome.written)
        plan = status.with_denials(plan, denied)
    except Exception as error:
        reason = _reason(error, attempt)
        if reason is not None:
            message = str(error) if isinstance(error, PortError) else f"{type(error).__name__}; see the operator's log"
            with contextlib.suppress(PortError):  # what failed before is what matters
                told = status.failed(subject, plan, reason, message, now=edge.now())
                await _write_status(edge, subject, told, outcome)
        raise
    await _write_status(edge, subject, status.planned(subject, plan, now=edge.now()), outcome)
    outcome.requeue = plan.requeue


async def _with_material(edge: Edge, subject: Manifest, look: Look, outcome: Outcome) -> tuple[Observed, Plan]:
    """The plan once there is nothing left to generate or change."""
    for _ in range(ROUNDS):
        observed, plan = await look(subject)
        if not plan.generate and not plan.change:
            return observed, plan
        made: dict[str, Any] = {"random": edge.random, "now": edge.now(), "written": outcome.written}
        await children.generate(edge.port, plan.generate, **made)
        await children.change(edge.port, plan.change, **made)
    raise NotSettled(f"{Ref.of(subject)}: after {ROUNDS} rounds there is still material to make")


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
    outcome.ready = next((entry["reason"] for entry in wanted["conditions"] if entry["type"] == "Ready"), "")
    patch = status.change(status.of(subject), wanted)
    if not patch:
        return
    ref = Ref.of(subject)
    with contextlib.suppress(NotFound):  # deleted in between
        await edge.port.patch_status(ref, patch)
        outcome.written.append(f"patch {ref} status ({', '.join(sorted(patch))})")
