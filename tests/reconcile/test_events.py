"""Events are told of transitions, and of nothing else."""

from __future__ import annotations

import dataclasses
from typing import Any

import pytest

from demarkus_operator.cluster.port import Forbidden
from demarkus_operator.plan.names import WorldNames
from demarkus_operator.plan.objects import Ref
from demarkus_operator.reconcile.concern import concern_of
from demarkus_operator.reconcile.loop import Outcome, reconcile
from demarkus_operator.reconcile.world import world_ref
from tests.reconcile.acme import Acme, a_settled, a_world

HANDBOOK = world_ref("acme", "handbook")


async def reconciled(acme: Acme, ref: Ref = HANDBOOK) -> None:
    """As a process that tells events."""
    edge = dataclasses.replace(acme.edge, instance="operator-0")
    await reconcile(edge, ref, concern_of(edge, ref), outcome=Outcome())


def told(acme: Acme) -> list[dict[str, Any]]:
    """The events, in the order in which they were told."""
    found = [one for ref, one in acme.port.objects.items() if ref.kind == "Event"]
    return sorted(found, key=lambda event: str(event["eventTime"]))


def reasons(acme: Acme) -> set[tuple[str, str]]:
    return {(event["type"], event["reason"]) for event in told(acme)}


async def test_a_new_world_is_told_of(acme: Acme) -> None:
    acme.port.put(a_world(universe=None))
    await reconciled(acme)
    assert {("Normal", "Starting"), ("Normal", "Applied")} <= reasons(acme)
    (starting,) = [event for event in told(acme) if event["reason"] == "Starting" and "Ready" in event["note"]]
    assert starting["regarding"]["name"] == "handbook"
    assert starting["regarding"]["uid"] == acme.port.objects[HANDBOOK]["metadata"]["uid"]
    assert starting["reportingInstance"] == "operator-0"
    assert starting["metadata"]["namespace"] == "acme"


async def test_what_stays_as_it_is_is_not_told_again(acme: Acme) -> None:
    acme.port.put(a_world(universe=None))
    await reconciled(acme)
    before = len(told(acme))
    for _ in range(3):
        await reconciled(acme)
    acme.port.put(a_world(universe=None, reads="public"))  # a write, but no transition
    await reconciled(acme)
    assert len(told(acme)) == before


async def test_a_world_that_becomes_ready_is_told_of_once(acme: Acme) -> None:
    await a_settled(acme, [a_world(universe=None)])
    acme.port.edit(WorldNames("acme", "handbook").stateful_set, "status", "readyReplicas", value=1)
    for _ in range(2):
        await reconciled(acme)
    assert [event["reason"] for event in told(acme) if "Ready is True" in event["note"]] == ["Serving"]


async def test_a_refusal_is_a_warning(acme: Acme) -> None:
    acme.port.put(a_world(universe=None, tokens=[{"name": "robot", "operations": ["read"], "paths": ["/[a"]}]))
    await reconciled(acme)
    assert reasons(acme) == {("Warning", "InvalidSpec")}


async def test_an_event_that_can_not_be_told_is_no_failure(acme: Acme) -> None:
    def no_events(verb: str, ref: Ref | None) -> None:
        if ref is not None and ref.kind == "Event":
            raise Forbidden("create Event: 403 Forbidden")

    acme.port.before = no_events
    acme.port.put(a_world(universe=None))
    await reconciled(acme)
    assert acme.condition(HANDBOOK, "Reconciled")["status"] == "True"


@pytest.mark.parametrize("message", ["", "x" * 5000])
async def test_a_note_is_bounded(acme: Acme, message: str) -> None:
    acme.port.put(a_world(universe=None))

    def refuse(verb: str, ref: Ref | None) -> None:
        if verb == "apply":
            raise Forbidden(f"apply: 403 Forbidden {message}")

    acme.port.before = refuse
    with pytest.raises(Forbidden):
        await reconciled(acme)
    assert all(len(event["note"]) <= 1024 for event in told(acme))
