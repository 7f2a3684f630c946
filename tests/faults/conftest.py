"""Real volumes of a world: mounted where a test runs as root, else the test is skipped."""

import os
import subprocess
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest


@pytest.fixture
def mounted() -> Iterator[Callable[..., None]]:
    """`mounted(folder, "size=24m")` puts a file system in memory there; `disk=bytes` a real one on an image file."""
    folders: list[Path] = []

    def mount(folder: Path, options: str = "", *, disk: int = 0) -> None:
        if os.geteuid() != 0:
            pytest.skip("mounting a volume needs root")
        if disk:
            image = folder.with_suffix(".image")
            with image.open("wb") as file:
                file.truncate(disk)
            made = subprocess.run(["mkfs.ext4", "-q", "-m", "0", str(image)], capture_output=True)
            command = ["mount", "-o", "loop" + (f",{options}" if options else ""), str(image), str(folder)]
        else:
            made = subprocess.CompletedProcess([], 0)
            command = ["mount", "-t", "tmpfs", "-o", options, "none", str(folder)]
        if made.returncode or subprocess.run(command, capture_output=True).returncode:
            pytest.skip("this machine can't mount volumes")
        folders.append(folder)

    yield mount
    for folder in folders:
        subprocess.run(["umount", "-l", str(folder)], check=True)
