"""A dialed connection: one connected UDP socket, requests as `exchange`.

A connection belongs to the event loop that dialed it. It needs no task: the socket's reader and one timer drive it.
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
import socket
from collections import deque
from collections.abc import AsyncGenerator
from dataclasses import dataclass, field

from aioquic.quic.events import (
    ConnectionTerminated,
    HandshakeCompleted,
    StreamDataReceived,
    StreamReset,
)
from aioquic.quic.packet import QuicErrorCode

from mark_protocol.transport.port import (
    ALPN,
    CANCEL,
    MAX_ANSWER,
    MAX_UNREAD,
    Limits,
    NotSent,
    TransportError,
    Trust,
    Unanswered,
    Untrusted,
)
from mark_protocol.transport.portable import udp
from mark_protocol.transport.portable.configuration import of_dialer
from mark_protocol.transport.portable.quic import Quic

logger = logging.getLogger(__name__)

SILENCE = 5.0
"""Seconds without one datagram from the peer, while a request waits, after which the connection counts as dead."""

_SHORTEST_TIMER = 0.001
# TLS alerts, RFC 8446 section 6.2.
_CERTIFICATE_ALERTS = frozenset({42, 43, 44, 45, 46, 48})
_NO_APPLICATION_PROTOCOL = 120


@dataclass(slots=True)
class _Exchange:
    answer: asyncio.Future[bytes]
    limit: int
    parts: bytearray = field(default_factory=bytearray)


@dataclass(slots=True)
class _Open:
    """An answer that is read as it comes; `news` is set whenever one of the others changes."""

    unread: bytearray = field(default_factory=bytearray)
    ended: bool = False
    problem: TransportError | None = None
    news: asyncio.Event = field(default_factory=asyncio.Event)


class PortableConnection:
    """aioquic behind `Connection`. Made by `dial`."""

    def __init__(
        self,
        *,
        sock: socket.socket,
        remote: udp.SocketAddress,
        server_name: str,
        trust: Trust,
        limits: Limits,
        name: str,
    ) -> None:
        self._loop = asyncio.get_running_loop()
        self._sock = sock
        self._remote = remote
        self._limits = limits
        self._name = name
        self._quic = Quic(limits=limits, configuration=of_dialer(server_name, trust, limits))
        self._ready: asyncio.Future[None] = self._loop.create_future()
        self._exchanges: dict[int, _Exchange | _Open] = {}
        self._waiting: deque[asyncio.Future[None]] = deque()
        self._end: str | None = None
        self._heard = self._active = self._loop.time()
        self._timer: asyncio.TimerHandle | None = None
        self._timer_at = 0.0
        self._keep_alive: asyncio.TimerHandle | None = None
        self._silence: asyncio.TimerHandle | None = None

    @property
    def closed(self) -> bool:
        """See `Connection.closed`."""
        return self._end is not None

    @property
    def in_flight(self) -> int:
        """See `Connection.in_flight`."""
        return len(self._exchanges) + len(self._waiting)

    @property
    def free_streams(self) -> int:
        """See `Connection.free_streams`."""
        return 0 if self.closed else max(0, self._quic.free_streams - len(self._waiting))

    async def handshake(self) -> None:
        """Connect. Raises NotSent or Untrusted; the connection is closed then."""
        self._loop.add_reader(self._sock, self._readable)
        self._quic.connect(self._remote, now=self._loop.time())
        self._transmit()
        try:
            await self._ready
        except BaseException:
            self.close()
            raise
        if self._limits.keep_alive:
            self._keep_alive = self._loop.call_later(self._limits.keep_alive, self._stay_alive)

    async def exchange(self, data: bytes, *, timeout: float, max_answer: int = MAX_ANSWER) -> bytes:
        """See `Connection.exchange`."""
        stream_id: int | None = None
        try:
            async with asyncio.timeout(timeout):
                await self._free_stream()
                stream_id = self._quic.get_next_available_stream_id()
                exchange = self._exchanges[stream_id] = _Exchange(self._loop.create_future(), max_answer)
                self._quic.send_stream_data(stream_id, data, end_stream=True)
                self._transmit()
                self._listen_for_silence()
                return await exchange.answer
        except TimeoutError:
            raise self._failure(stream_id, f"no answer within {timeout:g} s") from None
        finally:
            if stream_id is not None and self._exchanges.pop(stream_id, None) is not None and not self.closed:
                self._cancel(stream_id)

    async def follow(self, data: bytes, *, timeout: float) -> AsyncGenerator[bytes, None]:
        """See `Connection.follow`."""
        try:
            async with asyncio.timeout(timeout):
                await self._free_stream()
        except TimeoutError:
            raise self._failure(None, f"not within {timeout:g} s") from None
        stream_id = self._quic.get_next_available_stream_id()
        answer = self._exchanges[stream_id] = _Open()
        self._quic.send_stream_data(stream_id, data, end_stream=True)
        self._transmit()
        try:
            while True:
                if answer.unread:
                    piece = bytes(answer.unread)
                    answer.unread.clear()
                    yield piece
                elif answer.ended:
                    return
                elif answer.problem is not None:
                    raise answer.problem
                else:
                    answer.news.clear()
                    await answer.news.wait()
        finally:
            del self._exchanges[stream_id]
            if not answer.ended and not self.closed:
                self._cancel(stream_id)

    def close(self) -> None:
        """See `Connection.close`."""
        if not self.closed:
            self._quic.close(error_code=CANCEL)
            self._transmit()
            self._ended("closed here")

    # Streams

    async def _free_stream(self) -> None:
        """Wait for room under the peer's stream limit; first come, first served."""
        while True:
            if self._end is not None:
                raise NotSent(f"{self._name}: {self._end}")
            if self._quic.free_streams and not self._waiting:
                return
            turn = self._loop.create_future()
            self._waiting.append(turn)
            try:
                await turn
            except BaseException:
                self._waiting.remove(turn)
                self._give_turns()  # whoever gives up does not keep the stream from the next
                raise
            self._waiting.remove(turn)
            if self._end is None and self._quic.free_streams:
                return

    def _failure(self, stream_id: int | None, why: str) -> NotSent | Unanswered:
        if stream_id is None:
            return NotSent(f"{self._name}: no free stream: {why}")
        kind = Unanswered if self._quic.has_left(stream_id) else NotSent
        return kind(f"{self._name}: {why}")

    def _fail(self, stream_id: int, why: str) -> None:
        exchange = self._exchanges.get(stream_id)
        if isinstance(exchange, _Open):
            exchange.problem = exchange.problem or self._failure(stream_id, why)
            exchange.news.set()
        elif exchange is not None and not exchange.answer.done():
            exchange.answer.set_exception(self._failure(stream_id, why))

    def _cancel(self, stream_id: int) -> None:
        """Tell the peer that neither half of this stream matters any more."""
        if self._quic.holds(stream_id):
            self._quic.stop(stream_id, CANCEL)
            self._quic.reset_stream(stream_id, CANCEL)
            self._transmit()

    def _data(self, stream_id: int, data: bytes, fin: bool) -> None:
        exchange = self._exchanges.get(stream_id)
        if isinstance(exchange, _Open):
            self._more(stream_id, exchange, data, fin)
            return
        if exchange is None or exchange.answer.done():
            return
        if len(exchange.parts) + len(data) > exchange.limit:
            self._fail(stream_id, f"the answer is longer than {exchange.limit} bytes")
        elif fin:
            exchange.answer.set_result(bytes(exchange.parts) + data)
            # Nothing of it is left to cancel, whatever becomes of the waiting task.
            del self._exchanges[stream_id]
        else:
            exchange.parts += data

    def _more(self, stream_id: int, answer: _Open, data: bytes, fin: bool) -> None:
        if answer.problem is not None:
            return
        if len(answer.unread) + len(data) > MAX_UNREAD:
            self._fail(stream_id, f"{MAX_UNREAD} bytes of the answer wait for their reader")
            return
        answer.unread += data
        answer.ended = fin
        answer.news.set()

    # Datagrams and timers

    def _readable(self) -> None:
        now = self._loop.time()
        try:
            for datagram, _ in udp.drain(self._sock):
                if self._quic.is_reset(datagram):
                    self._ended("the server no longer knows the connection: it was started anew, or has ended it")
                    return
                self._heard = self._active = now
                self._quic.receive_datagram(datagram, self._remote, now)
                self._events()
        except ConnectionRefusedError:
            # Before the first answer this is the plain truth. Later it might be forged, and timers decide.
            if not self._ready.done():
                self._ended("nothing listens there")
            return
        except OSError as error:
            self._ended(f"the network failed: {error.strerror or error}")
            return
        except Exception as error:  # input that the engine cannot digest costs this connection only
            logger.exception("%s: the engine failed; the connection is dropped", self._name)
            self._ended(f"the engine failed with {type(error).__name__}")
            return
        self._transmit()

    def _events(self) -> None:
        while (event := self._quic.next_event()) is not None:
            match event:
                case StreamDataReceived():
                    self._data(event.stream_id, event.data, event.end_stream)
                case StreamReset():
                    self._fail(event.stream_id, "the peer reset the stream")
                case HandshakeCompleted():
                    if not self._ready.done():
                        self._ready.set_result(None)
        if (ending := self._quic.ending) is not None:
            self._terminated(ending)
        else:
            self._give_turns()

    def _give_turns(self) -> None:
        for turn in list(self._waiting)[: self._quic.free_streams]:
            if not turn.done():
                turn.set_result(None)

    def _terminated(self, event: ConnectionTerminated) -> None:
        self._transmit()  # if the end is ours, its reason still has to leave
        alert = event.error_code - QuicErrorCode.CRYPTO_ERROR if event.frame_type is not None else None
        reason = event.reason_phrase or f"code {event.error_code:#x}"
        if alert in _CERTIFICATE_ALERTS:
            self._ended(f"the certificate is not trusted: {reason}", untrusted=True)
        elif alert == _NO_APPLICATION_PROTOCOL:
            self._ended(f"the server does not speak {ALPN}")
        else:
            self._ended(f"the connection ended: {reason}")

    def _transmit(self) -> None:
        if self._end is not None:
            return
        now = self._loop.time()
        for datagram, _ in self._quic.datagrams_to_send(now):
            self._active = now
            with contextlib.suppress(OSError):  # taken for a lost packet; a real end shows when reading, or by timers
                self._sock.send(datagram)
        due = self._quic.get_timer()
        if due is None or (self._timer is not None and self._timer_at <= due):
            return
        if self._timer is not None:
            self._timer.cancel()
        self._timer_at = max(due, now + _SHORTEST_TIMER)
        self._timer = self._loop.call_at(self._timer_at, self._wake)

    def _wake(self) -> None:
        self._timer = None
        now = self._loop.time()
        due = self._quic.get_timer()
        if due is not None and due <= now:
            self._quic.handle_timer(now)
            self._events()
        self._transmit()

    def _stay_alive(self) -> None:
        quiet = self._loop.time() - self._active
        if quiet >= self._limits.keep_alive:
            self._quic.send_ping(0)
            self._transmit()
            quiet = 0.0
        self._keep_alive = self._loop.call_later(self._limits.keep_alive - quiet, self._stay_alive)

    def _listen_for_silence(self) -> None:
        if self._silence is None and not self.closed:
            self._silence = self._loop.call_later(SILENCE, self._check_silence, self._loop.time())

    def _check_silence(self, since: float) -> None:
        self._silence = None
        self._readable()  # if it was this process that stood still, the answer is waiting here
        waiting = any(isinstance(exchange, _Exchange) for exchange in self._exchanges.values())
        if not waiting or self._end is not None:
            return
        if self._heard < since:
            self._ended(f"the server has not been heard of for {SILENCE:g} s")
        else:
            self._listen_for_silence()

    def _ended(self, why: str, *, untrusted: bool = False) -> None:
        if self._end is not None:
            return
        self._end = why
        self._loop.remove_reader(self._sock)
        self._sock.close()
        for handle in (self._timer, self._keep_alive, self._silence):
            if handle is not None:
                handle.cancel()
        if not self._ready.done():
            self._ready.set_exception((Untrusted if untrusted else NotSent)(f"{self._name}: {why}"))
        for stream_id in list(self._exchanges):
            self._fail(stream_id, why)
        for turn in self._waiting:
            if not turn.done():
                turn.set_result(None)
