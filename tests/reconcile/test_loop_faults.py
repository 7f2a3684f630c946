"""The loop when things go wrong: conflicts, refusals, a server that is busy or gone."""

from __future__ import annotations

import asyncio
import json
from typing import Any

import pytest

from demarkus_operator.cluster.port import (
    AlreadyExists,
    Conflict,
    Forbidden,
    Invalid,
    NotFound,
    PortError,
    Refused,
    TryLater,
)
from demarkus_operator.plan.names import UniverseNames
from demarkus_operator.plan.objects import Ref
from demarkus_operator.reconcile.loop import PATIENCE
from demarkus_operator.reconcile.universe import universe_ref
from demarkus_operator.reconcile.world import world_ref
from tests.reconcile.acme import Acme, a_settled, a_world, an_example, shape
from tests.reconcile.memory import READS

HANDBOOK = world_ref("acme", "handbook")
ACME = universe_ref("acme", "acme")


async def a_run_with(acme: Acme, fault: Any) -> None:
    """Creates the example while a fault is in force: passes as the queue would make them, until it is over."""
    acme.port.before = fault
    for manifest in an_example():
        acme.port.put(manifest)
    for _ in range(3):
        await acme.one_pass()


@pytest.mark.parametrize("verb", ["create", "apply", "patch_status", "delete"])
async def test_conflict_on_each_write_once(acme: Acme, verb: str) -> None:
    refused: set[Ref | None] = set()

    def fault(called: str, ref: Ref | None) -> None:
        if called == verb and ref not in refused:
            refused.add(ref)
            raise AlreadyExists("409") if verb == "create" and ref in acme.port.objects else Conflict("409")

    await a_run_with(acme, fault)
    await acme.converge()
    acme.port.put(a_world("packages"))
    await acme.converge()
    assert refused
    assert shape(acme) == shape(await a_settled(Acme(), [*an_example()[:2], a_world("packages")])) | {
        ref: value for ref, value in shape(acme).items() if ref.name == "packages-token-importer"
    }


@pytest.mark.parametrize(
    "error", [TryLater("429", delay=1), TryLater("503"), Forbidden("403"), Invalid("422")], ids=str
)
@pytest.mark.parametrize("verb", ["get", "list", "create", "apply", "patch_status"])
async def test_a_failing_verb_leaves_nothing_behind(acme: Acme, verb: str, error: PortError) -> None:
    def fault(called: str, ref: Ref | None) -> None:
        # The listing of the test's own passes is not the operator's.
        if called == verb and not (verb == "list" and asyncio.current_task() is passes):
            raise error

    passes = asyncio.current_task()
    await a_run_with(acme, fault)
    acme.port.before = lambda verb, ref: None
    await acme.converge()
    assert shape(acme) == shape(await a_settled(Acme()))


async def test_a_write_that_happened_although_it_failed_is_found(acme: Acme) -> None:
    """A connection that breaks after the API server did its work."""
    broken: set[tuple[str, Ref | None]] = set()

    def fault(verb: str, ref: Ref | None) -> None:
        if verb not in READS and (verb, ref) not in broken:
            broken.add((verb, ref))
            raise TryLater("connection reset")

    acme.port.after = fault
    for manifest in an_example():
        acme.port.put(manifest)
    for _ in range(40):
        await acme.one_pass()
    await acme.converge()
    assert shape(acme) == shape(await a_settled(Acme()))


async def test_a_refusal_by_the_cluster_is_told_in_the_status(acme: Acme) -> None:
    def quota(verb: str, ref: Ref | None) -> None:
        if verb == "apply" and ref and ref.kind == "PersistentVolumeClaim" and ref.name.startswith("handbook"):
            raise Forbidden(f"apply {ref}: 403 Forbidden: exceeded quota: storage")

    acme.port.before = quota
    await a_settled_but_for_failures(acme)
    condition = acme.condition(HANDBOOK, "Reconciled")
    assert (condition["status"], condition["reason"]) == ("False", "Refused")
    assert "exceeded quota: storage" in condition["message"]
    assert acme.condition(HANDBOOK)["status"] == "False"
    assert acme.condition(world_ref("acme", "packages"), "Reconciled")["status"] == "True"


