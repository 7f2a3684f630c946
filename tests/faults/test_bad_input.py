"""Bad input to a real world: the status that the protocol names or a closed connection, one log line, nothing kept."""

import asyncio
import hashlib
import random
import socket
import ssl
from collections.abc import AsyncIterator, Callable
from pathlib import Path
from typing import Any

import pytest
from aioquic.asyncio import QuicConnectionProtocol, connect
from aioquic.quic.configuration import QuicConfiguration
from aioquic.quic.events import QuicEvent, StreamDataReceived

from mark_protocol.response import Response, encode_response
from mark_protocol.transport.port import Connection

TIMEOUT = 15.0
AUTH = b"---\nauth: admin\n---\n"


def error(status: str, message: str) -> bytes:
    return encode_response(Response.error(status, message))


BAD_REQUEST = error("bad-request", "bad request")
UNREADABLE = error("server-error", "could not read request")
NOT_UTF8 = error("bad-request", "document body must be valid UTF-8 text")

CASES: dict[str, tuple[bytes, bytes]] = {
    "nothing": (b"", UNREADABLE),
    "unknown verb": (b"DELETE /a.md\n" + AUTH, BAD_REQUEST),
    "verb in lower case": (b"publish /a.md\n" + AUTH + b"x", BAD_REQUEST),
    "verb of another protocol": (b"GET /a.md HTTP/1.1\r\nHost: x\r\n\r\n", BAD_REQUEST),
    "cursor of a watch": (b"WATCH /\n---\nsince: yesterday\n---\n", error("bad-request", "invalid since cursor")),
    "no path": (b"FETCH\n", BAD_REQUEST),
    "relative path": (b"PUBLISH a.md\n" + AUTH + b"x", BAD_REQUEST),
    "NUL in the path": (b"PUBLISH /a\0.md\n" + AUTH + b"x", BAD_REQUEST),
    "path over its limit": (b"PUBLISH /" + b"a" * 4087 + b"\n" + AUTH + b"x", BAD_REQUEST),
    "line over its limit": (b"PUBLISH /" + b"a" * 5000 + b"\n" + AUTH + b"x", UNREADABLE),
    "noise": (random.Random(1).randbytes(5000), BAD_REQUEST),
    "traversal": (
        b"PUBLISH /../../etc/passwd.md\n" + AUTH + b"x",
        error("not-found", "/../../etc/passwd.md not found"),
    ),
    "traversal inside": (b"PUBLISH /a/../b.md\n" + AUTH + b"x", error("not-found", "/a/../b.md not found")),
    "traversal by reading": (
        b"FETCH /notes/../../../../etc/passwd\n",
        error("not-found", "/notes/../../../../etc/passwd not found"),
    ),
    "metadata is a list": (b"PUBLISH /a.md\n---\n- auth\n---\nx", BAD_REQUEST),
    "metadata is nested": (b"PUBLISH /a.md\n---\nauth: {a: b}\n---\nx", BAD_REQUEST),
    "metadata twice": (b"PUBLISH /a.md\n---\nauth: admin\nauth: admin\n---\nx", BAD_REQUEST),
    "metadata is no YAML": (b'PUBLISH /a.md\n---\nauth: "admin\n---\nx', BAD_REQUEST),
    "metadata without end": (b"PUBLISH /a.md\n---\nauth: admin\nx", BAD_REQUEST),
    "metadata is no UTF-8": (b"PUBLISH /a.md\n---\nauth: admin\ntitle: \xff\n---\nx", BAD_REQUEST),
    "metadata bomb": (
        b"PUBLISH /a.md\n---\na: &a x\n" + b"".join(b"b%d: *a\n" % n for n in range(5000)) + b"---\nx",
        error("unauthorized", "authentication required"),
    ),
    "metadata over its limit": (b"PUBLISH /a.md\n---\nauth: admin\nk: " + b"v" * 65536 + b"\n---\nx", UNREADABLE),
    "reserved key": (
        b"PUBLISH /a.md\n---\nauth: admin\nversion: 7\n---\nx",
        error("bad-request", 'metadata key "version" is reserved'),
    ),
    "key with blanks": (
        b"PUBLISH /a.md\n---\nauth: admin\nmy key: 7\n---\nx",
        error("bad-request", 'metadata key "my key" contains invalid characters'),
    ),
    "value with a line break": (
        b'PUBLISH /a.md\n---\nauth: admin\nk: "a\\nb"\n---\nx',
        error("bad-request", 'metadata value for key "k" contains newlines'),
    ),
    "too many keys": (
        b"PUBLISH /a.md\n---\nauth: admin\n" + b"".join(b"k%d: v\n" % n for n in range(51)) + b"---\nx",
        error("bad-request", "too many metadata keys (max 50)"),
    ),
    "too much metadata": (
        b"PUBLISH /a.md\n---\nauth: admin\nk: " + b"v" * 1024 + b"\n---\nx",
        error("bad-request", "metadata too large (max 1024 bytes)"),
    ),
    "binary body": (b"PUBLISH /a.md\n" + AUTH + b"\x89PNG\r\n\x1a\n\0\0", NOT_UTF8),
    "binary body to append": (b"APPEND /kept.md\n---\nauth: admin\nexpected-version: 1\n---\n\xff\xfe", NOT_UTF8),
    "body over its limit": (b"PUBLISH /a.md\n" + AUTH + b"x" * ((1 << 20) + 1), UNREADABLE),
    "body far over its limit": (b"PUBLISH /a.md\n" + AUTH + b"x" * (4 << 20), UNREADABLE),
    "no document": (b"PUBLISH /a.png\n" + AUTH + b"x", error("bad-request", "publish path must end in .md")),
    "name that is too long": (
        b"PUBLISH /" + b"n" * 300 + b".md\n" + AUTH + b"x",
        error("bad-request", "path can't be stored: a segment is longer than 255 bytes"),
    ),
    "name that is no UTF-8": (
        b"PUBLISH /\xff.md\n" + AUTH + b"x",
        error("bad-request", "path can't be stored: it is not valid UTF-8"),
    ),
    "no credential": (b"PUBLISH /a.md\nx", error("unauthorized", "authentication required")),
    "forged grant": (
        b"PUBLISH /a.md\n---\nauth: eyJhbGciOiJub25lIn0.eyJzdWIiOiJ4In0.\n---\nx",
        error("unauthorized", "authentication required"),
    ),
}


