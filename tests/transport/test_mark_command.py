"""The command `mark` as a process: what it sends, prints and returns, and that it never waits for a terminal."""

from __future__ import annotations

import asyncio
import json
import os
import pty
import sys
from collections.abc import Awaitable, Callable
from contextlib import closing
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest

from mark_protocol.listings import Child, VersionLine, render_list, render_versions
from mark_protocol.request import Request, Verb, parse_request
from mark_protocol.response import Response, encode_response
from mark_protocol.transport.port import Address
from mark_protocol.versions import content_hash, encode_version, etag

MARK = Path(sys.executable).with_name("mark")


@dataclass
class Ran:
    """What became of a command."""

    code: int
    out: str
    err: str


@dataclass
class World:
    """A server that gives one response to everything."""

    server: Any
    ca: Path
    response: Response = field(default_factory=lambda: Response("ok", {"version": "3"}, b"# Tea\n"))

    def url(self, path: str = "/tea.md") -> str:
        return f"mark://localhost:{self.address.port}{path}"

    @property
    def address(self) -> Address:
        return self.server.listener.address

    @property
    def requests(self) -> list[bytes]:
        return self.server.requests

    @property
    def request(self) -> Request:
        (data,) = self.requests
        return parse_request(data)


@pytest.fixture
async def world(kit, certificate, tmp_path) -> World:
    server = await kit.listener(answer=lambda data: (encode_response(world.response),))
    ca = tmp_path / "ca.crt"
    ca.write_bytes(certificate.chain_pem)
    world = World(server, ca)
    return world


@pytest.fixture
def mark(world) -> Callable[..., Awaitable[Ran]]:
    """Run the command with this input (bytes, or a file descriptor); trusts the world unless told otherwise."""

    async def run(*arguments: str, stdin: bytes | int = b"", trusted: bool = True, **environment: str) -> Ran:
        env = {key: value for key, value in os.environ.items() if not key.startswith("DEMARKUS_")} | environment
        if trusted:
            env["DEMARKUS_CA"] = str(world.ca)
        process = await asyncio.create_subprocess_exec(
            MARK,
            *arguments,
            stdin=stdin if isinstance(stdin, int) else asyncio.subprocess.PIPE,
            stdout=asyncio.subprocess.PIPE,
            stderr=asyncio.subprocess.PIPE,
            env=env,
        )
        out, err = await asyncio.wait_for(process.communicate(None if isinstance(stdin, int) else stdin), 60)
        assert process.returncode is not None
        return Ran(process.returncode, out.decode(), err.decode())

    return run


async def test_fetch_prints_the_document(world, mark):
    ran = await mark("fetch", world.url())
    assert ran == Ran(0, "# Tea\n", "")
    assert world.request == Request(Verb.FETCH, "/tea.md")


async def test_the_credential_comes_from_option_or_environment(world, mark):
    await mark("fetch", world.url(), "--token", "one")
    await mark("fetch", world.url(), DEMARKUS_AUTH="two")
    assert [parse_request(data).metadata for data in world.requests] == [{"auth": "one"}, {"auth": "two"}]


async def test_json_shows_status_metadata_and_body(world, mark):
    ran = await mark("fetch", world.url(), "--json")
    assert json.loads(ran.out) == {"status": "ok", "metadata": {"version": "3"}, "body": "# Tea\n"}


async def test_a_refusal_is_on_standard_error_with_its_status(world, mark):
    world.response = Response.error("not-found", "/tea.md not found")
    assert await mark("fetch", world.url()) == Ran(1, "", "not-found: /tea.md not found\n")
    ran = await mark("fetch", world.url(), "--json")
    assert (ran.code, json.loads(ran.out)["status"]) == (1, "not-found")


async def test_not_modified_is_no_failure(world, mark):
    world.response = Response("not-modified")
    assert await mark("fetch", world.url(), "--if-none-match", "abc") == Ran(0, "", "not-modified\n")
    assert world.request.metadata == {"if-none-match": "abc"}


