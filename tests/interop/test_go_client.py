"""A stranger at the door: a client of a few lines on quic-go fetches from and publishes to a real world process."""

from __future__ import annotations

import hashlib
import os
import subprocess
import tempfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from dev.cluster.build import CannotBuild, cache_folder, find_go, go_environment, last_line

pytestmark = pytest.mark.go

SOURCES = Path(__file__).with_name("go_client")
PREPARED_SECONDS = 600.0
"""For the module proxy and the compiler, both cold."""


def cached_client() -> Path:
    """Where the built client is kept: outside the work tree, under a name made of its sources."""
    digest = hashlib.sha256()
    for name in ("go.mod", "go.sum", "main.go"):
        digest.update((SOURCES / name).read_bytes())
    root = os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache"
    return Path(root) / "demarkus" / "go-client" / digest.hexdigest()[:16] / "go_client"


@pytest.fixture(scope="session")
def go_client() -> Path:
    """The built client; skips where there is no Go or no module proxy."""
    client = cached_client()
    if client.exists():
        return client
    cache_folder().mkdir(parents=True, exist_ok=True)  # where a toolchain is kept if there is none on PATH
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


@pytest.fixture
def exchange(go_client: Path, tmp_path: Path) -> Callable[..., bytes]:
    """`exchange(world, request)`: the bytes that the Go client gets for these bytes."""

    def run(world: Any, request: bytes) -> bytes:
        roots = tmp_path / "roots.pem"
        roots.write_bytes(world.roots)
        command = [go_client, "-ca", roots, "-server-name", "localhost", f"127.0.0.1:{world.port}"]
        done = subprocess.run(command, input=request, capture_output=True, timeout=60)
        assert done.returncode == 0, done.stderr.decode()
        return done.stdout

    return run


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


def test_many_go_clients_at_once(start_world, go_client, tmp_path):
    world = start_world(reads="public")
    roots = tmp_path / "roots.pem"
    roots.write_bytes(world.roots)
    command = [go_client, "-ca", roots, "-server-name", "localhost", f"127.0.0.1:{world.port}"]
    clients = [
        subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.PIPE)
        for _ in range(20)
    ]
    for client in clients:
        out, err = client.communicate(b"FETCH /health\n", timeout=60)
        assert out.endswith(b"# Health Check\n\nServer is healthy.\n"), err.decode()
