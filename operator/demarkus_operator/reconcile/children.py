"""Makes a plan's objects true: read by name, create what is generated, apply what differs, remove what is left over.

It knows nothing of Worlds. Each step may fail; what came before stays, and the next reconcile begins anew from what is
there.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterable
from datetime import datetime
from typing import Any

from demarkus_operator import material
from demarkus_operator.cluster.apply import difference
from demarkus_operator.cluster.port import AlreadyExists, NotFound, Port, Refused
from demarkus_operator.plan.objects import Attempt, Change, Generate, Manifest, Observed, Plan, Ref

READS_AT_ONCE = 8

Denied = tuple[Attempt, Refused]
"""An attempt, and how the cluster refused it."""


async def read(port: Port, refs: Iterable[Ref]) -> Observed:
    """What is there of these, with None for what is not. Raises `PortError`."""
    gate = asyncio.Semaphore(READS_AT_ONCE)
    found: dict[Ref, Manifest | None] = {}

    async def read_one(ref: Ref) -> None:
        async with gate:
            try:
                found[ref] = await port.get(ref)
            except NotFound:
                found[ref] = None

    try:
        async with asyncio.TaskGroup() as group:
            for ref in refs:
                group.create_task(read_one(ref))
    except* Exception as failures:
        raise failures.exceptions[0] from None
    return found


async def generate(
    port: Port, wanted: Iterable[Generate], *, random: Callable[[int], bytes], now: datetime, written: list[str]
) -> None:
    """Creates generated objects. One that is there already counts, and what was made for it is thrown away.

    `written` gets a word on every write, also when a later one fails. Raises `PortError`.
    """
    for one in wanted:
        try:
            await port.create(one.filled(material.make(one.recipe, random=random, now=now)))
        except AlreadyExists:
            continue
        written.append(f"create {Ref.of(one.manifest)}")


async def change(
    port: Port, wanted: Iterable[Change], *, random: Callable[[int], bytes], now: datetime, written: list[str]
) -> None:
    """Makes guarded changes. Raises `Conflict` at the first object that is not the one that was looked at."""
    for one in wanted:
        made = material.make(one.recipe, random=random, now=now) if one.recipe else {}
        await port.patch(one.ref, one.filled(made), one.resource_version)
        written.append(f"patch {one.ref} ({one.why})")


async def carry_out(port: Port, plan: Plan, observed: Observed, *, written: list[str]) -> list[Denied]:
    """Applies, attempts and removes, in the plan's order; what is as it should be is not touched. Returns the attempts
    that were refused.

    An object is only changed or removed if it still is the one that was looked at (its uid). Raises `PortError`.
    """
    for manifest in plan.apply:
        await _apply(port, manifest, observed, written)
    denied = []
    for attempt in plan.attempts:
        try:
            await _apply(port, attempt.manifest, observed, written)
        except Refused as error:
            denied.append((attempt, error))
    for remove in plan.remove:
        await port.delete(remove.ref, uid=remove.uid)
        written.append(f"delete {remove.ref}")
    return denied


async def _apply(port: Port, manifest: Manifest, observed: Observed, written: list[str]) -> None:
    ref = Ref.of(manifest)
    live = observed[ref]  # a plan applies only what it looked at
    change = "it is absent" if live is None else difference(live, manifest)
    if change is not None:
        await port.apply(manifest if live is None else _guarded(manifest, live))
        written.append(f"apply {ref} ({change})")


def _guarded(manifest: Manifest, live: Manifest) -> dict[str, Any]:
    return {**manifest, "metadata": {**manifest["metadata"], "uid": live["metadata"]["uid"]}}
