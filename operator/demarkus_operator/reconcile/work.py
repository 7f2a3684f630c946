"""What is done for one key of the queue: a reconcile with a time limit, its log line, its metrics, whom it wakes."""

from __future__ import annotations

import asyncio
import logging
import time
from collections.abc import Awaitable, Callable
from typing import Any, Protocol

from demarkus_operator.cluster.kinds import UNIVERSE, WORLD
from demarkus_operator.cluster.port import Conflict, PortError, TryLater
from demarkus_operator.plan.objects import Ref
from demarkus_operator.reconcile.loop import Edge, Outcome
from demarkus_operator.reconcile.metrics import Metrics
from demarkus_operator.reconcile.queue import WorkFailed
from demarkus_operator.reconcile.universe import reconcile_universe
from demarkus_operator.reconcile.world import reconcile_world

RECONCILE_SECONDS = 60.0

logger = logging.getLogger(__name__)


class _Reconcile(Protocol):
    def __call__(self, edge: Edge, ref: Ref, *, outcome: Outcome, attempt: int) -> Awaitable[None]: ...


_RECONCILE: dict[str, _Reconcile] = {WORLD.kind: reconcile_world, UNIVERSE.kind: reconcile_universe}


class Reconciler:
    """`queue.Work` for Worlds and Universes; a key is their `Ref`.

    `changed` is told of every reconcile that wrote something: others may have waited for just that.
    """

    def __init__(
        self,
        edge: Edge,
        *,
        changed: Callable[[Ref], None],
        metrics: Metrics | None = None,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self._edge = edge
        self._changed = changed
        self._metrics = metrics
        self._clock = clock

    async def __call__(self, key: Ref, *, attempt: int) -> float | None:
        """One reconcile. Raises `WorkFailed`."""
        outcome = Outcome()
        started = self._clock()
        try:
            async with asyncio.timeout(RECONCILE_SECONDS):
                await _RECONCILE[key.kind](self._edge, key, outcome=outcome, attempt=attempt)
        except Exception as error:
            self._report(key, outcome, attempt, self._clock() - started, error)
            raise WorkFailed(str(error), delay=getattr(error, "delay", None)) from error
        finally:
            if outcome.written:
                self._changed(key)
        self._report(key, outcome, attempt, self._clock() - started, None)
        return outcome.requeue

    def _report(self, key: Ref, outcome: Outcome, attempt: int, seconds: float, error: Exception | None) -> None:
        result = _result(outcome, error)
        fields: dict[str, Any] = {
            "kind": key.kind,
            "namespace": key.namespace,
            "name": key.name,
            "generation": outcome.generation,
            "result": result,
            "seconds": round(seconds, 3),
            "written": outcome.written,
        }
        if outcome.ready:
            fields["ready"] = outcome.ready
        if error is not None:
            fields |= {"attempt": attempt, "error": str(error) or type(error).__name__}
        level = {"bug": logging.ERROR, "refused": logging.WARNING, "later": logging.WARNING}.get(result, logging.INFO)
        # Only a bug is worth a trace: the other two name what was called and what was answered.
        logger.log(level, "reconcile", extra={"fields": fields}, exc_info=error if result == "bug" else None)
        if self._metrics:
            self._metrics.reconciles.labels(kind=key.kind, result=result).inc()
            self._metrics.seconds.labels(kind=key.kind).observe(seconds)


def _result(outcome: Outcome, error: Exception | None) -> str:
    match error:
        case None:
            return "gone" if outcome.generation is None else "changed" if outcome.written else "unchanged"
        case Conflict():
            return "conflict"
        case TryLater() | TimeoutError():
            return "later"
        case PortError():
            return "refused"
        case _:
            return "bug"
