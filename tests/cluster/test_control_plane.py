"""The tools of these tests: the build and the control plane itself."""

from __future__ import annotations

import fcntl
import os
import re
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from dev.cluster import build
from dev.cluster.plane import ControlPlane, sweep_leftovers
from tests.cluster.home import BUDGET, ROOT, eventually

CLOSED_PORT = "http://127.0.0.1:9/"


def run_build(*arguments: str, **environment: str) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-m", "dev.cluster.build", *arguments]
    kept = {k: v for k, v in os.environ.items() if k != "DEMARKUS_NO_SKIPS"}
    return subprocess.run(
        command, cwd=ROOT, env={**kept, **environment}, capture_output=True, text=True, timeout=BUDGET
    )


def without_go(cache: Path) -> dict[str, str]:
    """An environment with neither Go nor a package index."""
    nothing = str(cache / "nothing")
    return {"PATH": nothing, "XDG_CACHE_HOME": str(cache), "PIP_INDEX_URL": CLOSED_PORT, "PIP_RETRIES": "0"}


def test_without_go_the_build_says_so_and_has_a_status_of_its_own(tmp_path: Path) -> None:
    done = run_build(**without_go(tmp_path))
    assert done.returncode == build.CANNOT_BUILD_HERE
    (line,) = done.stderr.splitlines()
    assert "no Go >= 1.25" in line
    assert run_build("--or-skip", **without_go(tmp_path)).returncode == 0
    assert run_build("--or-skip", DEMARKUS_NO_SKIPS="1", **without_go(tmp_path)).returncode == build.CANNOT_BUILD_HERE


@pytest.mark.go
def test_without_the_module_proxy_the_build_says_so(tmp_path: Path) -> None:
    modules = str(tmp_path / "modules")
    done = run_build(GOPROXY=CLOSED_PORT, GOMODCACHE=modules, XDG_CACHE_HOME=str(tmp_path / "cache"))
    assert done.returncode == build.CANNOT_BUILD_HERE
    assert "the Go modules can't be fetched" in done.stderr


def test_two_builds_wait_for_one_another(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    target = build.binary()
    target.parent.mkdir(parents=True)
    with (build.cache_folder() / "lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        waiting = subprocess.Popen(
            [sys.executable, "-m", "dev.cluster.build"], cwd=ROOT, stdout=subprocess.PIPE, stderr=subprocess.PIPE
        )
        assert waiting.stderr is not None
        assert b"another build is running" in waiting.stderr.readline()
        target.touch()  # the other one is done
    out, _ = waiting.communicate(timeout=BUDGET)
    assert (waiting.returncode, out.decode().strip()) == (0, str(target))


@pytest.mark.parametrize("name", build.INPUTS)
def test_key_changes_with_each_input(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, name: str) -> None:
    before = build.key()
    for file in build.INPUTS:
        (tmp_path / file).write_bytes((build.SOURCE / file).read_bytes())
    monkeypatch.setattr(build, "SOURCE", tmp_path)
    assert build.key() == before
    (tmp_path / name).write_bytes((tmp_path / name).read_bytes() + b"\n// changed\n")
    assert build.key() != before


def test_version_is_the_one_of_the_modules(plane: ControlPlane) -> None:
    told = plane.kubectl("version").stdout
    assert re.findall(r"(?:Client|Server) Version: (\S+)", told) == [build.kubernetes_version()] * 2


def a_starter() -> tuple[subprocess.Popen[bytes], Path]:
    """A process that started a control plane, and the folder of that."""
    command = [sys.executable, "-m", "dev.cluster.plane"]
    starter = subprocess.Popen(command, cwd=ROOT, stdout=subprocess.PIPE, stdin=subprocess.DEVNULL)
    assert starter.stdout is not None
    kubeconfig = starter.stdout.readline().decode().split("=")[1].strip()
    starter.stdout.close()
    return starter, Path(kubeconfig).parent


@pytest.mark.skipif(sys.platform != "linux", reason="elsewhere the kernel does not end children of a killed process")
async def test_everything_ends_with_a_starter_that_is_killed(plane: ControlPlane) -> None:
    starter, folder = a_starter()

    async def all_there() -> bool:
        return len(running_in(folder)) == 3  # a process bears its own command line only once it was replaced

    await eventually("three processes of the control plane", all_there)
    os.kill(starter.pid, signal.SIGKILL)
    starter.wait()

    async def all_gone() -> bool:
        return running_in(folder) == []

    await eventually("no process of the control plane", all_gone)

    async def swept() -> bool:
        sweep_leftovers()
        return not folder.exists()

    await eventually("the folder is gone", swept)  # a start elsewhere on this machine may be at it
    assert plane.folder.exists()
    plane.check()


def running_in(folder: Path) -> list[int]:
    """Processes whose command line names a folder."""
    found = []
    for process in Path("/proc").glob("[0-9]*"):
        try:
            if str(folder).encode() in (process / "cmdline").read_bytes():
                found.append(int(process.name))
        except OSError:
            continue  # it ended meanwhile
    return found
