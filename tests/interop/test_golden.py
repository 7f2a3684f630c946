"""Replays of recorded exchanges against real world processes, byte for byte (tests/interop/golden/README.md).

A line with `expect: same` must be answered with the recorded bytes, only times masked. Every other line names an answer
that the later protocol asks for; what it has to be is computed here from the recorded bytes and, where etags and
versions come in, from the bytes that the world has stored.
"""

from __future__ import annotations

import asyncio
import hashlib
import json
import re
import ssl
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from aioquic.asyncio import QuicConnectionProtocol, connect
from aioquic.quic.configuration import QuicConfiguration
from aioquic.quic.events import QuicEvent, StreamDataReceived

from mark_protocol.metadata import normalise_tags
from mark_protocol.response import Response, encode_response, parse_response
from mark_protocol.transport.port import Connection
from mark_protocol.versions import check_header, parse_version
from tests.interop.stored_bytes import head_of, rebuilt

GOLDEN = Path(__file__).parent / "golden"
TIMEOUT = 15.0

TIMES = re.compile(rb'(?<=modified: ")[^"]*(?=")|(?<=\) - )[0-9TZ:-]+(?=\n)')
SERVER_KEYS = {"content-hash", "etag", "modified", "version", "current-version"}


@dataclass(frozen=True)
class Line:
    """One recorded exchange."""

    name: str
    request: bytes
    request_end: str
    recorded: bytes
    expect: str
    volatile: bool

    @property
    def path(self) -> str:
        """The path of the request line."""
        return self.request.split(b"\n")[0].decode(errors="replace").partition(" ")[2].rstrip("\r")


def recorded(file: str) -> list[Line]:
    lines = []
    for row in map(json.loads, (GOLDEN / file).read_text().splitlines()):
        fill = bytes([row.get("fill", 0)]) * row.get("fill_count", 0)
        lines.append(
            Line(
                name=row["name"],
                request=bytes.fromhex(row["request_hex"]) + fill,
                request_end=row["request_end"],
                recorded=bytes.fromhex(row["response_hex"]),
                expect=row["expect"],
                volatile=row.get("volatile", False),
            )
        )
    return lines


def masked(data: bytes) -> bytes:
    return TIMES.sub(b"<time>", data)


def error(status: str, message: str) -> bytes:
    return encode_response(Response.error(status, message))


class Stored:
    """The documents as the world keeps them: what its answers are computed from."""

    def __init__(self, folder: Path) -> None:
        self._docs = folder / "docs"

    def versions(self, path: str) -> dict[int, bytes]:
        """The stored bytes of each version of a document, checked as a chain."""
        folder = self._docs / path[1:].replace("%", "%25")  # the only sign here that keys of the store encode
        versions = {int(file.name[1:].partition("-")[0]): file.read_bytes() for file in folder.glob("v*.md")}
        previous = None
        for number in sorted(versions):
            check_header(versions[number], number)
            assert parse_version(versions[number]).previous == previous
            previous = hashlib.sha256(versions[number]).hexdigest()
        return versions

    def fetched(self, path: str, number: int | None = None) -> bytes:
        """What FETCH has to answer for a document, or for one of its versions."""
        versions = self.versions(path)
        newest = max(versions)
        data = versions[number or newest]
        version = parse_version(data)
        metadata = {
            **version.metadata,
            "content-hash": f"sha256-{hashlib.sha256(version.body).hexdigest()}",
            "etag": hashlib.sha256(data).hexdigest(),
            "modified": "2026-01-01T00:00:00Z",
            "version": str(number or newest),
        }
        if number is not None:
            metadata["current-version"] = str(newest)
        return encode_response(Response("ok", metadata, version.body))


# What the texts of `expect` ask for: each takes the line and what is stored, and gives the bytes of the answer.


