"""The operator's metrics: names are kept here, because dashboards and alerts depend on them."""

from __future__ import annotations

from collections.abc import Callable

from prometheus_client import CollectorRegistry, Counter, Gauge, Histogram

SECONDS = (0.01, 0.03, 0.1, 0.3, 1.0, 3.0, 10.0, 30.0, 60.0)


class Metrics:
    """The counters of one operator, in a registry of the caller's."""

    def __init__(self, registry: CollectorRegistry) -> None:
        self.reconciles = Counter(
            "demarkus_operator_reconcile",
            "Reconciles, by how they ended.",
            ["kind", "result"],
            registry=registry,
        )
        self.seconds = Histogram(
            "demarkus_operator_reconcile_seconds",
            "How long a reconcile takes.",
            ["kind"],
            buckets=SECONDS,
            registry=registry,
        )
        self._depth = Gauge("demarkus_operator_queue_depth", "Objects that wait for a reconcile.", registry=registry)
        self._oldest = Gauge(
            "demarkus_operator_queue_oldest_seconds",
            "How long the first of them has waited.",
            registry=registry,
        )
        self._silence = Gauge(
            "demarkus_operator_watch_silence_seconds",
            "How long the watch that was silent longest was so; a bookmark is a sign of life.",
            registry=registry,
        )
        self.leader = Gauge(
            "demarkus_operator_leader", "1 while this process holds the lease and acts.", registry=registry
        )

    def watch_queue(self, *, depth: Callable[[], float], oldest: Callable[[], float]) -> None:
        """Asks these at every scrape."""
        self._depth.set_function(depth)
        self._oldest.set_function(oldest)

    def watch_pulse(self, silence: Callable[[], float]) -> None:
        """Asks this at every scrape."""
        self._silence.set_function(silence)
