"""The listening side: one UDP socket, admission of new connections, and everybody's timers.

Each wake-up reads a batch of datagrams, lets the connections call the handler, and then transmits once for each
connection that was touched.
"""

from __future__ import annotations

import asyncio
import logging
import math
import socket
from collections import Counter
from collections.abc import Callable, Sequence
from typing import ParamSpec, TypeVar

from aioquic.quic.configuration import QuicConfiguration
from aioquic.quic.packet import QuicErrorCode, QuicHeader, QuicPacketType

from mark_protocol.transport import certificates as certs
from mark_protocol.transport.port import (
    CANCEL,
    CLOSE_REASON,
    Address,
    Certificate,
    FailureReason,
    Handler,
    Limits,
    Stats,
    TransportError,
)
from mark_protocol.transport.portable import packets, udp
from mark_protocol.transport.portable.configuration import of_listener
from mark_protocol.transport.portable.connection import ServerConnection, Shared
from mark_protocol.transport.portable.notices import Notices
from mark_protocol.transport.portable.packets import AddressProof, Proof
from mark_protocol.transport.portable.quic import ENGINE, Quic
from mark_protocol.transport.portable.resets import Resets

P = ParamSpec("P")
T = TypeVar("T")
logger = logging.getLogger(__name__)

SHORTEST_TIMER = 0.001
"""Seconds. uvloop rounds what is shorter down to nothing, and would spin."""

CATCH_UP = 16
"""Batches of datagrams that are read before anybody is judged by a deadline."""


