"""Our finalizer: there while something outside the cluster hangs on the object, and the only one we touch."""

from __future__ import annotations

import dataclasses
from collections.abc import Awaitable, Callable

import pytest

from demarkus_operator.cluster.port import Conflict, TryLater
from demarkus_operator.plan.labels import FINALIZER
from demarkus_operator.plan.objects import Manifest, Observed, Plan, Ref
from demarkus_operator.reconcile.concern import concern_of
from demarkus_operator.reconcile.loop import Concern, Outcome, reconcile
from demarkus_operator.reconcile.world import world_ref
from tests.reconcile.acme import Acme, a_settled, a_world

HANDBOOK = world_ref("acme", "handbook")
THEIRS = "backup.example.com/keep"

Release = Callable[[Manifest], Awaitable[float | None]]


def finalizers(acme: Acme) -> list[str]:
    return list(acme.port.objects[HANDBOOK]["metadata"].get("finalizers") or ())


async def reconciled(acme: Acme, *, holds: bool = True, release: Release | None = None) -> Outcome:
    """A reconcile of a World whose plan says whether it holds something outside the cluster."""
    edge = acme.edge
    concern = concern_of(edge, HANDBOOK)

    async def plan(world: Manifest, observed: Observed) -> Plan:
        return dataclasses.replace(await concern.plan(world, observed), holds=holds)

    async def nothing(_: Manifest) -> None:
        return None

    holding: Concern = dataclasses.replace(concern, plan=plan, release=release or nothing)
    outcome = Outcome()
    await reconcile(edge, HANDBOOK, holding, outcome=outcome)
    return outcome


async def test_a_world_without_anything_outside_has_none(acme: Acme) -> None:
    await a_settled(acme)
    assert finalizers(acme) == []


async def test_it_is_there_before_anything_is_made(acme: Acme) -> None:
    acme.port.put(a_world(universe=None))
    await reconciled(acme)
    assert finalizers(acme) == [FINALIZER]
    assert acme.port.writes[0] == ("patch", HANDBOOK)


async def test_it_goes_when_it_is_not_wanted_any_more(acme: Acme) -> None:
    acme.port.put(a_world(universe=None))
    await reconciled(acme)
    await reconciled(acme, holds=False)
    assert finalizers(acme) == []


async def test_those_of_others_stay(acme: Acme) -> None:
    acme.port.put(a_world(universe=None))
    acme.port.edit(HANDBOOK, "metadata", "finalizers", value=[THEIRS])
    await reconciled(acme)
    assert finalizers(acme) == [THEIRS, FINALIZER]
    await reconciled(acme, holds=False)
    assert finalizers(acme) == [THEIRS]


async def test_one_that_came_in_between_is_not_overwritten(acme: Acme) -> None:
    acme.port.put(a_world(universe=None))

    def somebody_else(verb: str, ref: Ref | None) -> None:
        if (verb, ref) == ("patch", HANDBOOK):
            acme.port.before = lambda verb, ref: None
            acme.port.edit(HANDBOOK, "metadata", "finalizers", value=[THEIRS])

    acme.port.before = somebody_else
    with pytest.raises(Conflict):
        await reconciled(acme)
    await reconciled(acme)
    assert finalizers(acme) == [THEIRS, FINALIZER]


async def a_world_that_goes(acme: Acme) -> None:
    acme.port.put(a_world(universe=None))
    await reconciled(acme)
    acme.port.edit(HANDBOOK, "metadata", "deletionTimestamp", value="2026-12-01T00:00:00Z")


async def test_the_object_stays_until_the_rest_is_gone(acme: Acme) -> None:
    await a_world_that_goes(acme)
    answers: list[float | None] = [5.0, None]

    async def release(_: Manifest) -> float | None:
        return answers.pop(0)

    assert (await reconciled(acme, release=release)).requeue == 5.0
    assert finalizers(acme) == [FINALIZER]
    await reconciled(acme, release=release)
    assert finalizers(acme) == []


async def test_a_release_that_fails_is_told_and_tried_again(acme: Acme) -> None:
    await a_world_that_goes(acme)

    async def release(_: Manifest) -> float | None:
        raise RuntimeError("the bucket does not answer")

    with pytest.raises(RuntimeError):
        await reconciled(acme, release=release)
    assert finalizers(acme) == [FINALIZER]
    assert acme.condition(HANDBOOK, "Reconciled")["reason"] == "InternalError"


async def test_nothing_is_released_for_a_world_that_holds_nothing(acme: Acme) -> None:
    acme.port.put(a_world(universe=None))
    acme.port.edit(HANDBOOK, "metadata", "finalizers", value=[THEIRS])
    acme.port.edit(HANDBOOK, "metadata", "deletionTimestamp", value="2026-12-01T00:00:00Z")

    async def release(_: Manifest) -> float | None:
        raise TryLater("nobody should ask")

    await reconciled(acme, release=release)
    assert finalizers(acme) == [THEIRS]
