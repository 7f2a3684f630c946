"""aioquic's QUIC connection, held to our limits.

Everything that touches what aioquic 1.7 calls private stands in this file, with the reason beside it. Like its base
class it knows no socket and no clock: datagrams and the time come in as arguments.
"""

from __future__ import annotations

import hmac
import logging
from collections.abc import Callable
from functools import partial

import aioquic
from aioquic._buffer import Buffer
from aioquic.quic.configuration import QuicConfiguration
from aioquic.quic.connection import QuicConnection, QuicConnectionState
from aioquic.quic.events import ConnectionTerminated
from aioquic.quic.packet_builder import QuicPacketBuilder
from aioquic.quic.recovery import QuicPacketSpace
from aioquic.quic.stream import QuicStream
from aioquic.tls import pull_client_hello

from mark_protocol.transport.port import Limits
from mark_protocol.transport.portable.resets import SMALLEST, TOKEN, Tokens

# The library tells of every handshake and every refused frame. Listener and dialer say what matters, once.
logging.getLogger("quic").setLevel(logging.ERROR)

ENGINE = f"portable aioquic {aioquic.__version__}"

ServerNameHook = Callable[["Quic", str | None], None]


class Quic(QuicConnection):
    """A connection whose windows slide, whose peers get the stream limit of `limits`, and that acknowledges at once.

    Args:
        limits: windows and the stream limit.
        configuration: TLS and timers, as aioquic wants them.
        original_destination_connection_id: servers only: the ID that the client's first packet named.
        retry_source_connection_id: servers only: the ID that a Retry gave, if there was one.
        on_server_name: servers only: called with the SNI of the client before the certificate is used.
        reset_tokens: servers only: what a client knows a stateless reset by, for each of our connection IDs.
    """

    def __init__(
        self,
        *,
        limits: Limits,
        configuration: QuicConfiguration,
        original_destination_connection_id: bytes | None = None,
        retry_source_connection_id: bytes | None = None,
        on_server_name: ServerNameHook | None = None,
        reset_tokens: Tokens | None = None,
    ) -> None:
        # No session ticket handler, on either side: no resumption and no early data, so no replayed request.
        super().__init__(
            configuration=configuration,
            original_destination_connection_id=original_destination_connection_id,
            retry_source_connection_id=retry_source_connection_id,
        )
        self._stream_window = limits.stream_window
        self._connection_window = limits.connection_window
        self._on_server_name = on_server_name
        self._reset_tokens = reset_tokens
        self._use_reset_tokens()
        # The library grants 128 streams of either kind. Mark has no unidirectional streams, and no stream of a server.
        allowed = 0 if configuration.is_client else limits.max_streams
        for limit, value in ((self._local_max_streams_bidi, allowed), (self._local_max_streams_uni, 0)):
            limit.value = limit.sent = value
        # We transmit once for a whole batch of datagrams, so an acknowledgement needs no delay to be shared, and leaves
        # in the same packet as the answer.
        self._ack_delay = 0.0

    @property
    def ending(self) -> ConnectionTerminated | None:
        """How the connection ends, as soon as it is known; the event itself comes after the closing period only."""
        return self._close_event

    @property
    def started(self) -> bool:
        """Whether any packet of the peer could be read yet."""
        return self._state is not QuicConnectionState.FIRSTFLIGHT

    def holds(self, stream_id: int) -> bool:
        """Whether any state of the stream is left: false once both halves are finished and acknowledged."""
        return stream_id in self._streams

    def unacknowledged(self, stream_id: int) -> int:
        """Bytes that were given to the engine for this stream and are not acknowledged in order."""
        stream = self._streams.get(stream_id)
        return len(stream.sender._buffer) if stream is not None else 0

    def acknowledged(self, stream_id: int) -> int:
        """Bytes of this stream that the peer has acknowledged in order."""
        stream = self._streams.get(stream_id)
        return stream.sender._buffer_start if stream is not None else 0

    def has_sent_all(self, stream_id: int) -> bool:
        """Whether the peer has acknowledged the end of what we send on this stream."""
        stream = self._streams.get(stream_id)
        return stream is None or stream.sender.is_finished

    def has_left(self, stream_id: int) -> bool:
        """Whether any byte of this stream was ever put into a packet."""
        stream = self._streams.get(stream_id)
        return stream is None or stream.sender.highest_offset > 0

    @property
    def free_streams(self) -> int:
        """How many streams the peer lets us open. Beyond that the library would queue them without a word."""
        return max(0, self._remote_max_streams_bidi - self.get_next_available_stream_id() // 4)

    def stop(self, stream_id: int, code: int) -> None:
        """Ask the peer to send no more on this stream, and give it no more credit; nothing if it has finished."""
        stream = self._streams.get(stream_id)
        if stream is not None and not stream.receiver.is_finished:
            self.stop_stream(stream_id, code)

    def use_certificate_of(self, configuration: QuicConfiguration) -> None:
        """Answer this handshake with another certificate; only from within `on_server_name`."""
        self.tls.certificate = configuration.certificate
        self.tls.certificate_chain = configuration.certificate_chain
        self.tls.certificate_private_key = configuration.private_key

    def is_reset(self, datagram: bytes) -> bool:
        """Clients only: whether it is the word of a server that has lost this connection (RFC 9000 section 10.3.1)."""
        if len(datagram) < SMALLEST or datagram[0] & 0x80:
            return False
        if any(datagram[1:].startswith(ours.cid) for ours in self._host_cids):
            return False
        token = self._peer_cid.stateless_reset_token
        return bool(token) and hmac.compare_digest(datagram[-TOKEN:], token)

    def _use_reset_tokens(self) -> None:
        # The library draws them, and forgets them with the process.
        if self._reset_tokens is not None:
            for ours in self._host_cids:
                ours.stateless_reset_token = self._reset_tokens(ours.cid)

    def _replenish_connection_ids(self) -> None:
        super()._replenish_connection_ids()
        self._use_reset_tokens()

    def _initialize(self, peer_cid: bytes) -> None:
        super()._initialize(peer_cid)
        if not self._is_client:
            # The library keeps no server name. Its TLS context is not injectable, so its step is wrapped.
            self.tls._server_handle_hello = partial(  # type: ignore[method-assign]
                self._read_hello, self.tls._server_handle_hello
            )

    def _read_hello(self, handle: Callable[[Buffer, Buffer, Buffer], None], hello: Buffer, *out: Buffer) -> None:
        start = hello.tell()
        server_name = pull_client_hello(hello).server_name
        hello.seek(start)
        if self._on_server_name is not None:
            self._on_server_name(self, server_name)
        handle(hello, *out)

    def _write_connection_limits(self, builder: QuicPacketBuilder, space: QuicPacketSpace) -> None:
        # The library doubles the window each time half of it is used, for ever. Ours slides.
        data = self._local_max_data
        if data.value - data.used < self._connection_window // 2:
            data.value = data.used + self._connection_window
        used, data.used = data.used, 0  # nothing used: nothing to double
        try:
            super()._write_connection_limits(builder, space)
        finally:
            data.used = used

    def _write_stream_limits(self, builder: QuicPacketBuilder, space: QuicPacketSpace, stream: QuicStream) -> None:
        # The same for a stream, counted from what was handed over in order: so a peer that leaves out the first byte
        # cannot make us buffer more than one window. A stopped stream gets no more.
        receiver = stream.receiver
        if not receiver.is_finished and receiver._stop_error_code is None:
            taken = receiver.starting_offset()
            if stream.max_stream_data_local - taken < self._stream_window // 2:
                stream.max_stream_data_local = taken + self._stream_window
        if stream.max_stream_data_local_sent == stream.max_stream_data_local:
            return
        highest, receiver.highest_offset = receiver.highest_offset, 0
        try:
            super()._write_stream_limits(builder, space, stream)
        finally:
            receiver.highest_offset = highest