def as_the_later_protocol_has_it(line: Line, stored: Stored) -> bytes:
    """Recorded status and body; metadata computed from the stored version, and held against the recorded ones."""
    old = parse_response(line.recorded)
    if "entries" in old.metadata:
        return listing(line, stored)
    if line.path.startswith("/sha256-"):
        path, number = (
            next(
                path
                for path in ("/notes/tea.md", "/paths/dd.md", "/same/a.md")
                if old.body == parse_version(stored.versions(path)[max(stored.versions(path))]).body
            ),
            None,
        )
    else:
        path, _, suffix = ("/" + "/".join(s for s in line.path.split("/") if s not in ("", "."))).partition(".md")
        path, number = path + ".md", int(suffix[2:]) if suffix else None
    answer = parse_response(stored.fetched(path, number))
    assert (answer.status, answer.body) == (old.status, old.body)
    was = {key: value for key, value in old.metadata.items() if key not in SERVER_KEYS}
    if "tags" in was:
        was["tags"] = normalise_tags(was["tags"])
    now = {key: value for key, value in answer.metadata.items() if key not in SERVER_KEYS}
    if answer.metadata["version"] == "3":
        # APPEND keeps the metadata of the version it builds on, which the recorded server lost.
        was |= {"importance": "0.8", "tags": "drinks,kitchen"}
    assert now == {"type": "Document"} | was
    assert answer.metadata["content-hash"] == old.metadata["content-hash"]
    return encode_response(answer)


def listing(line: Line, stored: Stored, *, without: str = "") -> bytes:
    """The recorded entries under the canonical heading, with the keys of LIST or of a generated directory."""
    old = parse_response(line.recorded)
    entries = [text for text in old.body.decode().split("\n") if text.startswith("- ") and text != without]
    heading = re.sub(r"/\.?$", "", line.path) + "/"
    body = "".join(f"{text}\n" for text in ("", f"# Index of {heading}", "", *entries)).encode()
    metadata = {"entries": str(len(entries))}
    if line.request.startswith(b"LIST"):
        metadata["complete"] = "true"
    else:
        digest = hashlib.sha256(body).hexdigest()
        metadata |= {"etag": digest, "content-hash": f"sha256-{digest}"}
    return encode_response(Response("ok", metadata, body))


def paged_listing(line: Line, stored: Stored) -> bytes:
    without = "- [tea.md](tea.md)" if line.name == "archived-list" else ""  # archived documents are hidden now
    return listing(line, stored, without=without)


def listing_past_the_archived_index(line: Line, stored: Stored) -> bytes:
    body = b"\n# Index of /notes/\n\n- [tea.md](tea.md)\n"
    digest = hashlib.sha256(body).hexdigest()
    return encode_response(Response("ok", {"entries": "1", "etag": digest, "content-hash": f"sha256-{digest}"}, body))


def missing(line: Line, stored: Stored) -> bytes:
    return error("not-found", f"{line.path.rstrip('/')} not found")


def history_under_canonical_heading(line: Line, stored: Stored) -> bytes:
    return line.recorded.replace(b"/notes/tea.md/\n", b"/notes/tea.md\n").replace(b"tea.md%2F/", b"tea.md/")


def created(line: Line, stored: Stored) -> bytes:
    return encode_response(Response("created", {"modified": "2026-01-01T00:00:00Z", "version": "1"}))


def later_reserved(line: Line, stored: Stored) -> bytes:
    message = {
        "meta-later-reserved-matches": 'metadata key "matches" is reserved',
        "meta-later-reserved-match": 'metadata key "match" is reserved',
        "meta-later-reserved-previous-hash": (
            'invalid publisher metadata: key "previous-hash" is reserved by the store'
        ),
        "meta-later-reserved-retention": (
            'invalid publisher metadata: key "retention" must be a positive integer, got "x"'
        ),
    }[line.name]
    return error("bad-request", message)


def unstorable(line: Line, stored: Stored) -> bytes:
    if line.request.startswith(b"LIST"):
        return missing(line, stored)
    return error("bad-request", "path can't be stored: a segment is longer than 255 bytes")


def nothing_found(line: Line, stored: Stored) -> bytes:
    head = "| Path | Importance | Title | Tags |\n|------|------------|-------|------|\n"
    body = f'\n# Lookup matches for "tea" in /\n\n{head}'
    return encode_response(Response("ok", {"matches": "0"}, body.encode()))


