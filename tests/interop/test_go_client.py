"""Strangers at the door: clients on quic-go, another QUIC stack in another language, at a real world process."""

from __future__ import annotations

import subprocess

import pytest

from mark_protocol.changes import BlockReader, Change, Control
from mark_protocol.request import Request, Verb, encode_request
from mark_protocol.response import Response, parse_response

pytestmark = pytest.mark.go

MIB = 1 << 20
HEALTH = b"FETCH /health\n"
HEALTHY = b"# Health Check\n\nServer is healthy.\n"
ROOMY = {"maxStreams": 128, "rate": {"perSecond": 0}}


def ask(session, verb: str, path: str, body: bytes = b"", **metadata: str) -> Response:
    keys = {name.replace("_", "-"): value for name, value in metadata.items()}
    return parse_response(session.ask(encode_request(Request(Verb(verb), path, keys, body))))


@pytest.fixture
def gophers(start_world, token_file):
    """`gophers(...)`: a public world with a credential `gopher` that may do all; arguments are fields of its file."""

    def start(**fields):
        return start_world(reads="public", tokens=token_file(("gopher", "/**", ("publish",))), **fields)

    return start


def text_of(size: int) -> bytes:
    """A document of exactly that many bytes."""
    line = "Steep it, pour it, drink it. 🍵\n".encode()
    return b"# Tea\n\n" + line * ((size - 7) // len(line)) + b"." * ((size - 7) % len(line))


def test_a_go_client_publishes_and_fetches(start_world, token_file, exchange):
    world = start_world(reads="public", tokens=token_file(("gopher", "/**", ("publish",))))
    text = "# Tea\n\n" + "Steep it. 🍵\n" * 20_000
    created = exchange(world, b"PUBLISH /tea.md\n---\nauth: gopher\n---\n" + text.encode())
    assert b"status: created\n" in created
    assert b'version: "1"\n' in created
    fetched = exchange(world, b"FETCH /tea.md\n")
    head, _, body = fetched.removeprefix(b"---\n").partition(b"---\n")
    assert b"status: ok\n" in head
    assert body.decode() == text


def test_a_go_client_is_refused_without_a_credential(start_world, token_file, exchange):
    world = start_world(reads="public", tokens=token_file(("gopher", "/**", ("publish",))))
    assert b"status: unauthorized\n" in exchange(world, b"PUBLISH /tea.md\n# Tea\n")
    assert b"status: not-found\n" in exchange(world, b"FETCH /tea.md\n")


def test_a_go_client_gets_a_status_for_what_is_no_request(start_world, exchange):
    world = start_world(reads="public")
    assert b"status: bad-request\n" in exchange(world, b"BREW /tea.md\n")
    assert b"status: server-error\n" in exchange(world, b"")


def test_a_go_client_is_told_that_another_application_protocol_is_not_spoken(start_world, go_command):
    done = subprocess.run(
        go_command(start_world(reads="public"), "-alpn", "h3"), input=HEALTH, capture_output=True, timeout=60
    )
    assert done.returncode == 1
    assert b"0x178" in done.stderr, done.stderr  # no_application_protocol


def test_a_go_client_does_not_trust_a_certificate_for_another_name(start_world, go_command):
    done = subprocess.run(
        go_command(start_world(reads="public"), "-server-name", "kettle.example"),
        input=HEALTH,
        capture_output=True,
        timeout=60,
    )
    assert done.returncode == 1
    assert b"certificate" in done.stderr, done.stderr


def test_a_go_client_uses_all_verbs_on_one_connection(gophers, go_session):
    session = go_session(gophers())
    blocks, reader = [], BlockReader()
    watch = session.start("watch", request=b"WATCH /notes/\n")

    def next_block():
        while not blocks:
            blocks.extend(reader.feed(watch.next()["piece"]))
        return blocks.pop(0)

    acknowledged = next_block()
    assert isinstance(acknowledged, Control)
    assert acknowledged.status == "ok"

    gopher = {"auth": "gopher"}
    assert ask(session, "PUBLISH", "/notes/tea.md", b"# Tea\n", tags="kitchen", **gopher).status == "created"
    appended = ask(session, "APPEND", "/notes/tea.md", b"\n## Black\n\nSteep it.\n", expected_version="1", **gopher)
    assert appended.metadata["version"] == "2"
    fetched = ask(session, "FETCH", "/notes/tea.md")
    assert fetched.body == b"# Tea\n\n## Black\n\nSteep it.\n"
    not_modified = ask(session, "FETCH", "/notes/tea.md", if_none_match=fetched.metadata["etag"])
    assert not_modified.status == "not-modified"
    assert b"[tea.md](tea.md)" in ask(session, "LIST", "/notes/").body
    assert ask(session, "VERSIONS", "/notes/tea.md").metadata["total"] == "2"
    assert ask(session, "LOOKUP", "/", query="kitchen").metadata["matches"] == "1"
    assert ask(session, "ARCHIVE", "/notes/tea.md", **gopher).metadata["archived"] == "true"
    assert ask(session, "FETCH", "/notes/tea.md").status == "archived"

    seen = [next_block() for _ in range(3)]
    assert all(isinstance(block, Change) for block in seen)
    assert [(block.op, block.version) for block in seen] == [("publish", 1), ("append", 2), ("archive", 2)]
    session.do("end", of=watch.number)


def test_bodies_of_a_mebibyte_pass_both_ways(gophers, go_session):
    session = go_session(gophers())
    body = text_of(MIB)
    assert len(body) == MIB
    assert ask(session, "PUBLISH", "/tea.md", body, auth="gopher").status == "created"
    assert ask(session, "FETCH", "/tea.md").body == body


def test_a_hundred_requests_are_open_at_once_on_one_connection(gophers, go_session):
    session = go_session(gophers(limits=ROOMY))
    requests = [
        encode_request(Request(Verb.PUBLISH, f"/{i}.md", {"auth": "gopher"}, text_of(2048 + i))) for i in range(100)
    ]
    done = session.do("burst", requests=requests)
    assert done["streams"] == 100
    assert [parse_response(answer).status for answer in done["answers"]] == ["created"] * 100
    done = session.do("burst", requests=[f"FETCH /{i}.md\n".encode() for i in range(100)])
    assert [parse_response(answer).body for answer in done["answers"]] == [text_of(2048 + i) for i in range(100)]


def test_more_parallel_requests_than_streams_wait_their_turn(gophers, go_session):
    session = go_session(gophers())  # ten streams
    assert session.do("flood", request=HEALTH, expected=HEALTHY, count=300, parallel=100)["answered"] == 300


def test_handshakes_side_by_side(gophers, go_session):
    session = go_session(gophers())
    done = session.do("handshakes", request=HEALTH, expected=HEALTHY, count=150, parallel=16)
    assert done["answered"] == 150


@pytest.mark.parametrize("change", ["rebind", "migrate"])
def test_a_body_is_under_way_while_the_port_of_the_client_changes(gophers, go_session, change):
    session = go_session(gophers())
    ports = {session.port}
    body = text_of(MIB)
    publish = encode_request(Request(Verb.PUBLISH, "/tea.md", {"auth": "gopher"}, body))
    assert parse_response(session.ask(publish, at="request", change=change)).status == "created"
    ports.add(session.port)
    fetched = session.ask(b"FETCH /tea.md\n", at="answer", count=MIB // 4, change=change)
    assert parse_response(fetched).body == body
    ports.add(session.port)
    assert len(ports) == 3
    assert session.ask(HEALTH).endswith(HEALTHY)


def test_no_request_of_ten_thousand_is_lost_though_the_port_changes(gophers, go_session):
    session = go_session(gophers(limits=ROOMY))
    body = text_of(2048)
    ask(session, "PUBLISH", "/tea.md", body, auth="gopher")
    flood = session.start("flood", request=b"FETCH /tea.md\n", expected=body, count=10_000, parallel=64)
    ports = {session.port}
    for change in ("rebind", "migrate", "rebind", "migrate"):
        session.do("change", change=change)
        ports.add(session.port)
        # Some of the flood has to pass on each of the ports.
        assert session.do("flood", request=b"FETCH /tea.md\n", expected=body, count=50, parallel=1)["answered"] == 50
    assert flood.next()["answered"] == 10_000
    assert len(ports) == 5


def test_a_go_client_hears_at_once_that_a_killed_world_was_started_anew(gophers, go_session):
    world = gophers()
    session = go_session(world)
    watch = session.start("watch", request=b"WATCH /\n")
    assert watch.next()["piece"]
    port = world.port
    world.kill()
    world.write_config(listen={"mark": f"127.0.0.1:{port}", "health": "127.0.0.1:0"})
    world.start()
    assert "stateless reset" in watch.failure()
