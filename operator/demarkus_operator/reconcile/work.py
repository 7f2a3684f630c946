"""What is done for one key of the queue: a go with a time limit, its line in the log, its metrics, whom it wakes."""

from __future__ import annotations

import asyncio
import logging
import time
from collections.abc import Awaitable, Callable
from typing import Any, Protocol

from demarkus_operator.cluster.kinds import UNIVERSE, WORLD
from demarkus_operator.cluster.port import Conflict, PortError, TryLater
from demarkus_operator.plan.objects import Ref
from demarkus_operator.reconcile.loop import Edge, Go
from demarkus_operator.reconcile.metrics import Metrics
from demarkus_operator.reconcile.queue import WorkFailed
from demarkus_operator.reconcile.universe import reconcile_universe
from demarkus_operator.reconcile.world import reconcile_world

GO_SECONDS = 60.0

logger = logging.getLogger(__name__)


class _Reconcile(Protocol):
    def __call__(self, edge: Edge, ref: Ref, *, go: Go, attempt: int) -> Awaitable[None]: ...


_RECONCILE: dict[str, _Reconcile] = {WORLD.kind: reconcile_world, UNIVERSE.kind: reconcile_universe}


class Reconciler:
    """`queue.Work` for Worlds and Universes; a key is their `Ref`.

    `changed` is told of every go that wrote something: others may have waited for just that.
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
        """One go. Raises `WorkFailed`."""
        go = Go()
        started = self._clock()
        try:
            async with asyncio.timeout(GO_SECONDS):
                await _RECONCILE[key.kind](self._edge, key, go=go, attempt=attempt)
        except Exception as error:
            self._report(key, go, attempt, self._clock() - started, error)
            raise WorkFailed(str(error), delay=getattr(error, "delay", None)) from error
        finally:
            if go.written:
                self._changed(key)
        self._report(key, go, attempt, self._clock() - started, None)
        return go.requeue

    def _report(self, key: Ref, go: Go, attempt: int, seconds: float, error: Exception | None) -> None:
        result = _result(go, error)
        fields: dict[str, Any] = {
            "kind": key.kind,
            "namespace": key.namespace,
            "name": key.name,
            "generation": go.generation,
            "result": result,
            "seconds": round(seconds, 3),
            "written": go.written,
        }
        if go.ready:
            fields["ready"] = go.ready
        if error is not None:
            fields |= {"attempt": attempt, "error": str(error) or type(error).__name__}
        level = {"bug": logging.ERROR, "refused": logging.WARNING, "later": logging.WARNING}.get(result, logging.INFO)
        # Only a bug is worth a trace: the other two name what was called and what was answered.
        logger.log(level, "reconcile", extra={"fields": fields}, exc_info=error if result == "bug" else None)
        if self._metrics:
            self._metrics.reconciles.labels(kind=key.kind, result=result).inc()
            self._metrics.seconds.labels(kind=key.kind).observe(seconds)


def _result(go: Go, error: Exception | None) -> str:
    match error:
        case None:
            return "gone" if go.generation is None else "changed" if go.written else "unchanged"
        case Conflict():
            return "conflict"
        case TryLater() | TimeoutError():
            return "later"
        case PortError():
            return "refused"
        case _:
            return "bug"
