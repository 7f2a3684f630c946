"""The transport port: what every QUIC engine offers, and what it asks of the code above it.

Nothing in here opens a socket. An engine hands over *whole* requests, in batches, and takes answers as pieces by
reference; limits, deadlines and budgets are enforced below the handler, so that no verb ever sees half a request, a
chunk or a packet. Connections and streams are integers that are never used again, never objects of the engine.

The shape is Mark protocol 1 (one bidirectional stream a request, FIN on both sides, code 0 for every cancel); the
standard terms are those of RFC 9000.
"""

from __future__ import annotations

from collections.abc import AsyncGenerator, Sequence
from dataclasses import dataclass, fields
from enum import StrEnum
from typing import NamedTuple, Protocol

ALPN = "mark"
"""The only application protocol that is spoken (Mark protocol 1)."""

CANCEL = 0
"""Code of RESET_STREAM, STOP_SENDING and of an orderly close (Mark protocol 1)."""

CLOSE_REASON = "server closed"
"""Reason text with which a server that ends closes its connections (Mark protocol 1)."""


MAX_ANSWER = 4 << 20
"""Bytes of an answer that a client takes (Mark protocol 3)."""

MAX_UNREAD = 1 << 20
"""Bytes of an open answer that wait for their reader."""


class TransportError(Exception):
    """The transport could not do what was asked; the text says what, and what may help."""


class NotSent(TransportError):
    """No byte of the request has left this process: the same request may be sent again."""


class Unanswered(TransportError):
    """Bytes of the request have left and no whole answer came: its outcome is unknown."""


class Untrusted(NotSent):
    """The server's certificate was not accepted: trying again will not help, another root or name may."""


class Address(NamedTuple):
    """Where a socket is: host (a numeric IP address) and UDP port."""

    host: str
    port: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Certificate:
    """A certificate chain (leaf first) with its private key, both PEM. `name` says where it is from, for messages."""

    name: str
    chain_pem: bytes
    key_pem: bytes

    def __repr__(self) -> str:
        return f"Certificate({self.name!r})"


@dataclass(frozen=True, slots=True, kw_only=True)
class Trust:
    """What a dialer accepts: certificates under `roots` (PEM; None = the public roots), or any if `insecure`."""

    roots: bytes | None = None
    insecure: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class Limits:
    """What one listener or dialer grants its peers. Bytes and seconds; every engine has the same names.

    Attributes:
        max_connections: open connections of the process; more are refused.
        max_connections_per_ip: of which at most so many from one IP address.
        max_streams: requests that one connection may have open at once (QUIC's bidirectional stream limit).
        max_request: a request above this is cut off: `failed(..., FailureReason.OVERSIZE)`.
        assembly_budget: bytes of unfinished requests of one connection; above it the stream that exceeds it is cut off.
        process_assembly_budget: the same over all connections.
        request_timeout: from a stream's first byte to its FIN, and between two steps of progress of its answer.
        handshake_timeout: an unfinished handshake is dropped after it.
        idle_timeout: a connection without traffic ends (RFC 9000 section 10.1).
        keep_alive: seconds between PING frames on a quiet connection; 0 = none. For dialers; below `idle_timeout`.
        send_budget: bytes of one connection in the engine, unsent or unacknowledged; more waits outside, by reference.
        stream_window: flow control window of a stream at its start.
        connection_window: the same of a connection.
        retry_above: half-open handshakes above which a new client must first prove its address (RFC 9000 section 8.1).
        datagram_start: UDP payload; an engine without path MTU discovery (portable) stays there.
        congestion: congestion control algorithm, `cubic` or `reno`.
    """

    max_connections: int = 8192
    max_connections_per_ip: int = 256
    max_streams: int = 10
    max_request: int = 1_118_337  # request line 4096 + LF + payload 1,114,176 + slack
    assembly_budget: int = 4 << 20
    process_assembly_budget: int = 64 << 20
    request_timeout: float = 10.0
    handshake_timeout: float = 5.0
    idle_timeout: float = 30.0
    keep_alive: float = 0.0
    send_budget: int = 4 << 20
    stream_window: int = 256 << 10
    connection_window: int = 2 << 20
    retry_above: int = 64
    datagram_start: int = 1350  # fits an IPv6 packet on the 1460 bytes of the usual cloud network
    congestion: str = "cubic"

    def __post_init__(self) -> None:
        zero_is_fine = ("keep_alive", "retry_above")
        for field in fields(self):
            value = getattr(self, field.name)
            if isinstance(value, str):
                continue
            if value < 0 or (value == 0 and field.name not in zero_is_fine):
                raise ValueError(f"limit {field.name} is {value}; it has to be positive")
        if self.datagram_start < 1200:
            raise ValueError(f"limit datagram_start is {self.datagram_start}; QUIC needs at least 1200 bytes")
        if self.congestion not in ("cubic", "reno"):
            raise ValueError(f"limit congestion is {self.congestion!r}; known are cubic and reno")


