"""The way to every world: verified QUIC connections, bounded, watched by a circuit breaker.

Each world has a link: a pool of connections to the pods behind its name, all of which have to show a certificate of the
universe's CA for `<world>.<namespace>.svc`. A headless Service is resolved again every few seconds, and at once after a
failure, because a restarted pod has another address. Touched by the event loop's thread only.
"""

from __future__ import annotations

import asyncio
import logging
import socket
from collections.abc import Awaitable, Callable, Iterable, Sequence

from demarkus_broker.metrics import Metrics
from demarkus_broker.settings import HostPort, WorldSettings
from demarkus_broker.worlds.breaker import Breaker
from demarkus_broker.worlds.errors import AnswerLost, Unavailable, WorldError
from mark_protocol.client.client import MarkClient, OutcomeUnknown, Unreachable
from mark_protocol.client.pool import Pool
from mark_protocol.request import Request
from mark_protocol.response import Response
from mark_protocol.transport.port import Trust

DEADLINE = 10.0
"""Seconds for one request to a world, with all of its attempts."""
MOST_WAITING = 256
"""Requests to one world under way or in wait; more are turned away at once."""
RESOLVE_EVERY = 10.0
"""Seconds after which a Service's name is resolved again."""
RESOLVE_TIMEOUT = 3.0

Resolve = Callable[[HostPort], Awaitable[Sequence[HostPort]]]

log = logging.getLogger(__name__)


async def resolve_name(service: HostPort) -> Sequence[HostPort]:
    """The addresses behind a name, in a stable order. Raises OSError."""
    found = await asyncio.get_running_loop().getaddrinfo(service.host, service.port, type=socket.SOCK_DGRAM)
    return sorted({HostPort(str(address[0]), service.port) for *_, address in found})


class WorldPool:
    """Links to the worlds of the configuration in force."""

    def __init__(self, *, metrics: Metrics, resolve: Resolve = resolve_name) -> None:
        self._metrics = metrics
        self._resolve = resolve
        self._links: dict[str, _Link] = {}
        self._ending: set[asyncio.Task[None]] = set()

    def adopt(self, worlds: Iterable[WorldSettings], roots: bytes) -> None:
        """Have a link to each of these worlds, trusting the CA certificates in `roots` (PEM), and to no other."""
        wanted = {world.name: world for world in worlds}
        for name, link in list(self._links.items()):
            if name not in wanted or not link.serves(wanted[name], roots):
                del self._links[name]
                self._end(link)
        for name, world in wanted.items():
            if name in self._links:
                self._links[name].retarget(world)
            else:
                self._links[name] = _Link(world, roots, self._resolve, self._metrics)

    async def ask(self, world: WorldSettings, request: Request) -> Response:
        """The answer of a world, whatever its status. `request` carries its credential.

        Raises:
            ValueError: the request breaks a limit of the protocol.
            Unavailable: nothing was done.
            AnswerLost: a write may or may not have been made.
        """
        link = self._links.get(world.name)
        if link is None:
            raise Unavailable(world.name, "it has just been taken out of the configuration")
        return await link.ask(request)

    async def close(self) -> None:
        """End all connections; what is under way fails."""
        links, self._links = list(self._links.values()), {}
        for task in self._ending:
            task.cancel()
        await asyncio.gather(*(link.close() for link in links), *self._ending, return_exceptions=True)

    def _end(self, link: _Link) -> None:
        self._metrics.circuit_open.remove(link.name)
        task = asyncio.create_task(link.finish(), name=f"end link to {link.name}")
        self._ending.add(task)
        task.add_done_callback(self._ending.discard)


class _Link:
    """The way to one world."""

    def __init__(self, world: WorldSettings, roots: bytes, resolve: Resolve, metrics: Metrics) -> None:
        self.name = world.name
        self._world = world
        self._roots = roots
        self._resolve = resolve
        self._requests = metrics.world_requests
        self._open = metrics.circuit_open.labels(world=world.name)
        self._pool = Pool(world.addresses or (), server_name=world.tls_name, trust=Trust(roots=roots))
        self._client = MarkClient(self._pool, timeout=DEADLINE)
        self._breaker = Breaker()
        self._resolving = asyncio.Lock()
        self._resolved = False
        self._resolved_at: float | None = None
        self._under_way = 0
        self._idle = asyncio.Event()
        self._idle.set()

    def serves(self, world: WorldSettings, roots: bytes) -> bool:
        """Whether this link can be used for a world as it is configured now (its addresses may have changed)."""
        return world.tls_name == self._world.tls_name and roots == self._roots

    def retarget(self, world: WorldSettings) -> None:
        """Take over other addresses; connections to addresses that stay are kept."""
        before, self._world = self._world, world
        if (world.addresses, world.service) != (before.addresses, before.service):
            self._resolved, self._resolved_at = False, None
            self._breaker.succeeded()  # what failed at the old addresses says nothing about the new ones
            self._open.set(0)
            if world.addresses is not None:
                self._pool.retarget(world.addresses)

    async def ask(self, request: Request) -> Response:
        """See `WorldPool.ask`."""
        loop = asyncio.get_running_loop()
        if self._under_way >= MOST_WAITING:
            self._count("busy")
            raise Unavailable(self.name, "it has too many requests to answer at present")
        if wait := self._breaker.wait(loop.time()):
            self._count("unreachable")
            raise Unavailable(self.name, "it did not answer lately", after=wait)
        self._under_way += 1
        self._idle.clear()
        settled = False
        try:
            await self._refresh_addresses()
            response = await self._client.request(request)
            self._breaker.succeeded()
            settled = True
        except Unreachable as error:
            settled = True
            raise self._failed(Unavailable(self.name, "it can't be reached"), "unreachable", error) from error
        except OutcomeUnknown as error:
            settled = True
            raise self._failed(AnswerLost(self.name, "its answer was lost"), "unknown", error) from error
        finally:
            if not settled:
                self._breaker.abandoned()
            self._open.set(self._breaker.open)
            self._under_way -= 1
            if not self._under_way:
                self._idle.set()
        self._count("answered")
        return response

    async def finish(self) -> None:
        """Close once what is under way has ended."""
        try:
            await self._idle.wait()
        finally:
            await self.close()

    async def close(self) -> None:
        """Close now."""
        await self._pool.close()

    def _failed(self, error: WorldError, outcome: str, cause: Exception) -> WorldError:
        self._breaker.failed(asyncio.get_running_loop().time())
        self._resolved_at = None
        self._count(outcome)
        log.warning("world did not answer", extra={"fields": {"world": self.name, "reason": str(cause)}})
        return error

    def _count(self, outcome: str) -> None:
        self._requests.labels(world=self.name, outcome=outcome).inc()

    async def _refresh_addresses(self) -> None:
        """Resolve the Service again if it is time. Raises Unreachable if no address is known at all."""
        service = self._world.service
        if service is None:
            return
        loop = asyncio.get_running_loop()
        async with self._resolving:
            if self._resolved_at is not None and loop.time() < self._resolved_at + RESOLVE_EVERY:
                return
            try:
                async with asyncio.timeout(RESOLVE_TIMEOUT):
                    self._pool.retarget(await self._resolve(service))
                self._resolved = True
            except (OSError, TimeoutError) as error:
                if not self._resolved:
                    raise Unreachable(f"{service}: {error or 'no answer from DNS'}") from error
            self._resolved_at = loop.time()
