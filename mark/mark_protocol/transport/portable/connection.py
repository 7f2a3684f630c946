"""One accepted connection: requests are put together, answers are taken apart, deadlines and budgets are kept.

Datagrams, timers and the time come in as arguments; who reads the socket is the listener's business.

A stream goes through: assembling -> whole (handed to the handler) -> answering -> gone. `cut off` leaves assembling
towards answering, because a failed request is still answered. Its entry lives exactly as long as the engine's stream,
so that late frames of a stream are never taken for a new request.
"""

from __future__ import annotations

import logging
import math
from collections import deque
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import ParamSpec

from aioquic.quic.events import (
    ConnectionIdIssued,
    ConnectionIdRetired,
    ConnectionTerminated,
    HandshakeCompleted,
    StopSendingReceived,
    StreamDataReceived,
    StreamReset,
)
from aioquic.quic.packet import QuicErrorCode

from mark_protocol.transport.port import CANCEL, Address, FailureReason, Handler, Limits
from mark_protocol.transport.portable.quic import Quic
from mark_protocol.transport.portable.udp import SocketAddress

P = ParamSpec("P")
logger = logging.getLogger(__name__)

PROGRESS = 64 << 10
"""Bytes that a peer has to take of a waiting answer (or all, if less) in one request timeout."""


@dataclass(slots=True, kw_only=True)
class Shared:
    """What the connections of a listener have in common."""

    limits: Limits
    handler: Handler
    assembling: int = 0
    """Bytes of unfinished requests, over all connections."""
    closing: bool = False
    """New requests are closed without an answer (Mark protocol 1.1)."""
    counters: dict[str, int] = field(
        default_factory=lambda: dict.fromkeys(
            ("requests", "resets", "stops", "timeouts", "oversize", "refused", "retries", "dropped", "panics"), 0
        )
    )


@dataclass(slots=True)
class _Stream:
    parts: bytearray | None
    """The request so far; None once it is whole or cut off."""
    deadline: float
    """When the request has to be whole, or when the answer has to have moved."""
    delivered: bool = False
    pieces: deque[memoryview] = field(default_factory=deque)
    queued: int = 0
    fin: bool = False
    """The last piece is queued."""
    ended: bool = False
    """The engine has all of the answer, or a reset: nothing more is ours to send."""
    full: bool = False
    """More than half a window was queued, so the handler waits for `writable`."""
    taken: int = 0
    due: int = 0
    """Of the answer: bytes taken by the peer when the deadline was set, and by how much that has to grow."""


