"""A raw client on aioquic, not ours: it can be as rude as a client can be, and says what became of each stream.

Every stream ends in one of these ways: answered (FIN), reset by the server, or gone with its connection.
"""

from __future__ import annotations

import asyncio
import ssl
from dataclasses import dataclass, field
from enum import StrEnum
from typing import Any

from aioquic import tls
from aioquic.asyncio.protocol import QuicConnectionProtocol
from aioquic.quic import events
from aioquic.quic.configuration import QuicConfiguration
from aioquic.quic.connection import QuicConnection
from aioquic.quic.packet import QuicPacketType
from aioquic.quic.packet_builder import QuicPacketBuilder
from cryptography import x509


class End(StrEnum):
    """How a stream ended."""

    ANSWERED = "answered"
    RESET = "reset"
    CLOSED = "closed"


@dataclass(slots=True)
class Stream:
    """One request: what came of its answer, and how it ended."""

    number: int
    ended: asyncio.Future[End]
    answer: bytearray = field(default_factory=bytearray)
    moved: asyncio.Event = field(default_factory=asyncio.Event)
    """Set by whatever comes; cleared by who waits for more."""


class Peer(QuicConnectionProtocol):
    """One connection. `ready` is set by the handshake, `gone` by the end."""

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        self.ready = asyncio.Event()
        self.gone = asyncio.Event()
        self.end: events.ConnectionTerminated | None = None
        self._streams_here: dict[int, Stream] = {}

    @property
    def quic(self) -> QuicConnection:
        """The connection, for what only a rude client does."""
        return self._quic

    @property
    def certificate(self) -> x509.Certificate | None:
        """What the server showed in the handshake."""
        return self._quic.tls._peer_certificate

    def quic_event_received(self, event: events.QuicEvent) -> None:
        """See the base class."""
        match event:
            case events.HandshakeCompleted():
                self.ready.set()
            case events.StreamDataReceived():
                if (stream := self._streams_here.get(event.stream_id)) is not None:
                    stream.answer += event.data
                    stream.moved.set()
                    if event.end_stream:
                        self._ended(stream, End.ANSWERED)
            case events.StreamReset():
                if (stream := self._streams_here.get(event.stream_id)) is not None:
                    self._ended(stream, End.RESET)
            case events.ConnectionTerminated():
                self._over(event)

    def free(self) -> bool:
        """Whether the server lets us open another stream."""
        return self._quic._remote_max_streams_bidi > self._quic.get_next_available_stream_id() // 4

    def open(self, data: bytes, *, fin: bool = True) -> Stream:
        """Begin a request; with `fin` it is whole."""
        number = self._quic.get_next_available_stream_id()
        stream = Stream(number, asyncio.get_running_loop().create_future())
        if self.gone.is_set():
            stream.ended.set_result(End.CLOSED)
            return stream
        self._streams_here[number] = stream
        self.more(stream, data, fin=fin)
        return stream

    def more(self, stream: Stream, data: bytes, *, fin: bool) -> None:
        """More of a request."""
        if not self.gone.is_set() and not stream.ended.done():
            self._quic.send_stream_data(stream.number, data, end_stream=fin)
            self.transmit()

    def cancel(self, stream: Stream) -> None:
        """RESET_STREAM, and STOP_SENDING: neither half matters any more. What was sent whole is only stopped."""
        if self.gone.is_set() or stream.ended.done():
            return
        inside = self._quic._streams.get(stream.number)
        if inside is not None and not inside.sender.is_finished and inside.sender._buffer_fin is None:
            self._quic.reset_stream(stream.number, 0)
        if inside is not None and not inside.receiver.is_finished:
            self._quic.stop_stream(stream.number, 0)
        self.transmit()

    def inject(self, frames: bytes) -> None:
        """Send these bytes as the frames of a packet of their own, under the keys of the connection."""
        ordinary = self._quic._write_application

        def injected(builder: QuicPacketBuilder, *args: Any, **kwargs: Any) -> None:
            self._quic._write_application = ordinary  # type: ignore[method-assign]
            builder.start_packet(QuicPacketType.ONE_RTT, self._quic._cryptos[tls.Epoch.ONE_RTT])
            frame = builder.start_frame(0x01, capacity=len(frames))
            frame.seek(frame.tell() - 1)  # over the type of a PING
            frame.push_bytes(frames)
            return ordinary(builder, *args, **kwargs)

        if not self.gone.is_set() and self._quic._handshake_confirmed:
            self._quic._write_application = injected  # type: ignore[method-assign]
            self._quic.send_ping(0)
            self.transmit()

    def grant_nothing(self) -> None:
        """Stop reading: the windows of now are the last."""
        self._quic._write_connection_limits = lambda **_: None  # type: ignore[method-assign]
        self._quic._write_stream_limits = lambda **_: None  # type: ignore[method-assign]

    def vanish(self) -> None:
        """Be gone without a word, as a process that was killed."""
        if self._transport is not None:
            self._transport.abort()
        self._over(None)

    def leave(self) -> None:
        """Say goodbye and be gone."""
        if not self.gone.is_set():
            self.close()
        self.vanish()

    def _ended(self, stream: Stream, end: End) -> None:
        if not stream.ended.done():
            stream.ended.set_result(end)
        stream.moved.set()
        self._streams_here.pop(stream.number, None)

    def _over(self, event: events.ConnectionTerminated | None) -> None:
        self.end = self.end or event
        self.gone.set()
        for stream in list(self._streams_here.values()):
            self._ended(stream, End.CLOSED)
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None


async def connect(port: int, *, limit: float = 60.0, **configuration: Any) -> Peer | None:
    """A connection to a server on loopback, whatever its certificate; None if it refused, or did not answer in time."""
    peer = await begin(port, **configuration)
    waiting = [asyncio.create_task(event.wait()) for event in (peer.ready, peer.gone)]
    try:
        await asyncio.wait(waiting, timeout=limit, return_when=asyncio.FIRST_COMPLETED)
    finally:
        for task in waiting:
            task.cancel()
        await asyncio.gather(*waiting, return_exceptions=True)
    if peer.ready.is_set() and not peer.gone.is_set():
        return peer
    peer.leave()
    return None


async def begin(port: int, **configuration: Any) -> Peer:
    """A connection whose handshake has only begun."""
    config = QuicConfiguration(
        alpn_protocols=["mark"], verify_mode=ssl.CERT_NONE, server_name="localhost", **configuration
    )
    loop = asyncio.get_running_loop()
    _, peer = await loop.create_datagram_endpoint(
        lambda: Peer(QuicConnection(configuration=config)), local_addr=("127.0.0.1", 0)
    )
    peer.connect(("127.0.0.1", port))
    return peer
