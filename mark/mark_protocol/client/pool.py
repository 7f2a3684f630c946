"""Connections to one Mark server, shared by all requests to it.

One aioquic connection gets slower with each stream that is open on it, so requests are spread over a few connections.
A request that fails costs its own stream; only a connection that has ended is replaced.
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
from collections.abc import AsyncGenerator, AsyncIterator, Sequence
from typing import Protocol

from mark_protocol import transport
from mark_protocol.client.connection import PooledConnection
from mark_protocol.transport.port import Connection, Limits, NotSent, TransportError, Trust, Untrusted

logger = logging.getLogger(__name__)

CLIENT_LIMITS = Limits(keep_alive=20.0)
"""Servers end a connection after 30 quiet seconds (Mark protocol 1.2) and never ask first: the PING comes from here."""

CROWDED = 4
"""Requests in flight on every connection above which the pool opens another one."""


class Dial(Protocol):
    """How a pool connects: `mark_protocol.transport.dial`."""

    async def __call__(
        self, host: str, port: int, *, server_name: str, trust: Trust, limits: Limits, timeout: float
    ) -> Connection:
        """See `mark_protocol.transport.dial`."""


class Pool:
    """Up to `size` connections with up to `streams` requests each; what is above waits for its turn.

    Args:
        addresses: (host, port) pairs behind which the same server is found; dialed in turn.
        server_name: what the certificate has to be for (Mark protocol 1.3).
        trust: which certificates are accepted.
        dial_timeout: seconds for one address.
    """

    def __init__(
        self,
        addresses: Sequence[tuple[str, int]],
        *,
        server_name: str,
        trust: Trust,
        size: int = 4,
        streams: int = 16,
        limits: Limits = CLIENT_LIMITS,
        dial_timeout: float = 5.0,
        dial: Dial = transport.dial,
    ) -> None:
        self._addresses = list(addresses)
        self._server_name = server_name
        self._trust = trust
        self._size = size
        self._streams = streams
        self._limits = limits
        self._dial_timeout = dial_timeout
        self._dial = dial
        self._turn = 0
        self._connections: list[PooledConnection] = []
        self._slots = asyncio.Semaphore(size * streams)
        self._dialing: asyncio.Task[None] | None = None
        self._closed = False

    async def exchange(self, data: bytes, *, timeout: float) -> bytes:
        """Send a whole request, read the whole answer; `timeout` in seconds is for all of it, dialing included.

        Raises:
            Untrusted: the server's certificate was not accepted.
            NotSent: no byte of the request has left: no connection, or no free stream in time.
            Unanswered: bytes have left, and no whole answer came.
        """
        loop = asyncio.get_running_loop()
        deadline = loop.time() + timeout
        async with self._connection(timeout) as connection:
            return await connection.exchange(data, timeout=max(deadline - loop.time(), 0.0))

    async def follow(self, data: bytes, *, timeout: float) -> AsyncGenerator[bytes, None]:
        """Send a whole request, give its answer in pieces as they come; see `Connection.follow`.

        `timeout` in seconds is for the start, dialing included. The answer holds one of the pool's places until it ends
        or the generator is closed. Raises as `exchange` does.
        """
        async with (
            self._connection(timeout) as connection,
            contextlib.aclosing(connection.follow(data, timeout=timeout)) as pieces,
        ):
            async for piece in pieces:
                yield piece

    @contextlib.asynccontextmanager
    async def _connection(self, timeout: float) -> AsyncIterator[PooledConnection]:
        """A place in the pool, and the connection to use."""
        async with contextlib.AsyncExitStack() as stack:
            try:
                async with asyncio.timeout(timeout):
                    await stack.enter_async_context(self._slots)
                    connection = await self._pick()
            except TimeoutError:
                raise NotSent(f"{self._server_name}: no connection within {timeout:g} s") from None
            yield connection

    def retarget(self, addresses: Sequence[tuple[str, int]]) -> None:
        """Dial these addresses from now on. Connections to others take no new request and end behind their last."""
        self._addresses = list(addresses)
        for connection in self._connections:
            if connection.address not in self._addresses:
                connection.retire()
        self._forget_unusable()

    async def close(self) -> None:
        """End every connection; what is under way fails."""
        self._closed = True
        if self._dialing is not None:
            self._dialing.cancel()
            await asyncio.wait([self._dialing])
        for connection in self._connections:
            connection.close()
        self._connections.clear()

    async def _pick(self) -> PooledConnection:
        """The least busy connection; opens one more if there is none, or all are crowded."""
        while True:
            if self._closed:
                raise NotSent(f"{self._server_name}: the pool is closed")
            self._forget_unusable()
            free = [connection for connection in self._connections if connection.users < self._streams]
            best = min(free, key=lambda connection: connection.users, default=None)
            if (best is None or best.users >= CROWDED) and len(self._connections) < self._size:
                self._open_another()
            if best is not None:
                return best
            if self._dialing is not None:
                await self._dialed(self._dialing)

    def _open_another(self) -> None:
        if self._dialing is None:
            self._dialing = asyncio.create_task(self._connect(), name=f"dial {self._server_name}")
            self._dialing.add_done_callback(self._dial_done)

    def _dial_done(self, task: asyncio.Task[None]) -> None:
        self._dialing = None
        if not task.cancelled() and (error := task.exception()) is not None:
            logger.debug("dialing failed: %s", error)

    async def _dialed(self, task: asyncio.Task[None]) -> None:
        """Wait for a dial that others may wait for too; its failure is the failure of each of them."""
        await asyncio.wait([task])
        if task.cancelled():
            raise NotSent(f"{self._server_name}: the pool is closed")
        if (error := task.exception()) is not None:
            raise type(error)(*error.args) from error

    async def _connect(self) -> None:
        problem: TransportError = NotSent(f"{self._server_name}: no address is known")
        turn = self._turn % max(len(self._addresses), 1)
        self._turn += 1
        for address in self._addresses[turn:] + self._addresses[:turn]:
            try:
                connection = await self._dial(
                    *address,
                    server_name=self._server_name,
                    trust=self._trust,
                    limits=self._limits,
                    timeout=self._dial_timeout,
                )
            except Untrusted:
                raise
            except TransportError as error:
                problem = error
            else:
                self._connections.append(PooledConnection(connection, address))
                if address not in self._addresses:
                    self._connections[-1].retire()
                return
        raise problem

    def _forget_unusable(self) -> None:
        self._connections = [connection for connection in self._connections if connection.usable]