class ServerConnection:
    """A client's connection, seen from the listener. `conn` is the number that the handler knows it by."""

    def __init__(
        self,
        *,
        conn: int,
        quic: Quic,
        peer: Address,
        now: float,
        shared: Shared,
        routes: dict[bytes, ServerConnection],
    ) -> None:
        self.conn = conn
        self.quic = quic
        self.peer = peer
        self.opened = False
        self.closed = False
        self.finished = False
        self.server_name: str | None = None
        self.failure = ""
        """Why the handshake failed, if it did."""
        self._shared = shared
        self._limits = shared.limits
        self._handshake_deadline = now + shared.limits.handshake_timeout
        self._streams: dict[int, _Stream] = {}
        self._assembling = 0
        self._routes = routes
        self._ids: set[bytes] = set()
        for connection_id in (quic.original_destination_connection_id, quic.host_cid):
            self.route(connection_id)

    # What the listener calls

    def route(self, connection_id: bytes) -> None:
        """Have datagrams for this connection ID come here."""
        self._ids.add(connection_id)
        self._routes[connection_id] = self

    def receive(self, data: bytes, sender: SocketAddress, now: float) -> None:
        """Take a datagram, and call the handler with what became whole by it."""
        self.quic.receive_datagram(data, sender, now)
        self._events(now)

    def wake(self, now: float) -> None:
        """The engine's timer is due."""
        self.quic.handle_timer(now)
        self._events(now)

    def transmit(self, now: float) -> list[tuple[bytes, SocketAddress]]:
        """The datagrams that can leave now."""
        self._pump(now)
        datagrams = self.quic.datagrams_to_send(now)
        self._events(now)
        for stream_id, stream in [(i, s) for i, s in self._streams.items() if s.ended]:
            if not self.quic.holds(stream_id):
                self._forget(stream_id)
            elif self.quic.has_sent_all(stream_id):
                stream.delivered = False
                stream.deadline = math.inf
        return datagrams

    def tick(self, now: float) -> None:
        """Enforce the deadlines that are not the engine's: handshake, requests, answers that nobody takes."""
        if not self.opened:
            if now >= self._handshake_deadline and not self.closed:
                self.abandon("handshake timeout")
            return
        for stream_id, stream in list(self._streams.items()):
            if now < stream.deadline:
                continue
            if stream.parts is not None:
                self.cut_off(stream_id, FailureReason.TIMEOUT)
            else:
                self._check_progress(stream_id, stream, now)

    def next_tick(self) -> float:
        """When the first of those deadlines is due; infinity if there is none."""
        if self.closed:
            return math.inf
        if not self.opened:
            return self._handshake_deadline
        return min((stream.deadline for stream in self._streams.values()), default=math.inf)

    def oldest_request(self) -> tuple[float, int] | None:
        """Deadline and stream of the request that has been unfinished for longest."""
        return min(((s.deadline, i) for i, s in self._streams.items() if s.parts is not None), default=None)

    def busy(self) -> bool:
        """Whether a request has been handed over and its answer has not been taken by the peer."""
        return any(stream.delivered for stream in self._streams.values())

    def close(self, code: int, reason: str) -> None:
        """Say goodbye with the next transmission; its streams are gone now."""
        self.quic.close(error_code=code, reason_phrase=reason)
        self._told_closed(code, reason)

    def abandon(self, reason: str) -> None:
        """Forget the connection without a word to its peer."""
        self.finished = True
        self._told_closed(QuicErrorCode.INTERNAL_ERROR, reason)
        for connection_id in self._ids:
            if self._routes.get(connection_id) is self:
                del self._routes[connection_id]
        self._ids.clear()

    # Answers

    def send(self, stream_id: int, pieces: tuple[bytes, ...], fin: bool) -> int:
        """Queue pieces by reference; -1 if the stream is gone."""
        stream = self._streams.get(stream_id)
        if stream is None or stream.ended or stream.fin or self.closed:
            return -1
        for piece in pieces:
            if piece:
                stream.pieces.append(memoryview(piece))
                stream.queued += len(piece)
        stream.fin = fin
        stream.full = stream.full or stream.queued > self._limits.stream_window // 2
        return stream.queued

    def reset(self, stream_id: int, code: int) -> None:
        """Abandon the stream in both directions."""
        stream = self._streams.get(stream_id)
        if stream is not None and not stream.ended:
            self.quic.stop(stream_id, code)
            self.quic.reset_stream(stream_id, code)
            self._end(stream)

    # Requests

    def _events(self, now: float) -> None:
        while (event := self.quic.next_event()) is not None:
            match event:
                case StreamDataReceived() if not self.closed:
                    self._data(event.stream_id, event.data, event.end_stream, now)
                case StreamReset() if not self.closed:
                    self._peer_reset(event.stream_id)
                case StopSendingReceived() if not self.closed:
                    self._peer_stopped(event.stream_id)
                case HandshakeCompleted() if not self.closed:
                    self.opened = True
                    self._tell(self._shared.handler.opened, self.conn, self.peer, self.server_name)
                case ConnectionIdIssued():
                    self.route(event.connection_id)
                case ConnectionIdRetired():
                    self._ids.discard(event.connection_id)
                    self._routes.pop(event.connection_id, None)
                case ConnectionTerminated():
                    self._told_closed(event.error_code, event.reason_phrase)
                    self.abandon(event.reason_phrase)
        if (ending := self.quic.ending) is not None:
            self._told_closed(ending.error_code, ending.reason_phrase)

    def _data(self, stream_id: int, data: bytes, fin: bool, now: float) -> None:
        stream = self._streams.get(stream_id)
        if stream is None:
            stream = self._streams[stream_id] = _Stream(bytearray(), now + self._limits.request_timeout)
        if stream.parts is None:
            return  # cut off or abandoned; what still arrives was under way
        if len(stream.parts) + len(data) > self._limits.max_request:
            self.cut_off(stream_id, FailureReason.OVERSIZE)
        elif fin:
            whole = bytes(stream.parts) + data if stream.parts else data
            self._release(stream)
            stream.deadline = math.inf
            self._deliver(stream_id, stream, whole)
        elif self._assembling + len(data) > self._limits.assembly_budget:
            self.cut_off(stream_id, FailureReason.OVERSIZE)
        else:
            stream.parts += data
            self._assembling += len(data)
            self._shared.assembling += len(data)

    def _deliver(self, stream_id: int, stream: _Stream, request: bytes) -> None:
        self._shared.counters["requests"] += 1
        if self._shared.closing:
            self.send(stream_id, (), fin=True)
            return
        stream.delivered = True
        self._tell(self._shared.handler.request, self.conn, stream_id, request)

    def cut_off(self, stream_id: int, reason: FailureReason) -> None:
        """Read no more of this request; the handler answers it nevertheless."""
        stream = self._streams[stream_id]
        self._release(stream)
        stream.deadline = math.inf
        stream.delivered = True
        self.quic.stop(stream_id, CANCEL)
        self._shared.counters["oversize" if reason is FailureReason.OVERSIZE else "timeouts"] += 1
        self._tell(self._shared.handler.failed, self.conn, stream_id, reason)

    def _peer_reset(self, stream_id: int) -> None:
        stream = self._streams.setdefault(stream_id, _Stream(bytearray(), math.inf))
        if stream.parts is not None:  # else it is the reply to our own STOP_SENDING, and the answer goes on
            self._shared.counters["resets"] += 1
            self.quic.reset_stream(stream_id, CANCEL)  # else the stream never ends, and its credit never returns
            self._end(stream)

    def _peer_stopped(self, stream_id: int) -> None:
        stream = self._streams.setdefault(stream_id, _Stream(bytearray(), math.inf))
        if stream.ended and not self.quic.unacknowledged(stream_id):
            return
        self._shared.counters["stops"] += 1
        self.quic.stop(stream_id, CANCEL)
        told = stream.delivered and not stream.ended
        self._end(stream)
        if told:
            self._tell(self._shared.handler.stopped, self.conn, stream_id)

    # Answers, continued

    def _pump(self, now: float) -> None:
        """Give the engine as much of the queued answers as budget and window allow, all streams in turn."""
        sending = [(i, s) for i, s in self._streams.items() if not s.ended and (s.pieces or s.fin)]
        if not sending:
            return
        room = self._limits.send_budget - sum(self.quic.unacknowledged(stream_id) for stream_id in self._streams)
        for stream_id, stream in sending:
            share = min(room, self._limits.stream_window - self.quic.unacknowledged(stream_id))
            room -= self._give(stream_id, stream, share)
            if stream.deadline == math.inf:
                self._watch_progress(stream_id, stream, now)
            if stream.full and stream.queued <= self._limits.stream_window // 2:
                stream.full = False
                if not stream.fin:
                    self._tell(self._shared.handler.writable, self.conn, stream_id)

    def _give(self, stream_id: int, stream: _Stream, share: int) -> int:
        given = 0
        while stream.pieces and given < share:
            piece = stream.pieces[0]
            chunk = piece[: share - given]
            if len(chunk) == len(piece):
                stream.pieces.popleft()
            else:
                stream.pieces[0] = piece[len(chunk) :]
            given += len(chunk)
            stream.queued -= len(chunk)
            stream.ended = stream.fin and not stream.pieces
            self.quic.send_stream_data(stream_id, bytes(chunk), end_stream=stream.ended)
        if stream.fin and not stream.pieces and not stream.ended:
            stream.ended = True
            self.quic.send_stream_data(stream_id, b"", end_stream=True)
        return given

    def _watch_progress(self, stream_id: int, stream: _Stream, now: float) -> None:
        waiting = stream.queued + self.quic.unacknowledged(stream_id)
        if waiting or stream.ended:
            stream.deadline = now + self._limits.request_timeout
            stream.taken = self.quic.acknowledged(stream_id)
            stream.due = min(waiting, PROGRESS)

    def _check_progress(self, stream_id: int, stream: _Stream, now: float) -> None:
        stream.deadline = math.inf
        if self.quic.acknowledged(stream_id) - stream.taken >= max(stream.due, 1):
            self._watch_progress(stream_id, stream, now)
            return
        self._shared.counters["timeouts"] += 1
        self.quic.stop(stream_id, CANCEL)
        self.quic.reset_stream(stream_id, CANCEL)
        told = stream.delivered
        self._end(stream)
        if told:
            self._tell(self._shared.handler.stopped, self.conn, stream_id)

    # Ends

    def _release(self, stream: _Stream) -> None:
        if stream.parts is not None:
            self._assembling -= len(stream.parts)
            self._shared.assembling -= len(stream.parts)
            stream.parts = None

    def _end(self, stream: _Stream) -> None:
        self._release(stream)
        stream.ended = True
        stream.delivered = False
        stream.deadline = math.inf
        stream.pieces.clear()
        stream.queued = 0

    def _forget(self, stream_id: int) -> None:
        self._end(self._streams.pop(stream_id))

    def _told_closed(self, code: int, reason: str) -> None:
        if self.closed:
            return
        self.closed = True
        for stream_id in list(self._streams):
            self._forget(stream_id)
        if self.opened:
            self._tell(self._shared.handler.closed, self.conn, code, reason)
        else:
            self.failure = reason or f"code {code}"

    def _tell(self, call: Callable[P, None], *args: P.args, **kwargs: P.kwargs) -> None:
        """Call the handler. What it raises is a bug above the port: it costs this connection, and no other."""
        try:
            call(*args, **kwargs)
        except Exception:
            logger.exception("the handler failed; its connection is closed")
            self._shared.counters["panics"] += 1
            self.close(QuicErrorCode.INTERNAL_ERROR, "internal error")