def snapshot(folder: Path) -> dict[str, str]:
    """Every file of a store and the hash of its content."""
    return {str(f): hashlib.sha256(f.read_bytes()).hexdigest() for f in folder.rglob("*") if f.is_file()}


@pytest.fixture
async def world(start_world: Callable[..., Any], token_file: Callable[..., str]) -> Any:
    """A world with one document in it, and a request timeout that a test can wait for."""
    world = start_world(
        tokens=token_file(("admin", "/**", ("publish",))),
        reads="public",
        limits={"requestTimeout": "1s", "rate": {"perSecond": 0}},
    )
    answer = await world.request("PUBLISH", "/kept.md", b"# Kept\n", auth="admin")
    assert answer.status == "created"
    return world


class Watcher:
    """Compares a world before and after: what it logged, and what it has stored."""

    def __init__(self, world: Any, wait_until: Callable[..., Any], connection: Connection) -> None:
        self._world = world
        self.connection = connection
        self._wait_until = wait_until
        self._stored = snapshot(world.store)
        self._seen = len(wait_until("the line of the first publish", world.lines))

    async def lines(self) -> list[dict[str, Any]]:
        """The new log lines; a marker is sent, so that a line too many has had its time to come."""
        await self.connection.exchange(b"FETCH /health\n", timeout=TIMEOUT)
        lines: list[dict[str, Any]] = self._wait_until(
            "the marker's line",
            lambda: (lines := self._world.lines()[self._seen :])[-1:] and lines[-1].get("path") == "/health" and lines,
        )
        self._seen += len(lines)
        return lines[:-1]

    def assert_nothing_stored(self) -> None:
        """The store is byte for byte what it was."""
        assert snapshot(self._world.store) == self._stored

    def assert_no_trace(self) -> None:
        """Not one stack trace in the whole log."""
        assert not [line for line in self._world.lines() if "trace" in line]
        assert "Traceback" not in (self._world.folder / "log").read_text()


