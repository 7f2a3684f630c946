"""A small HTTP server for machines we know: one request a connection, bounded in every direction.

Requests without a body, answers that fit in memory, `Connection: close` (RFC 9112). It serves the kubelet, Prometheus
and the operator, never the public.
"""

import asyncio
import contextlib
import logging
import ssl
from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass, field
from http import HTTPStatus
from types import TracebackType
from typing import Self

HEAD_LIMIT = 8192
CONNECTIONS = 64
TIMEOUT = 5.0

logger = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class Request:
    """A request's head. Header names are lower case; of a header sent twice the last counts."""

    method: str
    path: str
    query: str = ""
    headers: Mapping[str, str] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class Answer:
    """What is sent back."""

    status: HTTPStatus
    body: bytes
    content_type: str = "text/plain; charset=utf-8"
    headers: Mapping[str, str] = field(default_factory=dict)


class Server:
    """The listener; `async with Server(...)` serves. `answer` is awaited for each request; TIMEOUT is for all."""

    def __init__(
        self,
        host: str,
        port: int,
        answer: Callable[[Request], Awaitable[Answer]],
        *,
        tls: ssl.SSLContext | None = None,
    ) -> None:
        self._host = host
        self._port = port
        self._answer = answer
        self._tls = tls
        self._server: asyncio.Server | None = None
        self._open = 0

    @property
    def address(self) -> tuple[str, int]:
        """Where it listens, with the port the system chose for 0."""
        if self._server is None:
            raise RuntimeError("the server is not started")
        host, port = self._server.sockets[0].getsockname()[:2]
        return str(host), int(port)

    async def start(self) -> None:
        """Begin to listen. Raises OSError when the address can't be had."""
        # Without TLS its timeouts may not be given.
        limits = {"ssl_handshake_timeout": TIMEOUT, "ssl_shutdown_timeout": TIMEOUT} if self._tls else {}
        self._server = await asyncio.start_server(
            self._serve, self._host, self._port, limit=HEAD_LIMIT, ssl=self._tls, **limits
        )

    async def close(self) -> None:
        """Stop listening; connections in progress end within TIMEOUT."""
        if self._server is not None:
            self._server.close()
            await self._server.wait_closed()

    async def __aenter__(self) -> Self:
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
        request = _parsed(await reader.readuntil(b"\r\n\r\n"))
        answer = await self._answered(request)
        headers = "".join(f"{name}: {value}\r\n" for name, value in answer.headers.items())
        writer.write(
            f"HTTP/1.1 {answer.status.value} {answer.status.phrase}\r\n"
            f"Content-Type: {answer.content_type}\r\nContent-Length: {len(answer.body)}\r\n"
            f"{headers}Cache-Control: no-store\r\nConnection: close\r\n\r\n".encode()
        )
        if request.method != "HEAD":
            writer.write(answer.body)
        await writer.drain()

    async def _answered(self, request: Request) -> Answer:
        try:
            return await self._answer(request)
        except Exception:
            logger.exception("bug while answering %s", request.path)
            return Answer(HTTPStatus.INTERNAL_SERVER_ERROR, b"internal error\n")


def _parsed(head: bytes) -> Request:
    first, *lines = head.decode("latin-1").removesuffix("\r\n\r\n").split("\r\n")
    method, _, rest = first.partition(" ")
    path, _, query = rest.rpartition(" ")[0].partition("?")
    headers = {name.strip().lower(): value.strip() for name, _, value in (line.partition(":") for line in lines)}
    return Request(method, path, query, headers)