async def a_settled_but_for_failures(acme: Acme) -> None:
    for manifest in an_example():
        acme.port.put(manifest)
    for _ in range(4):
        await acme.one_pass()


async def test_a_refusal_is_written_once_and_cleared(acme: Acme) -> None:
    def webhook(verb: str, ref: Ref | None) -> None:
        if verb == "apply":
            raise Invalid("apply: 422 Invalid: not today")

    acme.port.put(a_world(universe=None))
    acme.port.before = webhook
    for _ in range(3):
        with pytest.raises(Invalid):
            await acme.reconcile(HANDBOOK)
    assert [verb for verb, _ in acme.port.writes].count("patch_status") == 1
    acme.port.before = lambda verb, ref: None
    await acme.converge()
    assert acme.condition(HANDBOOK, "Reconciled")["status"] == "True"


async def test_what_passes_by_itself_is_told_only_when_it_lasts(acme: Acme) -> None:
    def busy(verb: str, ref: Ref | None) -> None:
        if verb == "apply":
            raise TryLater("apply: 500: webhook timed out")

    acme.port.put(a_world(universe=None))
    acme.port.before = busy
    for attempt in range(1, PATIENCE + 1):
        assert "status" not in acme.port.objects[HANDBOOK]
        with pytest.raises(TryLater):
            await acme.reconcile(HANDBOOK, attempt=attempt)
    assert acme.condition(HANDBOOK, "Reconciled")["reason"] == "TryLater"
    assert "webhook timed out" in acme.condition(HANDBOOK, "Reconciled")["message"]


async def test_a_bug_is_told_without_details(acme: Acme) -> None:
    def bug(verb: str, ref: Ref | None) -> None:
        if verb == "apply":
            raise RuntimeError("token 1234 of somebody")

    acme.port.put(a_world(universe=None))
    acme.port.before = bug
    with pytest.raises(RuntimeError):
        await acme.reconcile(HANDBOOK)
    condition = acme.condition(HANDBOOK, "Reconciled")
    assert condition["reason"] == "InternalError"
    assert "1234" not in condition["message"]


async def test_a_missing_namespace_is_told(acme: Acme) -> None:
    acme.port.remove(Ref("v1", "Namespace", "", "demarkus-system"))
    acme.port.put(a_world(universe=None))
    with pytest.raises(NotFound):
        await acme.reconcile(HANDBOOK)
    assert "demarkus-system" in acme.condition(HANDBOOK, "Reconciled")["message"]


async def test_nothing_is_made_in_a_terminating_namespace(acme: Acme) -> None:
    acme.port.namespace("acme", terminating=True)
    acme.port.put(a_world(universe=None))
    with pytest.raises(Refused):
        await acme.reconcile(HANDBOOK)
    assert acme.children("handbook") == {"World/handbook"}


async def test_a_stale_read_does_not_undo_a_newer_binding(acme: Acme) -> None:
    """The record is written on top of what was read; two reconciles at once can't lose a name."""
    await a_settled(acme)
    record = UniverseNames("acme", "acme").record
    acme.port.put(a_world("third"))
    await acme.reconcile(world_ref("acme", "third"))

    def another_writer(verb: str, ref: Ref | None) -> None:
        if (verb, ref) == ("apply", record):
            acme.port.before = lambda verb, ref: None
            bindings = json.loads(acme.port.objects[record]["data"]["bindings.json"])
            bindings["fourth"] = {"namespace": "acme", "history": "f" * 32}
            acme.port.edit(record, "data", "bindings.json", value=json.dumps(bindings))

    acme.port.before = another_writer
    with pytest.raises(Conflict):
        await acme.reconcile(ACME)
    await acme.converge()
    assert set(json.loads(acme.port.objects[record]["data"]["bindings.json"])) == {
        "handbook",
        "packages",
        "third",
        "fourth",
    }
