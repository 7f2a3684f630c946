"""A service's metrics: one registry a process, with the process's own figures in it.

Each room keeps the names of its metrics in one module, because dashboards and alerts depend on them.
"""

from prometheus_client import CollectorRegistry, GCCollector, PlatformCollector, ProcessCollector
from prometheus_client.exposition import CONTENT_TYPE_LATEST, generate_latest

CONTENT_TYPE = CONTENT_TYPE_LATEST


def new_registry() -> CollectorRegistry:
    """A registry of its own, so that two services in one test do not meet."""
    registry = CollectorRegistry(auto_describe=True)
    ProcessCollector(registry=registry)
    PlatformCollector(registry=registry)
    GCCollector(registry=registry)
    return registry


def exposition(registry: CollectorRegistry) -> bytes:
    """What `/metrics` answers, in CONTENT_TYPE."""
    return generate_latest(registry)
