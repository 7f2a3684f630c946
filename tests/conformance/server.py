"""The server under test, as tests see it: places to write, tokens by role, requests, and what was made here.

All documents are below the profile's base, in folders of this run. `tidy` archives what this run made and touches
nothing else. Requests are put together here in the plainest form that the grammar has; where the grammar itself is the
question, tests send bytes.
"""

from __future__ import annotations

import hashlib
import json
import re
import secrets
import subprocess
import time
from collections.abc import Callable, Iterable, Mapping
from typing import Any, NoReturn

import pytest

from tests.conformance.answers import Answer, block, parse
from tests.conformance.profile import Profile
from tests.conformance.wire import DEADLINE, Connection, Endpoint, Stream, Wire, exchange_all

CURSOR = re.compile(r"[A-Za-z0-9._-]{1,64}:(0|[1-9][0-9]{0,19})")
WELL_KNOWN = "/.well-known/"
PRIVATE = {"vault": "vault", "tomb": "expired"}
"""Areas that nobody reads without a token, and the roles whose tokens bring that about."""


def quoted(value: str) -> str:
    """Text in double quotes as YAML reads them; what may not stand in YAML as it is is escaped."""
    text = json.dumps(value, ensure_ascii=False)
    return re.sub("[\x7f-\x9f\u2028\u2029\ufeff]", lambda found: f"\\u{ord(found[0]):04x}", text)


def request(verb: str, path: str, body: bytes = b"", **metadata: str) -> bytes:
    """The bytes of a request; metadata keys may have underscores for hyphens."""
    block = "".join(f"{key.replace('_', '-')}: {quoted(value)}\n" for key, value in metadata.items())
    return f"{verb} {path}\n".encode() + (f"---\n{block}---\n".encode() if block else b"") + body


def content_hash(body: bytes) -> str:
    """As FETCH tells it, and as a path to the body."""
    return f"sha256-{hashlib.sha256(body).hexdigest()}"


def stored(number: int, previous: str, metadata: Mapping[str, str], body: bytes) -> bytes:
    """The bytes of a version as every server keeps them (Mark protocol 7.2); `tags` is given as `a, b`.

    `previous` is the etag of the version before, empty for the first one.
    """
    lines = [f"version: {number}", "archived: false"]
    if previous:
        lines.append(f"previous-hash: sha256-{previous}")
    for key in sorted(metadata):
        if key == "tags":
            lines.append(f"tags: [{metadata[key]}]")
        elif key in ("type", "title", "description", "resource", "timestamp"):
            lines.append(f"{key}: {metadata[key]}")
        else:
            lines.append(f"meta.{key}: {metadata[key]}")
    return b"---\n" + "\n".join(lines).encode() + b"\n---\n" + body


def etag(number: int, previous: str, metadata: Mapping[str, str], body: bytes) -> str:
    """The etag that a version of this content has on every server."""
    return hashlib.sha256(stored(number, previous, metadata, body)).hexdigest()


def eventually(what: str, holds: Callable[[], Any]) -> Any:
    """Asks again until something holds, and returns it: for what may lag by a second (Mark protocol 7.4)."""
    end = time.monotonic() + DEADLINE
    pause = 0.01
    while not (seen := holds()):
        assert time.monotonic() < end, f"waited {DEADLINE:g} s for {what}; last seen: {seen!r}"
        time.sleep(pause)
        pause = min(0.5, pause * 2)
    return seen


