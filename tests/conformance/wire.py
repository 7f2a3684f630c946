"""Bytes over QUIC, and nothing of Mark but its ALPN: the only way in which this suite reaches a server.

The connections live on an event loop in a thread of its own, so that tests are plain functions. Every wait has a
deadline that a slow machine keeps, and says what it waited for.
"""

from __future__ import annotations

import asyncio
import ssl
import threading
import time
from collections.abc import Coroutine, Iterable
from dataclasses import dataclass
from typing import Any, TypeVar

from aioquic.asyncio import QuicConnectionProtocol, connect
from aioquic.quic.configuration import QuicConfiguration
from aioquic.quic.events import ConnectionTerminated, QuicEvent, StreamDataReceived, StreamReset

DEADLINE = 60.0
AT_ONCE = 5

T = TypeVar("T")


@dataclass(frozen=True, slots=True, kw_only=True)
class Endpoint:
    """Where a server is, and what its certificate has to be under. Without `ca` any certificate will do."""

    host: str
    port: int
    server_name: str = ""
    ca: bytes | None = None

    def configuration(self, alpn: str) -> QuicConfiguration:
        """What a client says and accepts in the handshake."""
        configuration = QuicConfiguration(
            is_client=True, alpn_protocols=[alpn], server_name=self.server_name or self.host
        )
        if self.ca is None:
            configuration.verify_mode = ssl.CERT_NONE
        else:
            configuration.load_verify_locations(cadata=self.ca)
        return configuration


class Cut(AssertionError):
    """A stream or a connection ended in another way than by the end of an answer."""


class Stream:
    """One request: what came back so far. Bytes are added by the loop's thread and awaited by the test's."""

    def __init__(self, connection: Connection, request: bytes) -> None:
        self._connection = connection
        self._request = request
        self._changed = threading.Condition()
        self._answer = bytearray()
        self._ended = False
        self._cut = ""
        self.number = -1

    @property
    def so_far(self) -> bytes:
        """The bytes that have come."""
        with self._changed:
            return bytes(self._answer)

    def finish(self, data: bytes = b"") -> bytes:
        """Send the rest of the request and close this side; the whole answer."""
        self._connection.send(self, data, end=True)
        return self.whole()

    def whole(self) -> bytes:
        """The answer, once the server has closed its side."""
        self._wait("the end of an answer", lambda: self._ended)
        return bytes(self._answer)

    def block(self) -> bytes:
        """The next block of an answer that goes on: from fence to fence, taken out of what has come."""

        def end() -> int:
            return bytes(self._answer).find(b"\n---\n", 4) + 5

        self._wait("a block", lambda: end() > 4 or self._ended)
        size = end()
        assert size > 4, f"the stream ended, and not behind a block: {bytes(self._answer)!r}"
        block = bytes(self._answer[:size])
        del self._answer[:size]
        return block

    def cancel(self) -> None:
        """Tell the server that nobody reads any more."""
        self._connection.cancel(self)

    def added(self, data: bytes, ended: bool) -> None:
        """Called by the connection."""
        with self._changed:
            self._answer += data
            self._ended = self._ended or ended
            self._changed.notify_all()

    def failed(self, why: str) -> None:
        """Called by the connection."""
        with self._changed:
            self._cut = self._cut or why
            self._changed.notify_all()

    def _wait(self, what: str, holds: Any) -> None:
        end = time.monotonic() + DEADLINE
        with self._changed:
            while not holds():
                asked = self._request[:120]
                assert not self._cut, Cut(f"{self._cut}; waited for {what} after {asked!r}")
                left = end - time.monotonic()
                assert left > 0, f"waited {DEADLINE:g} s for {what} after {asked!r}; so far {self._answer[:200]!r}"
                self._changed.wait(left)


class _Client(QuicConnectionProtocol):
    def __init__(self, *args: Any, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        self.streams: dict[int, Stream] = {}
        self.ended = ""

    def quic_event_received(self, event: QuicEvent) -> None:
        if isinstance(event, StreamDataReceived) and event.stream_id in self.streams:
            self.streams[event.stream_id].added(event.data, event.end_stream)
        elif isinstance(event, StreamReset) and event.stream_id in self.streams:
            self.streams[event.stream_id].failed(f"the server reset the stream with code {event.error_code}")
        elif isinstance(event, ConnectionTerminated):
            self.ended = f"the connection ended with code {event.error_code}: {event.reason_phrase or 'no reason'}"
            for stream in self.streams.values():
                stream.failed(self.ended)


class Connection:
    """One QUIC connection."""

    def __init__(self, wire: Wire, endpoint: Endpoint, alpn: str = "mark") -> None:
        self._wire = wire
        self._context = connect(
            endpoint.host, endpoint.port, configuration=endpoint.configuration(alpn), create_protocol=_Client
        )
        client = wire.run(self._context.__aenter__(), "a handshake")
        assert isinstance(client, _Client)
        self._client = client

    @property
    def ended(self) -> str:
        """Why it is no more, or empty."""
        return self._client.ended

    def open(self, data: bytes, *, end: bool = True) -> Stream:
        """Begin a request; with `end` it is all there is of it."""
        stream = Stream(self, data)
        self.send(stream, data, end=end)
        return stream

    def exchange(self, data: bytes) -> bytes:
        """A whole request and its whole answer."""
        return self.open(data).whole()

    def send(self, stream: Stream, data: bytes, *, end: bool) -> None:
        """More bytes of a request."""

        async def send() -> None:
            assert not self._client.ended, Cut(self._client.ended)
            if stream.number < 0:
                stream.number = self._client._quic.get_next_available_stream_id()
                self._client.streams[stream.number] = stream
            self._client._quic.send_stream_data(stream.number, data, end_stream=end)
            self._client.transmit()

        self._wire.run(send(), "sending")

    def cancel(self, stream: Stream) -> None:
        """Give up a stream in both directions, with the code that Mark has for it."""

        async def cancel() -> None:
            del self._client.streams[stream.number]
            if not self._client.ended:
                self._client._quic.stop_stream(stream.number, 0)
                self._client.transmit()

        self._wire.run(cancel(), "cancelling")

    def close(self) -> None:
        """End the connection."""
        self._wire.run(self._context.__aexit__(None, None, None), "closing")


class Wire:
    """The loop that all connections of a run live on."""

    def __init__(self) -> None:
        self._loop = asyncio.new_event_loop()
        self._thread = threading.Thread(target=self._loop.run_forever, name="wire", daemon=True)
        self._thread.start()

    def run(self, work: Coroutine[Any, Any, T], what: str) -> T:
        """Runs something on the loop and waits for it."""
        future = asyncio.run_coroutine_threadsafe(work, self._loop)
        try:
            return future.result(DEADLINE)
        except TimeoutError:
            future.cancel()
            raise AssertionError(f"waited {DEADLINE:g} s for {what}") from None

    def close(self) -> None:
        """Stop the loop."""
        self._loop.call_soon_threadsafe(self._loop.stop)
        self._thread.join()
        self._loop.close()


def exchange_all(connection: Connection, requests: Iterable[bytes]) -> list[bytes]:
    """Many requests on one connection, several at a time; their answers in the order of the requests."""
    answers: list[bytes] = []
    under_way: list[Stream] = []
    for data in requests:
        if len(under_way) == AT_ONCE:
            answers.append(under_way.pop(0).whole())
        under_way.append(connection.open(data))
    return answers + [stream.whole() for stream in under_way]