class FailureReason(StrEnum):
    """Why a request never became whole. Either is answered `server-error`, `could not read request`."""

    TIMEOUT = "timeout"
    OVERSIZE = "oversize"


class Handler(Protocol):
    """What a listener calls, inside the event loop, in batches; it must not block. Exceptions close that connection."""

    def opened(self, conn: int, peer: Address, server_name: str | None) -> None:
        """A handshake is complete. `server_name` is the SNI of the client, if it sent one."""

    def request(self, conn: int, stream: int, data: bytes) -> None:
        """A whole request: FIN came, within all limits, never from early data. Answer now or later with `send`."""

    def failed(self, conn: int, stream: int, reason: FailureReason) -> None:
        """The request of this stream will never be whole; reading has stopped, an answer can still be sent."""

    def stopped(self, conn: int, stream: int) -> None:
        """The peer wants no more of the answer, or has stopped taking it: the stream is gone. A WATCH ends here."""

    def writable(self, conn: int, stream: int) -> None:
        """What `send(..., fin=False)` queued on this stream has shrunk to half of the stream window or less."""

    def closed(self, conn: int, code: int, reason: str) -> None:
        """The connection has ended and all of its streams are gone. Called once for each `opened`."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Stats:
    """Counters of one listener since its start; `open` and `handshaking` are what is there now."""

    open: int
    handshaking: int
    requests: int
    resets: int
    stops: int
    timeouts: int
    oversize: int
    refused: int
    retries: int
    dropped: int
    panics: int


class Listener(Protocol):
    """A bound UDP socket that accepts Mark connections. One event loop, one thread."""

    @property
    def address(self) -> Address:
        """Where it is bound; the port is the real one also if 0 was asked for."""

    @property
    def engine(self) -> str:
        """Name and version of the engine, for the start-up log line."""

    def send(self, conn: int, stream: int, *pieces: bytes, fin: bool = True) -> int:
        """Queue pieces of an answer, by reference; `fin` ends it.

        Returns the bytes queued on this stream and not yet given to the engine, or -1 if the stream is gone (its peer
        reset it, or the connection ended), which is no error.
        """

    def reset(self, conn: int, stream: int, code: int = CANCEL) -> None:
        """Abandon an answer. Silent if the stream is gone."""

    def disconnect(self, conn: int, code: int = CANCEL, reason: str = "") -> None:
        """Close one connection. Silent if it is gone."""

    def flush(self) -> None:
        """Let what was queued leave. The listener does it after each batch of handler calls; whoever answers later
        calls it after its last `send`."""

    def reload(self, certificates: Sequence[Certificate]) -> None:
        """Use these certificates from the next handshake on. TransportError, and nothing changes, if one is broken."""

    def drain(self) -> None:
        """Refuse new connections; what is open goes on."""

    async def close(self, *, code: int = CANCEL, reason: str = CLOSE_REASON, grace: float = 10.0) -> None:
        """Drain, wait up to `grace` seconds for running answers, close every connection and the socket."""

    def stats(self) -> Stats:
        """The counters of now."""


class Connection(Protocol):
    """A dialed connection, shared by any number of concurrent requests. Deadlines are seconds from the call."""

    @property
    def closed(self) -> bool:
        """Whether it has ended, from either side or by silence. It does not come back; dial again."""

    @property
    def in_flight(self) -> int:
        """Requests that are under way or wait for a stream."""

    @property
    def free_streams(self) -> int:
        """How many more requests the peer lets us open right now."""

    async def exchange(self, data: bytes, *, timeout: float, max_answer: int = MAX_ANSWER) -> bytes:
        """Send a whole request on a stream of its own and read the whole answer, which may be empty.

        Cancelling it, like every failure below but the end of the connection, cancels this one stream only.

        Raises:
            NotSent: no byte has left (no free stream in time, or the connection ended before).
            Unanswered: bytes have left, and the answer was reset, too long, too late, or the connection ended.
        """

    def follow(self, data: bytes, *, timeout: float) -> AsyncGenerator[bytes, None]:
        """Send a whole request on a stream of its own and give the answer in pieces as they come, until it ends.

        For an answer that stays open (WATCH): it may be silent for as long as the connection lives. `timeout` is for
        getting a stream. Whoever stops early closes the generator, which cancels this one stream.

        Raises:
            NotSent: no byte has left.
            Unanswered: the answer was reset, was not read (more than `MAX_UNREAD` bytes wait), or the connection ended.
        """

    def close(self) -> None:
        """Say goodbye (code 0) and end. Returns at once; what is under way fails."""