class Server:
    """One server, and one run of the suite against it."""

    def __init__(self, profile: Profile, wire: Wire) -> None:
        self.profile = profile
        self.run = secrets.token_hex(4)
        self.readings: dict[str, str] = {}
        self._wire = wire
        self._connections: dict[Endpoint, Connection] = {}
        self._made: dict[str, str] = {}
        self._places = 0

    def begin_long_waits(self) -> None:
        """What takes a server ten and twenty seconds is begun at the start and looked at in the end."""
        self.unfinished = self.another_connection().open(b"FETCH /health", end=False)
        self.quiet = self.watch(f"{self.place('quiet')}/", on=self.another_connection())

    # Where tests write

    def place(self, area: str = "open") -> str:
        """A folder that is this test's own, no slash at its end. In a private area only where a token makes it one."""
        if area in PRIVATE:
            self.token(PRIVATE[area])
        self._places += 1
        return f"{self.profile.base}/{area}/{self.run}/{self._places}"

    def name(self, area: str, ending: str) -> str:
        """A document directly in an area, for patterns that reach no deeper."""
        self._places += 1
        return f"{self.profile.base}/{area}/{self.run}-{self._places}{ending}"

    def token(self, role: str) -> str:
        """The raw token of a role; without one the test is skipped.

        The role "" has none, "unknown" has one that nobody knows.
        """
        if role == "":
            return ""
        if role == "unknown":
            return "0123456789abcdef" * 4
        if role not in self.profile.tokens:
            self.cannot(f"the profile has no token for the role {role}")
        return self.profile.tokens[role]

    def cannot(self, reason: str) -> NoReturn:
        """The server can't be asked this, for a reason in its profile. Ours can be asked everything."""
        if self.profile.ours:
            pytest.fail(f"nothing may be left out for our own server: {reason}")
        pytest.skip(reason)

    def reads(self, reading: str, *, of: str) -> None:
        """Notes which of two legal readings the server has (Mark protocol 16), for the summary."""
        self.readings[of] = reading

    # Requests

    def send(self, data: bytes, *, to: Endpoint | None = None) -> Answer:
        """The answer to these bytes. A server that is asked too much is asked again later."""
        answer = self._patiently(lambda: parse(self.connection(to).exchange(data)))
        self._remember(data, answer)
        return answer

    def send_all(self, requests: Iterable[bytes]) -> list[Answer]:
        """Answers to many requests, several of them under way at a time."""
        todo = list(requests)
        answers = [parse(raw) for raw in exchange_all(self.connection(), todo)]
        for index, data in enumerate(todo):
            if answers[index].status == "rate-limited":
                answers[index] = self.send(data)
            self._remember(data, answers[index])
        return answers

    def ask(self, verb: str, path: str, body: bytes = b"", *, role: str | None = None, **metadata: str) -> Answer:
        """One request. Without a role writes are those of `full`, and so are reads where every read needs a token."""
        return self.send(self.bytes_of(verb, path, body, role=role, **metadata))

    def bytes_of(self, verb: str, path: str, body: bytes = b"", *, role: str | None = None, **metadata: str) -> bytes:
        """The bytes that `ask` would send."""
        if role is None:
            writes = verb in ("PUBLISH", "APPEND", "ARCHIVE")
            role = "full" if writes or self.profile.reads == "private" else ""
        token = self.token(role)
        return request(verb, path, body, **({"auth": token} if token else {}), **metadata)

    def publish(self, path: str, body: bytes = b"# Tea\n", *, role: str | None = None, **metadata: str) -> Answer:
        """A PUBLISH that has to make a version."""
        answer = self.ask("PUBLISH", path, body, role=role, **metadata)
        assert answer.status == "created", answer
        return answer

    def publish_all(self, documents: Mapping[str, bytes], **metadata: str) -> None:
        """Makes many documents."""
        paths = list(documents)
        answers = self.send_all(self.bytes_of("PUBLISH", path, documents[path], **metadata) for path in paths)
        for path, answer in zip(paths, answers, strict=True):
            assert answer.status == "created", f"{path}: {answer}"

    def append(self, path: str, body: bytes, *, expected: int, **metadata: str) -> Answer:
        """An APPEND that has to make a version."""
        answer = self.ask("APPEND", path, body, expected_version=str(expected), **metadata)
        assert answer.status == "created", answer
        return answer

    def archive(self, path: str) -> Answer:
        """An ARCHIVE that has to succeed."""
        answer = self.ask("ARCHIVE", path)
        assert answer.status == "ok", answer
        return answer

    def fetch(self, path: str, **metadata: str) -> Answer:
        """A FETCH that has to find something."""
        answer = self.ask("FETCH", path, **metadata)
        assert answer.status == "ok", answer
        return answer

    def connection(self, to: Endpoint | None = None) -> Connection:
        """The connection that requests share, made anew if it has ended."""
        endpoint = to or self.profile.endpoint
        found = self._connections.get(endpoint)
        if found is None or found.ended:
            found = self._connections[endpoint] = Connection(self._wire, endpoint)
        return found

    def another_connection(self, to: Endpoint | None = None, *, alpn: str = "mark") -> Connection:
        """One that nobody shares; the caller closes it."""
        return Connection(self._wire, to or self.profile.endpoint, alpn)

    def watch(self, path: str, *, on: Connection | None = None, role: str | None = None, **metadata: str) -> Stream:
        """Opens a WATCH; its blocks are still to be read."""
        return (on or self.connection()).open(self.bytes_of("WATCH", path, role=role, **metadata))

    @staticmethod
    def event(stream: Stream) -> dict[str, str]:
        """The next event of a watch, its form checked; heartbeats are passed over."""
        while True:
            data = stream.block()
            assert len(data) <= 8192
            entries, _ = block(data)
            assert CURSOR.fullmatch(entries["cursor"])
            if "status" not in entries:
                return entries
            assert entries["status"] == "ok", entries

    # The end of a run

    def stop_the_one_without_tokens(self) -> None:
        """Ends the second server in an orderly way."""
        if not self.profile.stop:
            self.cannot("the profile has no command `stop` for the server without tokens")
        subprocess.run(self.profile.stop, shell=True, check=True, timeout=DEADLINE)

    def tidy(self) -> list[str]:
        """Archives every document that this run made; what could not be archived."""
        left = []
        for path, role in self._made.items():
            answer = self.ask("ARCHIVE", path, role=role)
            if answer.status != "ok":
                left.append(f"{path}: {answer.status}")
        self._made.clear()
        return left

    @property
    def made(self) -> list[str]:
        """The documents that this run has made and not yet archived in the end."""
        return list(self._made)

    def close(self) -> None:
        """Ends the connections."""
        for connection in self._connections.values():
            if not connection.ended:
                connection.close()

    def _remember(self, data: bytes, answer: Answer) -> None:
        """What was made, and by which role: `tidy` needs both."""
        if answer.status != "created" or not data.startswith(b"PUBLISH "):
            return
        path = "/" + data.split(b"\n")[0].decode().partition(" ")[2].strip("/\r")
        assert path.startswith((self.profile.base + "/", WELL_KNOWN)), f"outside of the base: {path}"
        self._made[path] = next(role for role, raw in self.profile.tokens.items() if raw.encode() in data)

    @staticmethod
    def _patiently(ask: Callable[[], Answer]) -> Answer:
        end = time.monotonic() + DEADLINE
        pause = 0.1
        while (answer := ask()).status == "rate-limited":
            assert time.monotonic() < end, f"rate-limited for {DEADLINE:g} s"
            time.sleep(pause)
            pause = min(2.0, pause * 2)
        return answer
