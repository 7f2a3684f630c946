"""Builders of the transport tests: a listener with a recording handler, an independent peer, and a line between them.

The peer is aioquic's own asyncio client, not our dialer: it can do what a well-behaved client never does.
"""

from __future__ import annotations

import asyncio
import socket
import ssl
import time
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator
from contextlib import AsyncExitStack
from dataclasses import dataclass, field
from datetime import UTC, datetime
from typing import Any

import pytest
from aioquic.asyncio.protocol import QuicConnectionProtocol
from aioquic.quic import events
from aioquic.quic.configuration import QuicConfiguration
from aioquic.quic.connection import QuicConnection

from mark_protocol import transport
from mark_protocol.transport.certificates import self_signed
from mark_protocol.transport.port import Address, Certificate, Connection, FailureReason, Limits, Listener, Trust

DEADLINE = 20.0


async def _until(what: str, holds: Callable[[], Any], *, deadline: float = DEADLINE) -> Any:
    end = time.monotonic() + deadline
    while not (seen := holds()):
        assert time.monotonic() < end, f"waited {deadline:.0f} s for: {what}; last seen: {seen!r}"
        await asyncio.sleep(0.005)
    return seen


@pytest.fixture
def until() -> Callable[..., Awaitable[Any]]:
    """Poll until a condition holds; fails naming what was waited for."""
    return _until


@pytest.fixture(scope="session")
def certificate() -> Certificate:
    """One for localhost, 127.0.0.1 and ::1."""
    return self_signed(now=datetime.now(UTC))


@pytest.fixture
def trust(certificate: Certificate) -> Trust:
    """Trusts `certificate`."""
    return Trust(roots=certificate.chain_pem)


