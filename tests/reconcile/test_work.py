"""One key of the queue: its line in the log, its metrics, whom it wakes, and how errors come out."""

from __future__ import annotations

import logging
from typing import Any

import pytest

from demarkus_base.metrics import exposition, new_registry
from demarkus_operator.cluster.port import Conflict, Forbidden, TryLater
from demarkus_operator.plan.objects import Ref
from demarkus_operator.reconcile.metrics import Metrics
from demarkus_operator.reconcile.queue import WorkFailed
from demarkus_operator.reconcile.universe import universe_ref
from demarkus_operator.reconcile.work import Reconciler
from demarkus_operator.reconcile.world import world_ref
from tests.reconcile.acme import Acme, a_settled, a_world

HANDBOOK = world_ref("acme", "handbook")


def a_reconciler(acme: Acme, **arguments: Any) -> Reconciler:
    return Reconciler(acme.edge, **{"changed": lambda ref: None, **arguments})


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


async def test_a_reconcile_that_wrote_wakes_others_and_a_silent_one_does_not(acme: Acme) -> None:
    woken: list[Ref] = []
    await a_settled(acme)
    work = a_reconciler(acme, changed=woken.append)
    await work(universe_ref("acme", "acme"), attempt=1)
    assert woken == []
    acme.port.edit(HANDBOOK, "spec", "reads", value="public")
    await work(HANDBOOK, attempt=1)
    assert woken == [HANDBOOK]


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
