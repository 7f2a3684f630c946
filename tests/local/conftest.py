"""What the tests of the local runner share: waiting for something to become true, and universes of real processes."""

from __future__ import annotations

import contextlib
import json
import os
import shutil
import subprocess
import sys
import time
from collections.abc import AsyncIterator, Callable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import httpx2
import pytest
import yaml
from mcp import Client
from mcp.client.streamable_http import streamable_http_client

DEADLINE = 60.0
BIN = Path(sys.executable).parent
ROOT = Path(__file__).parents[2]


def wait_until(what: str, holds: Callable[[], Any], *, deadline: float = DEADLINE) -> Any:
    """Poll until a condition holds, and give what it gave; fails with what was waited for and what was seen last."""
    end = time.monotonic() + deadline
    while not (seen := holds()):
        assert time.monotonic() < end, f"waited {deadline:.0f} s for: {what}; last seen: {seen!r}"
        time.sleep(0.05)
    return seen


def alive(pid: int) -> bool:
    """Whether a process with this id runs (an ended one that nobody has asked about yet does not)."""
    try:
        stat = Path(f"/proc/{pid}/stat").read_text()
    except FileNotFoundError:
        return False
    return stat.rpartition(")")[2].split()[0] not in "ZX"


@pytest.fixture
def until() -> Callable[..., Any]:
    return wait_until


@pytest.fixture
def is_alive() -> Callable[[int], bool]:
    return alive


@dataclass(frozen=True)
class Home:
    """A folder of manifests and a state folder, and the commands on them."""

    folder: Path

    @property
    def manifests(self) -> Path:
        return self.folder / "manifests"

    @property
    def state(self) -> Path:
        return self.folder / "state"

    def change(self, file: str, **spec: Any) -> None:
        """Set fields of a manifest's spec; None removes one."""
        manifest = yaml.safe_load((self.manifests / file).read_text())
        manifest["spec"] = {k: v for k, v in {**manifest["spec"], **spec}.items() if v is not None}
        (self.manifests / file).write_text(yaml.safe_dump(manifest))

    def run(self, *arguments: str | Path, **environment: str) -> subprocess.CompletedProcess[str]:
        """One `demarkus` command on this state folder, to its end."""
        argv = [BIN / "demarkus", *arguments, "--state", self.state]
        return subprocess.run(argv, capture_output=True, text=True, timeout=120, env={**os.environ, **environment})

    def up(self, *arguments: str) -> dict[str, Any]:
        """Start detached, and give the status."""
        done = self.run("up", "-f", self.manifests, "--detach", "--timeout", "100", *arguments)
        assert done.returncode == 0, f"up failed:\n{done.stdout}{done.stderr}{self.logs()}"
        return self.status()

    def down(self) -> None:
        assert self.run("down").returncode == 0

    def status(self) -> dict[str, Any]:
        status: dict[str, Any] = json.loads(self.run("status", "--json").stdout)
        return status

    def popen(self) -> subprocess.Popen[str]:
        """An `up` in the foreground, leading a process group as at a terminal."""
        argv: list[str | Path] = [BIN / "demarkus", "up", "-f", self.manifests, "--state", self.state]
        return subprocess.Popen(
            argv, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, start_new_session=True
        )

    def processes(self) -> list[int]:
        """All processes that were started with something of this home."""
        found = []
        for entry in Path("/proc").iterdir():
            if entry.name.isdigit():
                with contextlib.suppress(OSError):
                    if str(self.folder).encode() in (entry / "cmdline").read_bytes():
                        found.append(int(entry.name))
        return found

    def logs(self) -> str:
        return "\n".join(f"--- {log}\n{log.read_text()}" for log in self.state.rglob("*.log"))

    def object(self, kind: str, name: str) -> dict[str, Any]:
        found: dict[str, Any] = json.loads((self.state / "objects" / kind / "default" / f"{name}.json").read_bytes())
        return found

    def mark(self, *arguments: str | Path, **environment: str) -> subprocess.CompletedProcess[str]:
        argv = [BIN / "mark", *arguments]
        env = {**os.environ, "DEMARKUS_CA": str(self.state / "ca.crt"), **environment}
        return subprocess.run(argv, capture_output=True, text=True, timeout=60, env=env)

    @contextlib.asynccontextmanager
    async def gateway(self, url: str) -> AsyncIterator[Callable[..., Any]]:
        """Calls of the gateway's tools with the bearer in the state folder."""
        headers = {"Authorization": f"Bearer {bearer_of(self.state)}"}
        async with (
            httpx2.AsyncClient(headers=headers, timeout=30) as http,
            Client(streamable_http_client(url, http_client=http)) as client,
        ):

            async def call(tool: str, **arguments: Any) -> Mapping[str, Any]:
                result = await client.call_tool(tool, arguments)
                assert isinstance(result.structured_content, dict)
                return result.structured_content

            yield call


def bearer_of(state: Path) -> str:
    return (state / "bearer").read_text().strip()


def make_home(folder: Path) -> Home:
    """A home with the manifests of the example."""
    shutil.copytree(ROOT / "examples" / "universe", folder / "manifests")
    return Home(folder)


@pytest.fixture
def home(tmp_path: Path) -> Iterator[Home]:
    """A universe of a test's own."""
    made = make_home(tmp_path)
    yield made
    made.down()
    assert made.processes() == []


@pytest.fixture(scope="module")
def shared(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Home]:
    """One running universe for the tests that leave it as it is."""
    made = make_home(tmp_path_factory.mktemp("shared"))
    made.up()
    yield made
    made.down()
