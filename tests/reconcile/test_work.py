"""One key of the queue: its line in the log, its metrics, whom it wakes, and how errors come out."""

from __future__ import annotations

import logging
from typing import Any

import pytest

from demarkus_base.metrics import exposition, new_registry
from demarkus_operator.cluster.port import Conflict, Forbidden, TryLater
from demarkus_operator.plan.names import WorldNames
from demarkus_operator.plan.objects import Ref
from demarkus_operator.reconcile.metrics import Metrics
from demarkus_operator.reconcile.queue import WorkFailed
from demarkus_operator.reconcile.survey import Survey, survey
from demarkus_operator.reconcile.universe import universe_ref
from demarkus_operator.reconcile.work import Reconciler
from demarkus_operator.reconcile.world import world_ref
from tests.reconcile.acme import Acme, a_settled, a_universe, a_world, an_example, shape

HANDBOOK = world_ref("acme", "handbook")
ACME = universe_ref("acme", "acme")


def a_reconciler(acme: Acme, **arguments: Any) -> Reconciler:
    return Reconciler(acme.edge, **{"wake": lambda ref: None, **arguments})


def lines(caplog: pytest.LogCaptureFixture) -> list[dict[str, Any]]:
    return [record.fields for record in caplog.records if record.getMessage() == "reconcile"]  # type: ignore[attr-defined]


async def test_one_line_tells_what_a_reconcile_did(acme: Acme, caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.INFO)
    acme.port.put(a_world(universe=None))
    work = a_reconciler(acme)
    await work(HANDBOOK, attempt=1)
    await work(HANDBOOK, attempt=1)
    first, second = lines(caplog)
    assert (first["kind"], first["name"], first["generation"], first["result"]) == ("World", "handbook", 1, "changed")
    assert "create Secret acme/handbook-identity" in first["written"]
    assert (second["result"], second["written"], second["ready"]) == ("unchanged", [], "Starting")


async def test_no_secret_is_in_the_log(acme: Acme, caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.DEBUG)
    tokens = [{"name": "robot", "operations": ["read"], "paths": ["/**"]}]
    acme.port.put(a_world(universe=None, tokens=tokens))
    await a_reconciler(acme)(HANDBOOK, attempt=1)
    values = {value for data in acme.port.secrets().values() for value in (data or {}).values()}
    assert values
    text = "\n".join(f"{record.getMessage()} {record.__dict__}" for record in caplog.records)
    assert not [value for value in values if value in text]


async def woken_by(acme: Acme, key: Ref) -> list[Ref]:
    """Whom a reconcile of this one wakes."""
    woken: list[Ref] = []
    await a_reconciler(acme, wake=woken.append)(key, attempt=1)
    return woken


async def test_a_universe_that_makes_its_keys_wakes_all_its_worlds(acme: Acme) -> None:
    await a_settled(acme, an_example()[1:])
    acme.port.put(a_universe())
    assert await woken_by(acme, ACME) == [HANDBOOK, world_ref("acme", "packages")]


async def test_a_universe_that_binds_a_name_wakes_the_world_that_asked_for_it(acme: Acme) -> None:
    await a_settled(acme)
    third = acme.port.put(a_world("third"))
    assert await woken_by(acme, ACME) == [third]


async def test_a_change_of_the_gateways_configuration_wakes_nobody(acme: Acme) -> None:
    """Or each change of one World would have all others looked at."""
    await a_settled(acme)
    assert await woken_by(acme, ACME) == []
    acme.port.put(a_world("packages", access={"readers": [{"everyone": True}]}))
    assert await woken_by(acme, ACME) == []
    acme.port.put(a_universe(broker={"replicas": 1}))
    assert await woken_by(acme, ACME) == []


async def test_what_was_written_is_looked_at_once_more(acme: Acme) -> None:
    acme.port.put(a_world(universe=None))
    work = a_reconciler(acme)
    assert await work(HANDBOOK, attempt=1) == 0
    assert await work(HANDBOOK, attempt=1) != 0


