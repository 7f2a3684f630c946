"""Plain HTTP for probes and scrapers: `/livez`, `/readyz`, `/readyz?verbose`, `/metrics`.

GET and HEAD only, one request a connection (RFC 9112, `Connection: close`), bounded in every direction. It serves the
kubelet, Prometheus and the operator, never the public.
"""

import asyncio
import contextlib
import json
import logging
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from http import HTTPStatus
from types import TracebackType
from typing import Any

from prometheus_client import CollectorRegistry

from demarkus_base import metrics

HEAD_LIMIT = 8192
CONNECTIONS = 64
TIMEOUT = 5.0

logger = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class Readiness:
    """Whether the service can work, why not, and what else `/readyz?verbose` should say about it."""

    ready: bool
    reasons: tuple[str, ...] = ()
    details: Mapping[str, Any] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class _Answer:
    status: HTTPStatus
    body: bytes
    content_type: str = "text/plain; charset=utf-8"


class HealthServer:
    """The listener; `async with HealthServer(...)` serves. `ready` is asked for each request, on the loop."""

    def __init__(
        self, host: str, port: int, ready: Callable[[], Readiness], *, registry: CollectorRegistry | None = None
    ) -> None:
        self._host = host
        self._port = port
        self._ready = ready
        self._registry = registry
        self._server: asyncio.Server | None = None
        self._open = 0

    @property
    def address(self) -> tuple[str, int]:
        """Where it listens, with the port the system chose for 0."""
        if self._server is None:
            raise RuntimeError("the health server is not started")
        host, port = self._server.sockets[0].getsockname()[:2]
        return str(host), int(port)

    async def start(self) -> None:
        """Begin to listen. Raises OSError when the address can't be had."""
        self._server = await asyncio.start_server(self._serve, self._host, self._port, limit=HEAD_LIMIT)

    async def close(self) -> None:
        """Stop listening; connections in progress end within TIMEOUT."""
        if self._server is not None:
            self._server.close()
            await self._server.wait_closed()

    async def __aenter__(self) -> "HealthServer":
        await self.start()
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        await self.close()

    async def _serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self._open += 1
        try:
            if self._open <= CONNECTIONS:
                async with asyncio.timeout(TIMEOUT):
                    await self._exchange(reader, writer)
        except (OSError, TimeoutError, asyncio.IncompleteReadError, asyncio.LimitOverrunError):
            pass  # whoever asked went away or never finished asking
        finally:
            self._open -= 1
            writer.close()
            with contextlib.suppress(OSError):
                await writer.wait_closed()

    async def _exchange(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        head = await reader.readuntil(b"\r\n\r\n")
        method, _, rest = head.split(b"\r\n", 1)[0].decode("latin-1").partition(" ")
        answer = self._answer(method, rest.rpartition(" ")[0])
        writer.write(
            f"HTTP/1.1 {answer.status.value} {answer.status.phrase}\r\n"
            f"Content-Type: {answer.content_type}\r\nContent-Length: {len(answer.body)}\r\n"
            f"Cache-Control: no-store\r\nConnection: close\r\n\r\n".encode()
        )
        if method != "HEAD":
            writer.write(answer.body)
        await writer.drain()

    def _answer(self, method: str, target: str) -> _Answer:
        if method not in ("GET", "HEAD"):
            return _Answer(HTTPStatus.METHOD_NOT_ALLOWED, b"only GET and HEAD\n")
        path, _, query = target.partition("?")
        try:
            if path == "/livez":
                return _Answer(HTTPStatus.OK, b"ok\n")
            if path == "/readyz":
                return _readiness(self._ready(), verbose="verbose" in query.split("&"))
            if path == "/metrics" and self._registry is not None:
                return _Answer(HTTPStatus.OK, metrics.exposition(self._registry), metrics.CONTENT_TYPE)
        except Exception:
            logger.exception("bug while answering %s", path)
            return _Answer(HTTPStatus.INTERNAL_SERVER_ERROR, b"internal error\n")
        return _Answer(HTTPStatus.NOT_FOUND, b"not found\n")


def _readiness(readiness: Readiness, *, verbose: bool) -> _Answer:
    status = HTTPStatus.OK if readiness.ready else HTTPStatus.SERVICE_UNAVAILABLE
    if verbose:
        facts = {"ready": readiness.ready, "reasons": list(readiness.reasons), **readiness.details}
        return _Answer(status, json.dumps(facts).encode() + b"\n", "application/json")
    return _Answer(status, "".join(f"{line}\n" for line in readiness.reasons or ("ok",)).encode())
