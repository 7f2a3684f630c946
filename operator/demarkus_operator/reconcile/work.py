"""What is done for one key of the queue: a reconcile with a time limit, its log line, its metrics, whom it wakes."""

from __future__ import annotations

import asyncio
import logging
import time
from collections.abc import Callable
from typing import Any

from demarkus_operator.cluster.port import Conflict, PortError, TryLater
from demarkus_operator.plan.objects import Ref
from demarkus_operator.reconcile.concern import concern_of
from demarkus_operator.reconcile.loop import Edge, Outcome, Seen, glance, reconcile
from demarkus_operator.reconcile.metrics import Metrics
from demarkus_operator.reconcile.queue import WorkFailed

RECONCILE_SECONDS = 60.0
FIRST_REST = 0.5
LONGEST_REST = 60.0

logger = logging.getLogger(__name__)


def nothing_seen(_: Ref) -> Seen | None:
    """When nobody looks at the whole cluster."""
    return None


class Reconciler:
    """`queue.Work` for Worlds and Universes; a key is their `Ref`.

    What was just written is looked at once more, at once; should that write again, ever later: a plan that never
    settles must not keep the cluster busy.
    """

    def __init__(
        self,
        edge: Edge,
        *,
        wake: Callable[[Ref], object],
        seen: Callable[[Ref], Seen | None] = nothing_seen,
        metrics: Metrics | None = None,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        """`wake` is told of everybody who may have waited for what a reconcile made; `seen` gives, once, what a look at
        the whole cluster saw of an object.
        """
        self._edge = edge
        self._wake = wake
        self._seen = seen
        self._metrics = metrics
        self._clock = clock
        self._restless: dict[Ref, int] = {}  # reconciles in a row that wrote to children

    async def __call__(self, key: Ref, *, attempt: int) -> float | None:
        """One reconcile. Raises `WorkFailed`."""
        outcome = Outcome()
        started = self._clock()
        try:
            async with asyncio.timeout(RECONCILE_SECONDS):
                await self._look(key, outcome, attempt)
        except Exception as error:
            self._report(key, outcome, attempt, self._clock() - started, error)
            further = any(ref != key for ref in outcome.writes.refs)
            raise WorkFailed(str(error), delay=getattr(error, "delay", None), got_further=further) from error
        finally:
            for ref in outcome.wakes:
                self._wake(ref)
        self._report(key, outcome, attempt, self._clock() - started, None)
        return self._again(key, outcome)

    async def _look(self, key: Ref, outcome: Outcome, attempt: int) -> None:
        concern = concern_of(self._edge, key)
        seen = self._seen(key)
        if seen is not None and await glance(self._edge, concern, seen, outcome=outcome):
            return
        await reconcile(self._edge, key, concern, outcome=outcome, attempt=attempt)

    def _again(self, key: Ref, outcome: Outcome) -> float | None:
        """When to look again: sooner than the plan asks for if children were written."""
        if all(ref == key for ref in outcome.writes.refs):
            self._restless.pop(key, None)
            return outcome.requeue
        times = self._restless.get(key, 0)
        self._restless[key] = times + 1
        soon = min(LONGEST_REST, FIRST_REST * (2.0 ** min(times, 20) - 1))
        return soon if outcome.requeue is None else min(soon, outcome.requeue)

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