async def test_a_plan_that_never_settles_is_carried_out_ever_more_seldom(acme: Acme) -> None:
    await a_settled(acme)
    work = a_reconciler(acme)
    rests = []
    for number in range(10):
        acme.port.edit(WorldNames("acme", "handbook").config, "data", "world.yaml", value=f"drift {number}")
        rests.append(await work(HANDBOOK, attempt=1) or 0.0)
    assert rests[:4] == [0.0, 0.5, 1.5, 3.5]
    assert rests == sorted(rests)


async def test_an_object_that_was_surveyed_and_is_as_it_should_be_costs_no_read_of_its_children(acme: Acme) -> None:
    await a_settled(acme)
    found = Survey()
    await survey(acme.port, (), into=found)
    acme.port.calls.clear()
    acme.port.writes.clear()
    work = a_reconciler(acme, seen=found.take)
    await work(HANDBOOK, attempt=1)
    await work(world_ref("acme", "packages"), attempt=1)
    assert acme.port.writes == []
    names = [ref.name for verb, ref in acme.port.calls if ref is not None]
    assert [verb for verb, _ in acme.port.calls if verb != "get"] == []
    own = [ref for _, ref in acme.port.calls if ref is not None and ref.name.startswith(("handbook", "packages"))]
    assert {ref.kind for ref in own} == {"Secret"}
    shared = [name for name in names if not name.startswith(("handbook", "packages", "witness-"))]
    assert len(shared) == len(set(shared)), "what both look at is read once"


async def test_an_object_that_was_surveyed_and_differs_is_looked_at_anew(acme: Acme) -> None:
    await a_settled(acme)
    wanted = shape(acme)
    acme.port.remove(WorldNames("acme", "handbook").service)
    found = Survey()
    await survey(acme.port, (), into=found)
    acme.port.edit(WorldNames("acme", "handbook").config, "data", "world.yaml", value="since then")
    await a_reconciler(acme, seen=found.take)(HANDBOOK, attempt=1)
    assert shape(acme) == wanted


@pytest.mark.parametrize(
    ("error", "result", "level", "delay"),
    [
        (TryLater("429", delay=7.0), "later", logging.WARNING, 7.0),
        (Conflict("409"), "conflict", logging.INFO, None),
        (Forbidden("403"), "refused", logging.WARNING, None),
        (RuntimeError("oops"), "bug", logging.ERROR, None),
    ],
    ids=["later", "conflict", "refused", "bug"],
)
async def test_every_error_is_a_retry_and_one_line(
    acme: Acme,
    caplog: pytest.LogCaptureFixture,
    error: Exception,
    result: str,
    level: int,
    delay: float | None,
) -> None:
    caplog.set_level(logging.INFO)

    def fault(verb: str, ref: Ref | None) -> None:
        if verb == "apply":
            raise error

    acme.port.before = fault
    acme.port.put(a_world(universe=None))
    with pytest.raises(WorkFailed) as failed:
        await a_reconciler(acme)(HANDBOOK, attempt=2)
    assert failed.value.delay == delay
    (line,) = lines(caplog)
    assert (line["result"], line["attempt"], line["error"]) == (result, 2, str(error))
    record = next(r for r in caplog.records if r.getMessage() == "reconcile")
    assert record.levelno == level
    assert bool(record.exc_info) == (result == "bug")


async def test_a_world_that_is_gone_is_a_line_too(acme: Acme, caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.INFO)
    assert await a_reconciler(acme)(HANDBOOK, attempt=1) is None
    assert lines(caplog)[0]["result"] == "gone"


async def test_reconciles_are_counted(acme: Acme) -> None:
    registry = new_registry()
    metrics = Metrics(registry)
    metrics.watch_queue(depth=lambda: 3, oldest=lambda: 1.5)
    await a_reconciler(acme, metrics=metrics)(HANDBOOK, attempt=1)
    text = exposition(registry).decode()
    assert 'demarkus_operator_reconcile_total{kind="World",result="gone"} 1.0' in text
    assert "demarkus_operator_queue_depth 3.0" in text