@pytest.fixture
async def watcher(world: Any, wait_until: Callable[..., Any]) -> AsyncIterator[Watcher]:
    """Watches from here on."""
    connection = await world.dial()
    watcher = Watcher(world, wait_until, connection)
    await watcher.lines()
    yield watcher
    connection.close()


async def test_bad_requests_get_their_status_and_one_line(watcher: Watcher) -> None:
    found = {}
    for name, (data, expected) in CASES.items():
        answer = await watcher.connection.exchange(data, timeout=TIMEOUT)
        lines = await watcher.lines()
        told = [(line["message"], line["level"]) for line in lines]
        if answer != expected or told != [("request", "info")]:
            found[name] = (answer, expected, lines)
    assert found == {}
    watcher.assert_nothing_stored()
    watcher.assert_no_trace()


class Stranger(QuicConnectionProtocol):
    """aioquic's own client, which can leave a stream open."""

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        self.answer = bytearray()
        self.ended = asyncio.Event()

    def start(self, data: bytes) -> None:
        """Sends bytes on a new stream, without FIN."""
        self._quic.send_stream_data(self._quic.get_next_available_stream_id(), data)
        self.transmit()

    def quic_event_received(self, event: QuicEvent) -> None:
        """Collects the answer."""
        if isinstance(event, StreamDataReceived):
            self.answer += event.data
            if event.end_stream:
                self.ended.set()


def stranger(world: Any, *, alpn: str = "mark") -> Any:
    configuration = QuicConfiguration(is_client=True, alpn_protocols=[alpn], verify_mode=ssl.CERT_NONE)
    return connect("127.0.0.1", world.port, configuration=configuration, create_protocol=Stranger)


@pytest.mark.parametrize("data", [b"PUB", b"PUBLISH /a.md\n" + AUTH + b"half a bod"])
async def test_a_request_without_end_is_answered_when_its_time_is_up(world: Any, watcher: Watcher, data: bytes) -> None:
    async with stranger(world) as client:
        client.start(data)
        await asyncio.wait_for(client.ended.wait(), TIMEOUT)
        assert bytes(client.answer) == UNREADABLE
    assert [(line["message"], line["status"]) for line in await watcher.lines()] == [("request", "server-error")]
    watcher.assert_nothing_stored()
    watcher.assert_no_trace()


async def test_another_protocol_is_no_connection(world: Any, watcher: Watcher) -> None:
    with pytest.raises(ConnectionError):
        async with stranger(world, alpn="h3"):
            pytest.fail("the handshake must not succeed")
    assert len(await watcher.lines()) == 1
    watcher.assert_nothing_stored()
    watcher.assert_no_trace()


async def test_garbage_datagrams_are_ignored(world: Any, watcher: Watcher) -> None:
    noise = random.Random(2)
    datagrams = [noise.randbytes(noise.choice([0, 1, 7, 40, 1200, 1472])) for _ in range(200)]
    # Noise behind the first bytes of long headers, of Initial packets of the right version, and of short headers.
    datagrams += [bytes([first]) + noise.randbytes(1300) for first in (0xC0, 0xFF, 0x40) for _ in range(50)]
    datagrams += [b"\xc3\0\0\0\1\x08" + noise.randbytes(8) + b"\x08" + noise.randbytes(1300) for _ in range(50)]
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as peer:
        for datagram in datagrams:
            peer.sendto(datagram, ("127.0.0.1", world.port))
    lines = await watcher.lines()
    assert len(lines) == 1
    assert "datagram ignored" in lines[0]["message"]
    assert world.health()["ready"]
    watcher.assert_nothing_stored()
    watcher.assert_no_trace()
