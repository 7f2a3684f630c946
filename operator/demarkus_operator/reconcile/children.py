"""Makes a plan's objects true: create what is generated, apply what differs, remove what is left over.

It knows nothing of Worlds. Each step may fail; what came before stays, and the next reconcile begins anew from what is
there.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any

from demarkus_operator import material
from demarkus_operator.cluster.apply import difference
from demarkus_operator.cluster.port import AlreadyExists, Invalid, NotFound, Port, Refused
from demarkus_operator.plan.objects import Attempt, Change, Generate, Manifest, Observed, Plan, Ref

Denied = tuple[Attempt, Refused | NotFound]
"""An attempt, and how the cluster refused it, or that it does not know the kind."""


@dataclass(slots=True)
class Writes:
    """What was written, also by a reconcile that failed later: a word on every write, and whose objects they were."""

    words: list[str] = field(default_factory=list)
    refs: list[Ref] = field(default_factory=list)

    def note(self, verb: str, ref: Ref, why: str = "") -> None:
        """One more."""
        self.words.append(f"{verb} {ref}" + (f" ({why})" if why else ""))
        self.refs.append(ref)


async def generate(
    port: Port, wanted: Iterable[Generate], *, random: Callable[[int], bytes], now: datetime, writes: Writes
) -> None:
    """Creates generated objects. One that is there already counts, and what was made for it is thrown away.

    Raises `PortError`.
    """
    for one in wanted:
        try:
            await port.create(one.filled(material.make(one.recipe, random=random, now=now)))
        except AlreadyExists:
            continue
        writes.note("create", Ref.of(one.manifest))


async def change(
    port: Port, wanted: Iterable[Change], *, random: Callable[[int], bytes], now: datetime, writes: Writes
) -> None:
    """Makes guarded changes. Raises `Conflict` at the first object that is not the one that was looked at."""
    for one in wanted:
        made = material.make(one.recipe, random=random, now=now) if one.recipe else {}
        await port.patch(one.ref, one.filled(made), one.resource_version)
        writes.note("patch", one.ref, one.why)


def differences(plan: Plan, observed: Observed) -> Iterator[tuple[Manifest, str]]:
    """The objects of a plan that are not as they should be, and the first place where they differ."""
    for manifest in (*plan.apply, *(attempt.manifest for attempt in plan.attempts)):
        differs = _differs(manifest, observed)
        if differs is not None:
            yield manifest, differs


async def carry_out(
    port: Port, plan: Plan, observed: Observed, *, writes: Writes, saw: Callable[[Manifest], None] = lambda _: None
) -> list[Denied]:
    """Applies, attempts and removes, in the plan's order; what is as it should be is not touched. Returns the attempts
    that were refused.

    An object is only changed or removed if it still is the one that was looked at (its uid). `saw` is told what became
    of each. Raises `PortError`.
    """

    async def apply(manifest: Manifest) -> None:
        differs = _differs(manifest, observed)
        if differs is not None:
            ref = Ref.of(manifest)
            live = observed.get(ref)
            saw(await (port.apply(manifest) if live is None else _put_right(port, manifest, live)))
            writes.note("apply", ref, differs)

    for manifest in plan.apply:
        await apply(manifest)
    denied = []
    for attempt in plan.attempts:
        try:
            await apply(attempt.manifest)
        except (Refused, NotFound) as error:
            denied.append((attempt, error))
    for remove in plan.remove:
        await port.delete(remove.ref, uid=remove.uid)
        writes.note("delete", remove.ref)
    return denied


def _differs(manifest: Manifest, observed: Observed) -> str | None:
    live = observed.get(Ref.of(manifest))
    return "it is absent" if live is None else difference(live, manifest)


async def _put_right(port: Port, manifest: Manifest, live: Manifest) -> Manifest:
    """Applies over what is there. An apply leaves what others put into a list, and that may be in the way of ours (a
    port of the same name); then the lists are first made what they should be.
    """
    try:
        return await port.apply(_guarded(manifest, live))
    except Invalid as refused:
        names = ("apiVersion", "kind", "metadata")
        content = {key: value for key, value in manifest.items() if key not in names}
        try:
            await port.patch(Ref.of(manifest), content, live["metadata"]["resourceVersion"])
        except Invalid:
            raise refused from None
        return await port.apply(_guarded(manifest, live))


def _guarded(manifest: Manifest, live: Manifest) -> dict[str, Any]:
    return {**manifest, "metadata": {**manifest["metadata"], "uid": live["metadata"]["uid"]}}