async def test_list_shows_how_to_go_on(world, mark):
    world.response = Response("ok", {"complete": "false", "next-cursor": "abc"}, b"- [a.md](a.md)\n")
    ran = await mark("list", world.url("/"), "--page-size", "1", "--include-archived")
    assert ran == Ran(0, "- [a.md](a.md)\n", "more: --cursor abc\n")
    assert world.request == Request(Verb.LIST, "/", {"page-size": "1", "include-archived": "true"})


async def test_versions_tells_about_the_chain(world, mark):
    world.response = Response("ok", {"chain-valid": "true"}, b"- [v1](...)\n")
    assert await mark("versions", world.url()) == Ran(0, "- [v1](...)\n", "chain-valid: true\n")


async def test_publish_takes_its_text_from_a_file_an_option_or_a_pipe(world, mark, tmp_path):
    world.response = Response("created", {"version": "3", "modified": "2026-01-01T00:00:00Z"})
    file = tmp_path / "tea.md"
    file.write_text("from a file")
    created = Ran(0, "created: version 3, 2026-01-01T00:00:00Z\n", "")
    assert await mark("publish", world.url(), str(file), "--expect", "2", "-m", "title=Tea = good") == created
    assert await mark("publish", world.url(), "--body", "from an option") == created
    assert await mark("publish", world.url(), stdin=b"from a pipe") == created
    assert await mark("publish", world.url(), "-", stdin=b"from a named pipe") == created
    assert [parse_request(data).body for data in world.requests] == [
        b"from a file",
        b"from an option",
        b"from a pipe",
        b"from a named pipe",
    ]
    assert parse_request(world.requests[0]).metadata == {"expected-version": "2", "title": "Tea = good"}


@pytest.mark.parametrize("command", [["publish"], ["append", "--expect", "1"]])
async def test_c_36_a_terminal_is_not_waited_for(world, mark, command):
    keyboard, terminal = pty.openpty()
    with closing(os.fdopen(keyboard, "wb")), closing(os.fdopen(terminal, "rb")):
        ran = await mark(command[0], world.url(), *command[1:], stdin=terminal)
    assert ran.code == 2
    assert "no text: name a FILE, use --body, or pipe it in" in ran.err
    assert world.requests == []


async def test_a_terminal_does_not_matter_to_what_takes_no_text(world, mark):
    keyboard, terminal = pty.openpty()
    with closing(os.fdopen(keyboard, "wb")), closing(os.fdopen(terminal, "rb")):
        for arguments in (["fetch"], ["archive"], ["publish", "--unarchive"], ["publish", "--body", "x"]):
            assert (await mark(arguments[0], world.url(), *arguments[1:], stdin=terminal)).code == 0


async def test_an_empty_text_never_unarchives_by_accident(world, mark):
    ran = await mark("publish", world.url(), stdin=b"")
    assert ran.code == 2
    assert "to bring an archived document back, use --unarchive" in ran.err
    await mark("publish", world.url(), "--unarchive")
    assert world.request == Request(Verb.PUBLISH, "/tea.md")


async def test_a_conflict_shows_both_versions(world, mark):
    body = b"# Version Conflict\n\nYour version: 1\nServer version: 2\n"
    world.response = Response("conflict", {"your-version": "1", "server-version": "2"}, body)
    ran = await mark("append", world.url(), "--body", "x", "--expect", "1")
    assert ran == Ran(1, "", "conflict: Your version: 1\nServer version: 2\n")
    assert world.request.metadata == {"expected-version": "1"}


async def test_archive_tells_the_version(world, mark):
    world.response = Response("ok", {"archived": "true", "version": "3"})
    assert await mark("archive", world.url()) == Ran(0, "archived: version 3\n", "")


async def test_the_path_is_decoded_once_and_the_name_may_differ_from_the_address(world, mark):
    ran = await mark("fetch", "mark://localhost/a%20b.md", "--address", f"127.0.0.1:{world.address.port}")
    assert ran.code == 0
    assert world.request.path == "/a b.md"