def answer_of(status: str, message: str) -> Callable[[Line, Stored], bytes]:
    return lambda line, stored: error(status, message)


EXPECTED: dict[str, Callable[[Line, Stored], bytes]] = {
    "same": lambda line, stored: line.recorded,
    "same status and body as recorded; metadata as the later protocol has it (type default, tag form, etag on version "
    "paths, complete, content-hash: mark-protocol 4.1.1, 6.3, 6.4)": as_the_later_protocol_has_it,
    "request carries the March etag, so ok instead of not-modified": (
        lambda line, stored: stored.fetched("/notes/tea.md")
    ),
    "not-found": missing,
    "message has the canonical path": missing,
    "ok: canonical path is the version path": lambda line, stored: stored.fetched("/notes/tea.md", 1),
    "ok: canonical path is /health": (
        lambda line, stored: encode_response(Response("ok", {}, b"# Health Check\n\nServer is healthy.\n"))
    ),
    "ok: the other document with this body": lambda line, stored: stored.fetched("/same/a.md"),
    "canonical heading": history_under_canonical_heading,
    "canonical heading, complete": paged_listing,
    "paging keys, canonical heading": paged_listing,
    "etag and content-hash on listings": paged_listing,
    "archived index counts as absent: listing": listing_past_the_archived_index,
    "bad-request: bad request": answer_of("bad-request", "bad request"),
    "bad-request: page-size": answer_of("bad-request", "page-size must be between 1 and 1000"),
    "bad-request: publish path must end in .md": answer_of("bad-request", "publish path must end in .md"),
    "bad-request: not UTF-8": answer_of("bad-request", "document body must be valid UTF-8 text"),
    "bad-request: path collision": answer_of(
        "bad-request", "cannot publish /notes/tea.md/child.md: a document exists at an ancestor: path collision"
    ),
    "bad-request: reserved or invalid": later_reserved,
    "created: limits are 50 keys, 1024 bytes": created,
    "ok, matches 0": nothing_found,
    "server-error: could not read request": answer_of("server-error", "could not read request"),
    "unauthorized: token before body": answer_of("unauthorized", "authentication required"),
    "not-permitted: token store is tested before the body": answer_of(
        "not-permitted", "appending requires auth configuration"
    ),
    "the recorded answer is server-error; ours is a clean status (not-found or bad-request) by the path rules of "
    "design 4": unstorable,
}


class Stranger(QuicConnectionProtocol):
    """aioquic's own client: it can leave a stream open, as a well-behaved client never does."""

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        self._answer = bytearray()
        self._ended = asyncio.Event()

    async def exchange_without_end(self, request: bytes) -> bytes:
        """Sends bytes and no FIN; the whole answer."""
        self._quic.send_stream_data(self._quic.get_next_available_stream_id(), request)
        self.transmit()
        await asyncio.wait_for(self._ended.wait(), TIMEOUT)
        return bytes(self._answer)

    def quic_event_received(self, event: QuicEvent) -> None:
        """Collects the answer."""
        if isinstance(event, StreamDataReceived):
            self._answer += event.data
            if event.end_stream:
                self._ended.set()


async def without_end(port: int, request: bytes) -> bytes:
    configuration = QuicConfiguration(is_client=True, alpn_protocols=["mark"], verify_mode=ssl.CERT_NONE)
    async with connect("127.0.0.1", port, configuration=configuration, create_protocol=Stranger) as stranger:
        return await stranger.exchange_without_end(request)


async def replay(world: Any, lines: list[Line]) -> tuple[list[str], list[bytes]]:
    """Sends the lines in order, on one connection; the differences, as texts, and what was answered."""
    differences, answers = [], []
    stored = Stored(world.store)
    connection: Connection = await world.dial()
    for line in lines:
        if line.request_end == "none":
            answer = await without_end(world.port, line.request)
        else:
            assert line.request_end == "fin"
            answer = await connection.exchange(line.request, timeout=TIMEOUT)
        answers.append(answer)
        expected = EXPECTED[line.expect](line, stored)
        if line.volatile:
            continue  # depends on the clock
        if masked(answer) != masked(expected):
            differences.append(f"{line.name}: {line.expect}\n  expected {expected!r}\n  answered {answer!r}")
    connection.close()
    return differences, answers


