"""The metrics of a world: every name, label and unit in one place, because dashboards and alerts depend on them."""

from __future__ import annotations

from prometheus_client import Counter, Gauge, Histogram, Info

from demarkus_base.metrics import new_registry

SECONDS = (0.0005, 0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0)


class Metrics:
    """The instruments of one world, in a registry of its own; who knows a gauge's value sets or is asked for it."""

    def __init__(self) -> None:
        self.registry = new_registry()
        self.requests = Counter(
            "demarkus_world_requests",
            "Requests answered; verb is empty for what was no request.",
            ["verb", "status"],
            registry=self.registry,
        )
        self.seconds = Histogram(
            "demarkus_world_request_seconds",
            "Time from a whole request to its answer, waiting included.",
            ["verb"],
            buckets=SECONDS,
            registry=self.registry,
        )
        self._of_requests: dict[tuple[str, str], tuple[Counter, Histogram]] = {}
        self.under_way = Gauge(
            "demarkus_world_requests_under_way", "Requests that wait or are worked on.", registry=self.registry
        )
        self.connections = Gauge("demarkus_world_connections", "Open QUIC connections.", registry=self.registry)
        self.watches = Gauge("demarkus_world_watches", "Open WATCH streams.", registry=self.registry)
        self.loop_lag = Histogram(
            "demarkus_world_loop_lag_seconds",
            "Time by which a turn of the event loop came too late.",
            buckets=SECONDS,
            registry=self.registry,
        )
        self.sequence = Gauge("demarkus_world_sequence", "Entries in the world's log.", registry=self.registry)
        self.loaded = Info(
            "demarkus_world_loaded", "Content hashes (SHA-256) of the files in force.", registry=self.registry
        )
        self.reload_failing = Gauge(
            "demarkus_world_reload_failing",
            "1 while a file can't be used as it is and its last good content stays in force.",
            ["what"],
            registry=self.registry,
        )
        self.store_calls = Counter(
            "demarkus_world_store_calls", "Calls to the bucket that ended.", ["call", "outcome"], registry=self.registry
        )
        self.store_seconds = Histogram(
            "demarkus_world_store_call_seconds",
            "Time a call to the bucket took.",
            ["call"],
            buckets=SECONDS,
            registry=self.registry,
        )
        self.store_reachable = Gauge(
            "demarkus_world_store_reachable",
            "0 while the bucket's newest answer was none; a store on a volume is always 1.",
            registry=self.registry,
        )
        self.store_reachable.set(1)
        self.store_full = Gauge(
            "demarkus_world_store_full",
            "1 while content is refused because the volume has no space left.",
            registry=self.registry,
        )
        self.verified_through = Gauge(
            "demarkus_world_verified_through",
            "The entry up to which the scrub found every retained version right; 0 before its first pass ended.",
            registry=self.registry,
        )
        self.damaged = Gauge(
            "demarkus_world_damaged_versions",
            "Retained versions that the scrub found missing or altered.",
            registry=self.registry,
        )
        self.hedged_reads = Counter(
            "demarkus_world_store_hedged_reads",
            "Second requests for slow reads of the bucket: sent, and of those won, which answered first.",
            ["result"],
            registry=self.registry,
        )

    def answered(self, verb: str, status: str, seconds: float) -> None:
        """Count an answer to a request."""
        # Finding an instrument by its labels costs as much as all the rest; verbs and statuses are few.
        found = self._of_requests.get((verb, status))
        if found is None:
            found = self._of_requests[verb, status] = (self.requests.labels(verb, status), self.seconds.labels(verb))
        count, took = found
        count.inc()
        took.observe(seconds)

    def store_call(self, call: str, outcome: str, seconds: float) -> None:
        """Count a call to the bucket."""
        self.store_calls.labels(call, outcome).inc()
        self.store_seconds.labels(call).observe(seconds)

    def hedged_read(self, result: str) -> None:
        """Count a second request: `sent` or `won`."""
        self.hedged_reads.labels(result).inc()
