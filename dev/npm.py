"""Programs for tests that come as npm packages: installed from a lock file with hashes, outside the work tree.

A folder of this room with a `package.json` and a `package-lock.json` is one set of packages. Nothing in a package is
run while it is installed.
"""

from __future__ import annotations

import hashlib
import shutil
import subprocess
import tempfile
from pathlib import Path

from dev import cache

SECONDS = 600.0


class CannotInstall(Exception):
    """The packages can't be had here; the message says why."""


def installed(folder: Path) -> Path:
    """The folder with the `node_modules` of a set, installed if it is not there yet. Raises `CannotInstall`."""
    npm = shutil.which("npm")
    if npm is None or shutil.which("node") is None:
        raise CannotInstall("node and npm are not on the path")
    files = [folder / name for name in ("package.json", "package-lock.json")]
    digest = hashlib.sha256(b"".join(file.read_bytes() for file in files)).hexdigest()[:16]
    place = cache.folder(f"npm-{folder.name}")
    target = place / digest
    if not target.exists():
        with cache.only_one(place, waiting=lambda: None):
            if not target.exists():
                _install(npm, files, target)
    return target


def _install(npm: str, files: list[Path], target: Path) -> None:
    with tempfile.TemporaryDirectory(dir=target.parent, prefix="install-") as scratch:
        fresh = Path(scratch) / "fresh"
        fresh.mkdir()
        for file in files:
            shutil.copy(file, fresh)
        command = [npm, "ci", "--ignore-scripts", "--no-audit", "--no-fund", "--loglevel=error"]
        try:
            done = subprocess.run(command, cwd=fresh, capture_output=True, text=True, timeout=SECONDS)
        except subprocess.TimeoutExpired:
            raise CannotInstall(f"npm ci took longer than {SECONDS:g} s") from None
        if done.returncode:
            raise CannotInstall(f"npm ci failed: {done.stderr.strip()[-300:]}")
        fresh.rename(target)
