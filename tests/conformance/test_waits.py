"""What takes a server long, begun when the suite began (`Server.begin_long_waits`); and the end of a server."""

from __future__ import annotations

import pytest

from tests.conformance.answers import parse
from tests.conformance.server import Server, eventually, request

rule = pytest.mark.rule


@rule("1", "unfinished-request")
def test_a_request_that_never_ends_is_answered(server: Server) -> None:
    answer = parse(server.unfinished.whole())
    assert (answer.status, answer.message) == ("server-error", "could not read request")


@rule("10.2", "heartbeat")
def test_a_quiet_watch_is_kept_alive(server: Server) -> None:
    acknowledged = parse(server.quiet.block())
    heartbeat = parse(server.quiet.block())
    assert acknowledged.status == heartbeat.status == "ok"
    assert set(heartbeat.meta) == {"cursor"}
    assert heartbeat.body == b""


@rule("5", "closing")
@rule("10.4", "closing")
@rule("1", "closes-with-a-reason")
def test_a_server_that_ends_says_closing(server: Server) -> None:
    """The one without tokens: nothing else needs it any more."""
    there = server.profile.without_tokens
    if there is None:
        server.cannot("the profile has no server without tokens")
    connection = server.another_connection(there)
    stream = connection.open(request("WATCH", "/"))
    cursor = parse(stream.block()).meta["cursor"]
    server.stop_the_one_without_tokens()
    last = parse(stream.block())
    assert (last.status, last.meta) == ("closing", {"cursor": cursor})
    assert stream.whole() == b""
    eventually("the end of the connection", lambda: connection.ended)
    assert "code 0: server closed" in connection.ended
    connection.close()
