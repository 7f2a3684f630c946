"""What several subjects share: real world processes, as pods or the local runner would start them."""

from __future__ import annotations

import asyncio
import json
import os
import signal
import subprocess
import sys
import time
import urllib.request
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest
import yaml

from dev.helm import CannotUnpack
from dev.helm import helm as unpacked
from mark_protocol import transport
from mark_protocol.request import Request, Verb, encode_request
from mark_protocol.response import Response, parse_response
from mark_protocol.tokens import CapabilityToken, hash_token, render_entry
from mark_protocol.transport.certificates import self_signed
from mark_protocol.transport.port import Connection, Limits, Trust

# A shell that runs the tests in its background ignores Ctrl-C for them, and what is ignored is inherited: the processes
# that tests interrupt would never hear of it.
signal.signal(signal.SIGINT, signal.default_int_handler)

DEADLINE = 20.0
COMMAND = str(Path(sys.executable).with_name("demarkus-world"))
HISTORY, INCARNATION = "0a" * 16, "1b" * 16


def until(what: str, holds: Callable[[], Any], *, deadline: float = DEADLINE) -> Any:
    """Polls until something holds, and returns it; fails naming what was waited for."""
    end = time.monotonic() + deadline
    while not (seen := holds()):
        assert time.monotonic() < end, f"waited {deadline:.0f} s for {what}; last seen: {seen!r}"
        time.sleep(0.01)
    return seen


@dataclass
class WorldProcess:
    """A `demarkus-world serve` process, its folder, and what is needed to talk to it."""

    folder: Path
    config: dict[str, Any]
    roots: bytes
    process: subprocess.Popen[bytes] | None = None
    serving: dict[str, Any] = field(default_factory=dict)
    _seen: int = 0

    @property
    def store(self) -> Path:
        """The folder of its store."""
        return self.folder / "data" / "world"

    @property
    def port(self) -> int:
        """Its UDP port."""
        return int(self.serving["listen"]["mark"].rpartition(":")[2])

    def lines(self) -> list[dict[str, Any]]:
        """The log lines since its (last) start; a line that is no JSON fails the test."""
        data = (self.folder / "log").read_bytes()[self._seen :]
        return [json.loads(line) for line in data.splitlines()]

    def requests(self) -> list[dict[str, Any]]:
        """The log lines of requests."""
        return [line for line in self.lines() if line["message"] == "request"]

    def write_config(self, **changes: Any) -> None:
        """Writes `world.yaml`, changed fields included, as an editor does: a new file under the name."""
        self.config |= changes
        draft = self.folder / "world.yaml.draft"
        draft.write_text(yaml.safe_dump(self.config))
        draft.rename(self.folder / "world.yaml")

    def start(self, *, wait: bool = True) -> None:
        """Starts it and waits until it serves, unless the test does."""
        log = self.folder / "log"
        log.touch()
        self._seen = log.stat().st_size
        command = [COMMAND, "serve", "--config", str(self.folder / "world.yaml")]
        with log.open("ab") as sink:
            self.process = subprocess.Popen(
                [*command, "--stop-on-stdin-eof"], stdin=subprocess.PIPE, stdout=sink, stderr=sink
            )
        if wait:
            self.wait()

    def wait(self) -> None:
        """Waits until it serves."""
        log = self.folder / "log"

        def serving() -> dict[str, Any] | None:
            assert self.process is not None
            if self.process.poll() is not None:
                pytest.fail(f"the world ended with {self.process.returncode}:\n{log.read_text()}")
            return next((line for line in self.lines() if line["message"] == "serving"), None)

        self.serving = until("the world to serve", serving)

    def kill(self) -> None:
        """SIGKILL, and waits until it is gone."""
        assert self.process is not None
        self.process.kill()
        self.process.wait()

    def stop(self) -> int:
        """SIGTERM; its exit code."""
        assert self.process is not None
        self.process.send_signal(signal.SIGTERM)
        return self.process.wait(DEADLINE)

    def end(self) -> None:
        """Leaves nothing of it running."""
        if self.process is not None and self.process.poll() is None:
            self.kill()
        if self.process is not None and self.process.stdin is not None:
            self.process.stdin.close()

    def health(self, path: str = "/readyz?verbose") -> Any:
        """What its probes answer: JSON for readiness, text for the rest."""
        with urllib.request.urlopen(f"http://{self.serving['listen']['health']}{path}", timeout=DEADLINE) as answer:
            body = answer.read()
        return json.loads(body) if path.endswith("verbose") else body.decode()

    async def dial(self, *, limits: Limits | None = None) -> Connection:
        """A connection to it, its certificate checked."""
        return await transport.dial(
            "127.0.0.1", self.port, server_name="localhost", trust=Trust(roots=self.roots), limits=limits
        )

    async def request(self, verb: str, path: str, body: bytes = b"", **metadata: str) -> Response:
        """One request on a connection of its own; metadata keys may have underscores for hyphens."""
        keys = {name.replace("_", "-"): value for name, value in metadata.items()}
        connection = await self.dial()
        try:
            data = encode_request(Request(Verb(verb), path, keys, body))
            return parse_response(await connection.exchange(data, timeout=DEADLINE))
        finally:
            connection.close()
            await asyncio.sleep(0)