class PortableListener:
    """aioquic behind the port. Made by `listen`; everything runs in the event loop that called it."""

    def __init__(
        self, *, sock: socket.socket, certificates: Sequence[Certificate], limits: Limits, handler: Handler
    ) -> None:
        self._loop = asyncio.get_running_loop()
        self._sock = sock
        self._address = udp.address_of(sock.getsockname())
        self._limits = limits
        self._shared = Shared(limits=limits, handler=handler)
        self._count = self._shared.counters
        self._proof = AddressProof()
        self._configurations: list[tuple[frozenset[str], QuicConfiguration]] = []
        self._next_conn = 1
        self._connections: dict[int, ServerConnection] = {}
        self._routes: dict[bytes, ServerConnection] = {}
        self._per_ip: Counter[str] = Counter()
        self._handshaking: set[int] = set()
        self._touched: set[int] = set()
        self._timers: dict[int, tuple[float, asyncio.TimerHandle]] = {}
        self._flush_soon: asyncio.Handle | None = None
        self._tick: asyncio.TimerHandle | None = None
        self._tick_at = math.inf
        self._not_before = 0.0
        self._coarse = min(limits.request_timeout, limits.handshake_timeout) / 20
        self._draining = False
        self._idle = asyncio.Event()
        self._notices = Notices(self._loop.time)
        self.reload(certificates)
        self._loop.add_reader(sock, self._readable)

    @property
    def address(self) -> Address:
        """See `Listener.address`."""
        return self._address

    @property
    def engine(self) -> str:
        """See `Listener.engine`."""
        return ENGINE

    # What the handler calls

    def send(self, conn: int, stream: int, *pieces: bytes, fin: bool = True) -> int:
        """See `Listener.send`."""
        connection = self._connections.get(conn)
        if connection is None:
            return -1
        self._touch(conn)
        return connection.send(stream, pieces, fin)

    def reset(self, conn: int, stream: int, code: int = CANCEL) -> None:
        """See `Listener.reset`."""
        if (connection := self._connections.get(conn)) is not None:
            self._touch(conn)
            connection.reset(stream, code)

    def disconnect(self, conn: int, code: int = CANCEL, reason: str = "") -> None:
        """See `Listener.disconnect`."""
        if (connection := self._connections.get(conn)) is not None:
            self._touch(conn)
            connection.close(code, reason)

    def flush(self) -> None:
        """See `Listener.flush`."""
        if self._flush_soon is not None:
            self._flush_soon.cancel()
            self._flush_soon = None
        while self._touched:
            self._transmit(self._connections.get(self._touched.pop()))

    def reload(self, certificates: Sequence[Certificate]) -> None:
        """See `Listener.reload`. With several, SNI chooses; without a match the first is used."""
        if not certificates:
            raise TransportError("a listener needs a certificate")
        parsed = [certs.parse(certificate) for certificate in certificates]
        self._resets = Resets(parsed[0].key, socket.gethostname())
        self._configurations = [(one.names, of_listener(one, self._limits)) for one in parsed]

    def drain(self) -> None:
        """See `Listener.drain`."""
        self._draining = True

    async def close(self, *, code: int = CANCEL, reason: str = CLOSE_REASON, grace: float = 10.0) -> None:
        """See `Listener.close`. A request that comes in during the grace is closed without an answer."""
        self.drain()
        self._shared.closing = True
        try:
            async with asyncio.timeout(grace):
                while any(connection.busy() for connection in self._connections.values()):
                    self._idle.clear()
                    await self._idle.wait()
        except TimeoutError:
            logger.info("closing with answers still under way after %s s", grace)
        finally:
            self._end(code, reason)

    def stats(self) -> Stats:
        """See `Listener.stats`."""
        opened = sum(connection.opened and not connection.closed for connection in self._connections.values())
        return Stats(open=opened, handshaking=len(self._handshaking), **self._count)

    # Datagrams

    def _readable(self) -> int:
        """Take a batch of datagrams, and let out what comes of them. Returns how many there were."""
        now = self._loop.time()
        taken = 0
        for datagram, sender in udp.drain(self._sock):
            taken += 1
            destination = packets.destination(datagram) or b""
            connection = self._routes.get(destination) or self._first(datagram, sender, now)
            if connection is None:
                self._reset(datagram, destination, sender, now)
                continue
            self._guard(connection, connection.receive, datagram, sender, now)
            if connection.quic.started:
                self._touched.add(connection.conn)
            else:  # its first packet could not be read: nobody's handshake, so nothing is kept
                self._drop(udp.address_of(sender))
                self._forget(connection, "unreadable")
        self._enforce_process_budget()
        self.flush()
        return taken

    def _first(self, datagram: bytes, sender: udp.SocketAddress, now: float) -> ServerConnection | None:
        """Admit a client's first datagram, or deal with it here."""
        peer = udp.address_of(sender)
        configuration = self._configurations[0][1]
        if (negotiation := packets.other_versions(datagram, configuration.supported_versions)) is not None:
            self._drop(peer)
            self._reply(negotiation, sender)
            return None
        header = packets.first_header(datagram)
        if header is None or header.packet_type is not QuicPacketType.INITIAL:
            self._drop(peer)
            return None
        # A token that is not ours may be an old one of whoever had this address: no proof, and no offence.
        proof = self._proof.check(header, sender, now) if header.token else None
        if proof is None and len(self._handshaking) >= self._limits.retry_above:
            if header.token:
                self._refuse(header, sender, QuicErrorCode.INVALID_TOKEN, "a Retry token that does not fit")
            else:
                self._count["retries"] += 1
                self._reply(self._proof.demand(header, sender, now), sender)
            return None
        if (problem := self._full(peer)) is not None:
            self._refuse(header, sender, QuicErrorCode.CONNECTION_REFUSED, problem)
            return None
        return self._admit(header, proof, configuration, peer, now)

    def _full(self, peer: Address) -> str | None:
        if self._draining:
            return "shutting down"
        if len(self._connections) >= self._limits.max_connections:
            return f"{self._limits.max_connections} connections are open"
        if self._per_ip[peer.host] >= self._limits.max_connections_per_ip:
            return f"{self._limits.max_connections_per_ip} connections of this address are open"
        return None

    def _admit(
        self, header: QuicHeader, proof: Proof | None, configuration: QuicConfiguration, peer: Address, now: float
    ) -> ServerConnection:
        quic = Quic(
            limits=self._limits,
            configuration=configuration,
            original_destination_connection_id=proof.original if proof else header.destination_cid,
            retry_source_connection_id=proof.retried if proof else None,
            on_server_name=self._choose_certificate,
            reset_tokens=self._resets.token,
        )
        connection = ServerConnection(
            conn=self._next_conn, quic=quic, peer=peer, now=now, shared=self._shared, routes=self._routes
        )
        connection.route(header.destination_cid)
        self._next_conn += 1
        self._connections[connection.conn] = connection
        self._per_ip[peer.host] += 1
        self._handshaking.add(connection.conn)
        self._tick_by(connection.next_tick())
        return connection

    def _choose_certificate(self, quic: Quic, server_name: str | None) -> None:
        connection = self._routes.get(quic.host_cid)
        if connection is not None:
            connection.server_name = server_name
        wanted = (server_name or "").lower()
        for names, configuration in self._configurations:
            if wanted in names:
                quic.use_certificate_of(configuration)
                return

    def _refuse(self, header: QuicHeader, sender: udp.SocketAddress, code: QuicErrorCode, why: str) -> None:
        self._count["refused"] += 1
        self._notices.say("refused", "connection refused: %s", why, peer=udp.address_of(sender))
        self._reply(packets.refuse(header, code), sender)

    def _drop(self, peer: Address) -> None:
        self._count["dropped"] += 1
        self._notices.say(
            "dropped", "datagram ignored: not for an open connection, and not the start of one", peer=peer
        )

    def _reset(self, datagram: bytes, destination: bytes, sender: udp.SocketAddress, now: float) -> None:
        """Tell a client of a connection that a former process had, or that has ended here, that it is no more."""
        reset = self._resets.reply_to(datagram, destination, now)
        if reset is not None:
            self._reply(reset, sender)

    def _reply(self, datagram: bytes, to: udp.SocketAddress) -> None:
        try:
            self._sock.sendto(datagram, to)
        except OSError as error:  # a full buffer, an address that is gone: QUIC takes it for a lost packet
            self._count["dropped"] += 1
            logger.debug("datagram lost: %s", error)

    # Transmission and timers

    def _touch(self, conn: int) -> None:
        self._touched.add(conn)
        if self._flush_soon is None:
            self._flush_soon = self._loop.call_soon(self.flush)

    def _transmit(self, connection: ServerConnection | None) -> None:
        if connection is None:
            return
        datagrams = self._guard(connection, connection.transmit, self._loop.time())
        for datagram, to in datagrams or ():
            self._reply(datagram, to)
        self._after(connection)

    def _after(self, connection: ServerConnection) -> None:
        """Bring the listener's books in line with what a connection has become."""
        conn = connection.conn
        if connection.opened or connection.closed:
            self._handshaking.discard(conn)
            if connection.closed and not connection.opened and connection.failure:
                self._notices.say("handshake", "handshake failed: %s", connection.failure, peer=connection.peer)
                connection.failure = ""
        if connection.finished:
            self._forget(connection, "")
            return
        self._arm(conn, connection.quic.get_timer())
        self._tick_by(connection.next_tick())
        if self._shared.closing and not connection.busy():
            self._idle.set()

    def _arm(self, conn: int, at: float | None) -> None:
        armed = self._timers.get(conn)
        if at is None or (armed is not None and armed[0] <= at):
            return  # an early timer looks again, which is cheaper than a new one for every packet
        if armed is not None:
            armed[1].cancel()
        at = max(at, self._loop.time() + SHORTEST_TIMER)
        self._timers[conn] = (at, self._loop.call_at(at, self._wake, conn))

    def _wake(self, conn: int) -> None:
        del self._timers[conn]
        connection = self._connections[conn]
        now = self._loop.time()
        due = connection.quic.get_timer()
        if due is not None and due <= now:
            self._guard(connection, connection.wake, now)
        self._touched.add(conn)
        self.flush()

    def _tick_by(self, at: float) -> None:
        """See to it that the deadlines are looked at by then, or a little later: a look goes over all connections."""
        at = max(at, self._not_before)
        if at >= self._tick_at:
            return
        if self._tick is not None:
            self._tick.cancel()
        self._tick_at = max(at, self._loop.time() + SHORTEST_TIMER)
        self._tick = self._loop.call_at(self._tick_at, self._ticked)

    def _ticked(self) -> None:
        self._tick, self._tick_at = None, math.inf
        for _ in range(CATCH_UP):  # if it was this process that stood still, what peers sent in time is waiting here
            if self._readable() < udp.BATCH:
                break
        now = self._loop.time()
        self._not_before = now + self._coarse
        due = [connection for connection in self._connections.values() if connection.next_tick() <= now]
        for connection in due:
            self._guard(connection, connection.tick, now)
            self._touched.add(connection.conn)
        self.flush()
        self._tick_by(min((c.next_tick() for c in self._connections.values()), default=math.inf))

    def _enforce_process_budget(self) -> None:
        """Cut off the request that has been unfinished for longest, until the others have room."""
        while self._shared.assembling > self._limits.process_assembly_budget:
            oldest = min(
                (
                    (*found, connection.conn)
                    for connection in self._connections.values()
                    if (found := connection.oldest_request())
                ),
            )
            connection = self._connections[oldest[2]]
            self._guard(connection, connection.cut_off, oldest[1], FailureReason.OVERSIZE)
            self._touched.add(connection.conn)

    # Ends

    def _forget(self, connection: ServerConnection, reason: str) -> None:
        conn = connection.conn
        if self._connections.pop(conn, None) is None:
            return
        connection.abandon(reason)
        self._handshaking.discard(conn)
        self._touched.discard(conn)
        if (armed := self._timers.pop(conn, None)) is not None:
            armed[1].cancel()
        self._per_ip[connection.peer.host] -= 1
        if not self._per_ip[connection.peer.host]:
            del self._per_ip[connection.peer.host]
        self._idle.set()

    def _guard(self, connection: ServerConnection, call: Callable[P, T], *args: P.args, **kwargs: P.kwargs) -> T | None:
        """Call into a connection. Input that brings the engine down there costs that connection, and no other."""
        try:
            return call(*args, **kwargs)
        except Exception as error:
            self._count["panics"] += 1
            name = type(error).__name__
            self._notices.say(
                "panic", "connection dropped: the engine failed with %s", name, peer=connection.peer, bug=error
            )
            self._forget(connection, "internal error")
            return None

    def _end(self, code: int, reason: str) -> None:
        for connection in list(self._connections.values()):
            if not connection.closed:
                connection.close(code, reason)
            self._transmit(connection)
            self._forget(connection, reason)
        for handle in (self._tick, self._flush_soon):
            if handle is not None:
                handle.cancel()
        if self._sock.fileno() >= 0:
            self._loop.remove_reader(self._sock)
            self._sock.close()


async def listen(
    host: str, port: int, *, certificates: Sequence[Certificate], limits: Limits, handler: Handler
) -> PortableListener:
    """Bind and accept; see `mark_protocol.transport.listen`."""
    sock = await udp.bind(host, port)
    try:
        return PortableListener(sock=sock, certificates=certificates, limits=limits, handler=handler)
    except BaseException:
        sock.close()
        raise
