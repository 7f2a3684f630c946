"""Probes and metrics over plain HTTP: `/livez`, `/readyz`, `/readyz?verbose`, `/metrics`."""

import json
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from http import HTTPStatus
from typing import Any

from prometheus_client import CollectorRegistry

from demarkus_base import metrics
from demarkus_base.httpd import Answer, Request, Server


@dataclass(frozen=True, slots=True)
class Readiness:
    """Whether the service can work, why not, and what else `/readyz?verbose` should say about it."""

    ready: bool
    reasons: tuple[str, ...] = ()
    details: Mapping[str, Any] = field(default_factory=dict)


class HealthServer(Server):
    """The listener; `async with HealthServer(...)` serves.

    `ready` and `alive` are asked for each request, on the loop, so a loop that hangs answers nothing. `alive` gives the
    reasons why the process should be started anew, none of which is usual.
    """

    def __init__(
        self,
        host: str,
        port: int,
        ready: Callable[[], Readiness],
        *,
        alive: Callable[[], tuple[str, ...]] = tuple,
        registry: CollectorRegistry | None = None,
    ) -> None:
        super().__init__(host, port, self._tell)
        self._ready = ready
        self._alive = alive
        self._registry = registry

    async def _tell(self, request: Request) -> Answer:
        if request.method not in ("GET", "HEAD"):
            return Answer(HTTPStatus.METHOD_NOT_ALLOWED, b"only GET and HEAD\n")
        if request.path == "/livez":
            return _plain(self._alive())
        if request.path == "/readyz":
            return _readiness(self._ready(), verbose="verbose" in request.query.split("&"))
        if request.path == "/metrics" and self._registry is not None:
            return Answer(HTTPStatus.OK, metrics.exposition(self._registry), metrics.CONTENT_TYPE)
        return Answer(HTTPStatus.NOT_FOUND, b"not found\n")


def _readiness(readiness: Readiness, *, verbose: bool) -> Answer:
    status = HTTPStatus.OK if readiness.ready else HTTPStatus.SERVICE_UNAVAILABLE
    if verbose:
        facts = {"ready": readiness.ready, "reasons": list(readiness.reasons), **readiness.details}
        return Answer(status, json.dumps(facts).encode() + b"\n", "application/json")
    return Answer(status, _lines(readiness.reasons))


def _plain(complaints: tuple[str, ...]) -> Answer:
    return Answer(HTTPStatus.SERVICE_UNAVAILABLE if complaints else HTTPStatus.OK, _lines(complaints))


def _lines(reasons: tuple[str, ...]) -> bytes:
    return "".join(f"{line}\n" for line in reasons or ("ok",)).encode()
