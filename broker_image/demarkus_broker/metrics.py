"""The broker's metrics. Names and labels are an interface: dashboards and alerts depend on them."""

from __future__ import annotations

from prometheus_client import CollectorRegistry, Counter, Gauge, Histogram

_SECONDS = (0.002, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0, 20.0, 40.0)


class Metrics:
    """All metrics of one broker, in its registry."""

    def __init__(self, registry: CollectorRegistry) -> None:
        self.refusals = Counter(
            "demarkus_broker_refusals", "HTTP requests refused before MCP, by reason", ["reason"], registry=registry
        )
        self.calls = Counter(
            "demarkus_broker_tool_calls",
            "Tool calls, by tool and outcome (a status of the world, or why there is none)",
            ["tool", "outcome"],
            registry=registry,
        )
        self.call_seconds = Histogram(
            "demarkus_broker_tool_call_seconds",
            "Time of a tool call in seconds, the world's part included",
            ["tool"],
            buckets=_SECONDS,
            registry=registry,
        )
        self.world_requests = Counter(
            "demarkus_broker_world_requests",
            "Requests to worlds, by world and outcome (answered, unreachable, unknown, busy)",
            ["world", "outcome"],
            registry=registry,
        )
        self.circuit_open = Gauge(
            "demarkus_broker_circuit_open",
            "1 while a world is left alone because it did not answer",
            ["world"],
            registry=registry,
        )
        self.grants_signed = Counter("demarkus_broker_grants_signed", "Grants signed", registry=registry)
        self.grants_kept = Gauge("demarkus_broker_grants_kept", "Grants kept for use again", registry=registry)
        self.sign_ins = Counter(
            "demarkus_broker_sign_ins",
            "Steps of signing in, by event (authorize, token, ...) and outcome (an error code, or a word)",
            ["event", "outcome"],
            registry=registry,
        )
