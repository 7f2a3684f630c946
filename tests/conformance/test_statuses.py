"""Mark protocol 5: every status, once, with the shortest way to it."""

from __future__ import annotations

import pytest

from tests.conformance.answers import Answer, parse
from tests.conformance.server import Server

rule = pytest.mark.rule


def provoke(server: Server, place: str, status: str) -> Answer:
    """An answer of this status."""
    path = f"{place}/a.md"
    match status:
        case "ok":
            return server.ask("FETCH", "/health")
        case "not-found":
            return server.ask("FETCH", path)
        case "unauthorized":
            return server.ask("PUBLISH", path, b"x", role="")
        case "not-permitted":
            return server.ask("PUBLISH", path, b"x", role="star")
        case "bad-request":
            return server.send(b"BREW /tea.md\n")
        case "server-error":
            return server.send(b"")
        case "created":
            return server.ask("PUBLISH", path, b"x")
        case "resync":
            return parse(server.watch(path, since="no-such-epoch:1").whole())
    server.publish(path)
    match status:
        case "not-modified":
            return server.ask("FETCH", path, if_none_match=server.fetch(path).meta["etag"])
        case "conflict":
            return server.ask("PUBLISH", path, b"x", expected_version="0")
        case "archived":
            server.archive(path)
            return server.ask("FETCH", path)
    raise AssertionError(status)


@pytest.mark.parametrize(
    "status",
    [
        pytest.param("ok", marks=rule("5", "ok")),
        pytest.param("created", marks=rule("5", "created")),
        pytest.param("not-modified", marks=rule("5", "not-modified")),
        pytest.param("not-found", marks=rule("5", "not-found")),
        pytest.param("archived", marks=rule("5", "archived")),
        pytest.param("unauthorized", marks=rule("5", "unauthorized")),
        pytest.param("not-permitted", marks=rule("5", "not-permitted")),
        pytest.param("conflict", marks=rule("5", "conflict")),
        pytest.param("bad-request", marks=rule("5", "bad-request")),
        pytest.param("server-error", marks=rule("5", "server-error")),
        pytest.param("resync", marks=rule("5", "resync")),
    ],
)
def test_the_server_has_this_status(server: Server, place: str, status: str) -> None:
    assert provoke(server, place, status).status == status


@rule("5", "rate-limited")
def test_the_server_has_a_limit(server: Server, place: str) -> None:
    """That of watches, since one of requests may be lifted; it is answered in full, and without a body."""
    connection = server.another_connection()
    try:
        for _ in range(64):
            stream = server.watch(f"{place}/", on=connection)
            first = stream.block()
            if parse(first).status != "ok":
                assert first + stream.whole() == b"---\nstatus: rate-limited\n---\n"
                return
        server.cannot("64 watches of one connection are no limit")
    finally:
        connection.close()