def a_token_file(*tokens: tuple[str, str, tuple[str, ...]]) -> str:
    """A token file of (raw token, path pattern, operations); the label is the raw token."""
    return "".join(
        render_entry(CapabilityToken(raw, hash_token(raw), (pattern,), frozenset(operations)))
        for raw, pattern, operations in tokens
    )


@pytest.fixture
def wait_until() -> Callable[..., Any]:
    """`wait_until(what, holds)`: polls with a deadline."""
    return until


@pytest.fixture
def token_file() -> Callable[..., str]:
    """`token_file((raw, pattern, operations), ...)`: the text of a token file."""
    return a_token_file


def a_world(folder: Path, *, tokens: str | None = None, **fields: Any) -> WorldProcess:
    """A world that is not started yet, with a certificate of its own; `fields` are those of `world.yaml`."""
    (folder / "data").mkdir(parents=True)
    certificate = self_signed(now=datetime.now(UTC))
    (folder / "tls.crt").write_bytes(certificate.chain_pem)
    (folder / "tls.key").write_bytes(certificate.key_pem)
    config: dict[str, Any] = {
        "name": "kettles",
        "identity": {"history": HISTORY, "incarnation": INCARNATION},
        "store": {"directory": str(folder / "data")},
        "tls": {"certificate": str(folder / "tls.crt"), "key": str(folder / "tls.key")},
        "listen": {"mark": "127.0.0.1:0", "health": "127.0.0.1:0"},
        "limits": {"rate": {"perSecond": 0}},
    }
    if tokens is not None:
        (folder / "tokens.toml").write_text(tokens)
        config["tokens"] = [str(folder / "tokens.toml")]
    world = WorldProcess(folder=folder, config=config, roots=certificate.chain_pem)
    world.write_config(**fields)
    return world


@pytest.fixture
def start_world(tmp_path: Path) -> Iterator[Callable[..., WorldProcess]]:
    """Starts worlds; `tokens` is the text of a token file, other arguments are fields of `world.yaml`."""
    worlds: list[WorldProcess] = []

    def start(*, tokens: str | None = None, begin: bool = True, **fields: Any) -> WorldProcess:
        world = a_world(tmp_path / f"world-{len(worlds)}", tokens=tokens, **fields)
        worlds.append(world)
        if begin:
            world.start()
        return world

    yield start
    for world in worlds:
        world.end()


@pytest.fixture(scope="session")
def helm() -> Path:
    """The program."""
    try:
        return unpacked()
    except CannotUnpack as error:
        if os.environ.get("DEMARKUS_NO_SKIPS"):
            raise
        pytest.skip(f"no helm: {error}")