def test_every_recorded_etag_is_found_again_in_bytes_that_are_rebuilt() -> None:
    """So the form of stored bytes is known from the wire, `previous-hash` by `previous-hash`."""
    lines = recorded("documents.jsonl")
    documents = rebuilt(((line.request, line.recorded) for line in lines), march=True)
    known = {version.etag for versions in documents.values() for version in versions}
    told = {etag for line in lines if (etag := head_of(line.recorded)[0].get("etag"))}
    assert len(told) == 16
    assert told <= known


async def test_documents_replay_as_one_sequence(
    start_world: Callable[..., Any], wait_until: Callable[..., Any]
) -> None:
    world = start_world(tokens=(GOLDEN / "tokens.toml").read_text(), reads="public", history="compatible")
    lines = recorded("documents.jsonl")
    assert len(lines) == 206
    differences, answers = await replay(world, lines)
    assert differences == []
    documents = rebuilt(zip((line.request for line in lines), answers, strict=True), march=False)
    for path, versions in documents.items():
        assert Stored(world.store).versions(path) == {n: version.data for n, version in enumerate(versions, 1)}, path
    assert len(list((world.store / "docs").rglob("v*.md"))) == sum(map(len, documents.values()))
    wait_until("a log line for each request", lambda: len(world.requests()) == 206)


async def test_grammar_replays_on_an_empty_world_without_tokens(
    start_world: Callable[..., Any], wait_until: Callable[..., Any]
) -> None:
    world = start_world(reads="public", limits={"requestTimeout": "2s", "rate": {"perSecond": 0}})
    lines = recorded("grammar.jsonl")
    assert len(lines) == 41
    differences, _ = await replay(world, lines)
    assert differences == []
    wait_until("a log line for each request", lambda: len(world.requests()) == 41)


CLIENTS = {
    "cli-fetch-root-1": "ok",
    "cli-fetch-1": "not-found",
    "cli-fetch-cached-1": "not-found",
    "cli-fetch-escaped-1": "not-found",
    "cli-fetch-auth-1": "not-found",
    "cli-list-1": "not-found",
    "cli-versions-1": "not-found",
    "cli-publish-1": "created",
    "cli-publish-0-1": "conflict",  # the document is there by now
    "cli-publish-numeric-token-1": "ok",  # the same body
    "cli-publish-frontmatter-no-auth-1": "unauthorized",  # the client forgot the guard: its front matter is metadata
    "cli-append-1": "conflict",
    "cli-archive-1": "ok",
    "cli-info-1": "not-found",
    "mcp-fetch-1": "archived",
    "mcp-list-1": "not-found",
    "mcp-versions-1": "ok",
    "mcp-publish-1": "conflict",
    "mcp-append-1": "ok",
    "mcp-append-2": "conflict",
    "mcp-archive-1": "ok",
    "mcp-discover-1": "not-found",
}


async def test_requests_of_go_clients_are_understood(
    start_world: Callable[..., Any], token_file: Callable[..., str]
) -> None:
    world = start_world(
        tokens=token_file(("tok", "/**", ("publish",)), ("12345", "/**", ("publish",))),
        reads="public",
        history="compatible",
    )
    statuses: dict[str, str] = {}
    connection: Connection | None = None
    for row in map(json.loads, (GOLDEN / "client-requests.jsonl").read_text().splitlines()):
        match row["event"]:
            case "handshake":
                assert row["alpn"] == "mark"
                connection = await world.dial()
            case "request":
                assert connection is not None
                answer = await connection.exchange(bytes.fromhex(row["request_hex"]), timeout=TIMEOUT)
                statuses[row["name"]] = parse_response(answer).status
            case "close":
                assert (row["code"], row["reason"]) == (0, "")
                assert connection is not None
                connection.close()
    assert statuses == CLIENTS