@pytest.fixture(params=["portable"])
def engine(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> str:
    """Every engine that the conformance suite is run with."""
    monkeypatch.setenv(transport.ENGINE_VARIABLE, request.param)
    return str(request.param)


@dataclass
class Recorder:
    """A handler that notes every call; `answer` makes pieces of a request, or None for "later"."""

    answer: Callable[[bytes], tuple[bytes, ...] | None] = lambda data: (b"echo ", data)
    listener: Listener = field(init=False)
    calls: list[tuple[Any, ...]] = field(default_factory=list)

    def of(self, kind: str) -> list[tuple[Any, ...]]:
        """The calls of one kind, without its name."""
        return [call[1:] for call in self.calls if call[0] == kind]

    @property
    def requests(self) -> list[bytes]:
        """What arrived, in order."""
        return [data for _, _, data in self.of("request")]

    def opened(self, conn: int, peer: Address, server_name: str | None) -> None:
        self.calls.append(("opened", conn, peer, server_name))

    def request(self, conn: int, stream: int, data: bytes) -> None:
        self.calls.append(("request", conn, stream, data))
        if (pieces := self.answer(data)) is not None:
            self.listener.send(conn, stream, *pieces)

    def failed(self, conn: int, stream: int, reason: FailureReason) -> None:
        self.calls.append(("failed", conn, stream, reason))
        self.listener.send(conn, stream, b"failed: " + reason.encode())

    def stopped(self, conn: int, stream: int) -> None:
        self.calls.append(("stopped", conn, stream))

    def writable(self, conn: int, stream: int) -> None:
        self.calls.append(("writable", conn, stream))

    def closed(self, conn: int, code: int, reason: str) -> None:
        self.calls.append(("closed", conn, code, reason))


class Peer(QuicConnectionProtocol):
    """A raw client: sends what it is told, remembers what came on each stream and how the connection ended."""

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        self.answers: dict[int, bytearray] = {}
        self.finished: set[int] = set()
        self.resets: dict[int, int] = {}
        self.stops: dict[int, int] = {}
        self.end: events.ConnectionTerminated | None = None
        self.ready = False

    @property
    def quic(self) -> QuicConnection:
        """The connection, for what only a rude client does."""
        return self._quic

    def quic_event_received(self, event: events.QuicEvent) -> None:
        match event:
            case events.HandshakeCompleted():
                self.ready = True
            case events.StreamDataReceived():
                self.answers.setdefault(event.stream_id, bytearray()).extend(event.data)
                if event.end_stream:
                    self.finished.add(event.stream_id)
            case events.StreamReset():
                self.resets[event.stream_id] = event.error_code
            case events.StopSendingReceived():
                self.stops[event.stream_id] = event.error_code
            case events.ConnectionTerminated():
                self.end = event

    def send(self, data: bytes, *, fin: bool = True, stream: int | None = None) -> int:
        """Send on a stream (default: a new one); returns its number."""
        if stream is None:
            stream = self._quic.get_next_available_stream_id()
        self._quic.send_stream_data(stream, data, end_stream=fin)
        self.transmit()
        return stream

    def cancel(self, stream: int) -> None:
        """RESET_STREAM."""
        self._quic.reset_stream(stream, 0)
        self.transmit()

    def stop(self, stream: int) -> None:
        """STOP_SENDING."""
        self._quic.stop_stream(stream, 0)
        self.transmit()

    async def acknowledged(self, stream: int) -> None:
        """Wait until the server has all that was sent on this stream."""
        sender = self._quic._streams[stream].sender
        await _until(f"stream {stream} to be acknowledged", lambda: not sender._buffer)

    async def answer(self, stream: int) -> bytes:
        """The whole answer."""
        await _until(f"the answer on stream {stream}", lambda: stream in self.finished)
        return bytes(self.answers[stream])


class Line(asyncio.DatagramProtocol):
    """A UDP relay towards a server: its outer port can change (a NAT that forgot), and it can go dead."""

    def __init__(self, server: Address) -> None:
        self._server = server
        self._inner: asyncio.DatagramTransport | None = None
        self._outer: asyncio.DatagramTransport | None = None
        self._client: Any = None
        self.cut = False

    @classmethod
    async def to(cls, server: Address) -> Line:
        """Open a relay to this server."""
        line = cls(server)
        loop = asyncio.get_running_loop()
        line._inner, _ = await loop.create_datagram_endpoint(lambda: line, local_addr=("127.0.0.1", 0))
        await line.rebind()
        return line

    @property
    def address(self) -> Address:
        """Where clients find it."""
        assert self._inner is not None
        return Address(*self._inner.get_extra_info("sockname")[:2])

    async def rebind(self) -> None:
        """Go on from another port."""
        if self._outer is not None:
            self._outer.close()
        line = self

        class Outer(asyncio.DatagramProtocol):
            def datagram_received(self, data: bytes, addr: Any) -> None:
                if not line.cut and line._client is not None and line._inner is not None:
                    line._inner.sendto(data, line._client)

        loop = asyncio.get_running_loop()
        self._outer, _ = await loop.create_datagram_endpoint(Outer, remote_addr=self._server)

    def datagram_received(self, data: bytes, addr: Any) -> None:
        self._client = addr
        if not self.cut and self._outer is not None:
            self._outer.sendto(data)

    def close(self) -> None:
        """Close both sockets."""
        for endpoint in (self._inner, self._outer):
            if endpoint is not None:
                endpoint.close()


@dataclass
class Kit:
    """Makes listeners, peers, connections and lines, and cleans them away."""

    certificate: Certificate
    stack: AsyncExitStack

    async def listener(
        self,
        *,
        answer: Callable[[bytes], tuple[bytes, ...] | None] | None = None,
        port: int = 0,
        host: str = "127.0.0.1",
        certificates: list[Certificate] | None = None,
        **limits: Any,
    ) -> Recorder:
        """A listener on loopback; its recorder has it as `.listener`."""
        recorder = Recorder() if answer is None else Recorder(answer)
        recorder.listener = await transport.listen(
            host, port, certificates=certificates or [self.certificate], limits=Limits(**limits), handler=recorder
        )
        self.stack.push_async_callback(recorder.listener.close, grace=0)
        return recorder

    async def peer(
        self,
        address: Address,
        *,
        alpn: list[str] | None = None,
        ready: bool = True,
        ticket_handler: Callable[[Any], None] | None = None,
        **configuration: Any,
    ) -> Peer:
        """A raw client; waits for its handshake unless `ready` is false."""
        config = QuicConfiguration(
            alpn_protocols=["mark"] if alpn is None else alpn,
            verify_mode=ssl.CERT_NONE,
            server_name="localhost",
            **configuration,
        )
        loop = asyncio.get_running_loop()
        endpoint, peer = await loop.create_datagram_endpoint(
            lambda: Peer(QuicConnection(configuration=config, session_ticket_handler=ticket_handler)),
            local_addr=("127.0.0.1", 0),
        )
        self.stack.callback(endpoint.close)
        self.stack.callback(peer.close)
        peer.connect(address)
        if ready:
            await _until("the peer's handshake", lambda: peer.ready)
        return peer

    async def dial(self, address: Address, *, server_name: str = "localhost", **options: Any) -> Connection:
        """Our own client, trusting the kit's certificate."""
        connection = await transport.dial(
            *address, server_name=server_name, trust=Trust(roots=self.certificate.chain_pem), **options
        )
        self.stack.callback(connection.close)
        return connection

    async def line(self, server: Address) -> Line:
        """A relay to a server."""
        line = await Line.to(server)
        self.stack.callback(line.close)
        return line


@pytest.fixture
async def kit(certificate: Certificate) -> AsyncIterator[Kit]:
    """See `Kit`."""
    async with AsyncExitStack() as stack:
        yield Kit(certificate, stack)


@pytest.fixture
def udp_socket() -> Iterator[socket.socket]:
    """A bare UDP socket on loopback, for datagrams that are no QUIC."""
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as sock:
        sock.bind(("127.0.0.1", 0))
        sock.setblocking(False)
        yield sock