async def test_an_untrusted_server_is_a_failure_unless_insecure(world, mark):
    ran = await mark("fetch", world.url(), trusted=False)
    assert ran.code == 1
    assert "the certificate is not trusted" in ran.err
    assert (await mark("fetch", world.url(), "--insecure", trusted=False)).code == 0


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["fetch", "https://localhost/"], "begins with mark://"),
        (["fetch", "mark://localhost:99999/"], "1 to 65535"),
        (["publish", "mark://localhost/a.md", "--body", "x", "-m", "novalue"], "expected KEY=VALUE"),
        (["publish", "mark://localhost/a.md", "no-such-file.md"], "no-such-file.md: No such file"),
        (["publish", "mark://localhost/a.md", "file.md", "--body", "x"], "not both"),
        (["append", "mark://localhost/a.md", "--body", "x"], "Missing option '--expect'"),
        (["fetch", "mark://localhost/" + "x" * 5000], "a path begins with / and has at most"),
    ],
)
async def test_wrong_use_is_told_from_failure(mark, arguments, message):
    ran = await mark(*arguments)
    assert ran.code == 2
    assert message in ran.err


async def test_no_server_is_a_failure_without_a_trace(mark, udp_socket):
    port = udp_socket.getsockname()[1]
    udp_socket.close()
    ran = await mark("fetch", f"mark://127.0.0.1:{port}/", "--token", "s3cret")
    assert (ran.code, ran.out) == (1, "")
    assert "nothing listens there" in ran.err
    assert "Traceback" not in ran.err
    assert "s3cret" not in ran.err


async def test_a_write_without_an_answer_says_what_to_do(kit, world, mark):
    silent = await kit.listener(answer=lambda data: ())
    ran = await mark("publish", f"mark://localhost:{silent.listener.address.port}/a.md", "--body", "x")
    assert ran.code == 1
    assert "outcome unknown" in ran.err
    assert "look at the document before writing again" in ran.err
    assert [parse_request(data).verb for data in silent.requests] == [Verb.PUBLISH]


async def test_a_write_without_an_answer_is_looked_up(kit, world, mark):
    there = encode_response(Response("ok", {}, b"x"))
    lossy = await kit.listener(answer=lambda data: (there,) if data.startswith(b"FETCH /a.md/v1\n") else ())
    url = f"mark://localhost:{lossy.listener.address.port}/a.md"
    ran = await mark("publish", url, "--body", "x", "--expect", "0")
    assert ran.code == 1
    assert "a look at the server says: it was done" in ran.err


STORED = encode_version(1, None, {"type": "Document"}, b"# Tea\n")
BUSY = "note: localhost limits the rate of requests; going on more slowly\n"


def a_small_world(data: bytes) -> Response:
    """What a server of one document answers."""
    request = parse_request(data)
    if request.verb is Verb.LIST:
        return Response("ok", {"entries": "1", "complete": "true"}, render_list("/", [Child("tea.md", False)]).body)
    if request.verb is Verb.VERSIONS:
        told = {"total": "1", "current": "1", "chain-valid": "true"}
        return Response("ok", told, render_versions("/tea.md", [VersionLine(1, "2026-11-30T09:00:00Z")]))
    metadata = {"type": "Document", "version": "1", "etag": etag(STORED), "content-hash": content_hash(b"# Tea\n")}
    return Response("ok", metadata, b"# Tea\n")


async def test_a_long_work_goes_on_when_the_server_is_busy(world, mark, tmp_path):
    asked: set[bytes] = set()

    def answer(data: bytes) -> tuple[bytes]:
        response = a_small_world(data) if data in asked else Response("rate-limited")
        asked.add(data)
        return (encode_response(response),)

    world.server.answer = answer
    ran = await mark("export", world.url("/"), str(tmp_path / "out"))
    assert ran == Ran(0, "1 written, 0 unchanged, 0 failed\n", BUSY)
    assert (tmp_path / "out" / "tea.md").read_bytes() == b"# Tea\n"
    asked.clear()
    ran = await mark("verify", world.url("/"))
    assert ran.out == f"intact /tea.md v1-v1 {etag(STORED)}\n"
    assert (ran.code, ran.err) == (0, f"{BUSY}1 documents, 1 versions, 0 findings\n")
    assert len(world.requests) == 10, "each request was sent twice"


async def test_a_single_request_is_not_repeated_when_the_server_is_busy(world, mark):
    world.response = Response("rate-limited")
    ran = await mark("fetch", world.url())
    assert (ran.code, ran.out) == (1, "")
    assert ran.err.startswith("rate-limited")
    assert len(world.requests) == 1
