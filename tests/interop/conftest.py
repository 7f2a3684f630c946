"""The Go client: built once from its sources, run for one request or kept for a whole session."""

from __future__ import annotations

import base64
import hashlib
import json
import os
import queue
import subprocess
import tempfile
import threading
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from dev.cluster.build import CannotBuild, find_go, go_environment, last_line

SOURCES = Path(__file__).with_name("go_client")
PREPARED_SECONDS = 600.0
"""For the module proxy and the compiler, both cold."""
DEADLINE = 60.0


def cached_client() -> Path:
    """Where the built client is kept: outside the work tree, under a name made of its sources."""
    digest = hashlib.sha256()
    for path in sorted(path for path in SOURCES.iterdir() if path.name in ("go.mod", "go.sum") or path.suffix == ".go"):
        digest.update(path.name.encode() + path.read_bytes())
    root = os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache"
    return Path(root) / "demarkus" / "go-client" / digest.hexdigest()[:16] / "go_client"


@pytest.fixture(scope="session")
def go_client() -> Path:
    """The built client; skips where there is no Go or no module proxy."""
    client = cached_client()
    if client.exists():
        return client
    try:
        toolchain = find_go()
    except CannotBuild as lacking:
        pytest.skip(f"the Go client is not tested: {lacking}")

    def go(*arguments: str) -> subprocess.CompletedProcess[str]:
        return subprocess.run(
            [toolchain, *arguments],
            cwd=SOURCES,
            env=go_environment(toolchain),
            capture_output=True,
            text=True,
            timeout=PREPARED_SECONDS,
        )

    listed = go("list", "-deps", "-mod=readonly", ".")
    if listed.returncode:
        pytest.skip(f"the Go client is not tested: its modules can't be fetched: {last_line(listed.stderr)}")
    client.parent.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(dir=client.parent, prefix="build-") as scratch:
        fresh = Path(scratch) / client.name
        built = go("build", "-trimpath", "-buildvcs=false", "-mod=readonly", "-o", str(fresh), ".")
        assert built.returncode == 0, f"go build: {built.stderr}"
        fresh.rename(client)
    return client


@dataclass(frozen=True, slots=True)
class Order:
    """Something that a session is doing; its reports come here."""

    number: int
    reports: queue.SimpleQueue[dict[str, Any]]

    def next(self) -> dict[str, Any]:
        """The next report, its bytes decoded; fails if it says that something went wrong, or does not come."""
        report = self._report()
        assert "error" not in report, report
        return report

    def failure(self) -> str:
        """What went wrong, which is what the next report has to tell."""
        report = self._report()
        assert "error" in report, report
        return str(report["error"])

    def _report(self) -> dict[str, Any]:
        try:
            return self.reports.get(timeout=DEADLINE)
        except queue.Empty:
            pytest.fail(f"waited {DEADLINE:.0f} s for the Go client's report on order {self.number}")


class GoSession:
    """A Go client that keeps one connection and does what it is told. `port` is its own, last heard of."""

    def __init__(self, command: list[str]) -> None:
        self._process = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
        self._orders: dict[int, Order] = {}
        self._lock = threading.Lock()
        ready = self._order(0)
        self._reader = threading.Thread(target=self._read, name="go session")
        self._reader.start()
        self.port = int(ready.next()["port"])

    def start(self, do: str, **details: Any) -> Order:
        """Have something done; its reports come while other things are done."""
        with self._lock:
            order = self._order(len(self._orders))
        line = {"id": order.number, "do": do} | {name: _packed(value) for name, value in details.items()}
        assert self._process.stdin is not None
        self._process.stdin.write(json.dumps(line) + "\n")
        self._process.stdin.flush()
        return order

    def do(self, do: str, **details: Any) -> dict[str, Any]:
        """Have something done, and wait for it."""
        report = self.start(do, **details).next()
        self.port = int(report["port"]) or self.port
        return report

    def ask(self, request: bytes, **details: Any) -> bytes:
        """The answer to a request."""
        return bytes(self.do("exchange", request=request, **details)["answer"])

    def close(self) -> None:
        """Ends it; what it is doing comes to its end first."""
        assert self._process.stdin is not None
        self._process.stdin.close()
        try:
            assert self._process.wait(DEADLINE) == 0, "the Go client failed"
        finally:
            self._process.kill()
            self._reader.join()

    def _order(self, number: int) -> Order:
        return self._orders.setdefault(number, Order(number, queue.SimpleQueue()))

    def _read(self) -> None:
        assert self._process.stdout is not None
        with self._process.stdout as lines:
            for line in lines:
                report = json.loads(line)
                for name in ("answer", "piece"):
                    report[name] = base64.b64decode(report.get(name) or "")
                report["answers"] = [base64.b64decode(answer) for answer in report.get("answers") or ()]
                self._orders[report["id"]].reports.put(report)


def _packed(value: Any) -> Any:
    if isinstance(value, bytes):
        return base64.b64encode(value).decode()
    return [_packed(one) for one in value] if isinstance(value, list) else value


@pytest.fixture
def go_command(go_client: Path, tmp_path: Path) -> Callable[..., list[str]]:
    """`go_command(world, ...)`: the command line of the client for a world, with these options."""

    def command(world: Any, *options: str) -> list[str]:
        roots = tmp_path / "roots.pem"
        roots.write_bytes(world.roots)
        return [str(go_client), "-ca", str(roots), *options, f"127.0.0.1:{world.port}"]

    return command


@pytest.fixture
def exchange(go_command: Callable[..., list[str]]) -> Callable[..., bytes]:
    """`exchange(world, request)`: the bytes that the Go client gets for these bytes, on a connection of their own."""

    def run(world: Any, request: bytes) -> bytes:
        done = subprocess.run(go_command(world), input=request, capture_output=True, timeout=DEADLINE)
        assert done.returncode == 0, done.stderr.decode()
        return done.stdout

    return run


@pytest.fixture
def go_session(go_command: Callable[..., list[str]]) -> Iterator[Callable[[Any], GoSession]]:
    """`go_session(world)`: a Go client that is connected to it."""
    sessions: list[GoSession] = []

    def connect(world: Any) -> GoSession:
        sessions.append(GoSession(go_command(world, "-session", "-timeout", "60s")))
        return sessions[-1]

    yield connect
    for session in sessions:
        session.close()
