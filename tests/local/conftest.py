"""What the tests of the local runner share: waiting for something to become true, and stand-in programs."""

from __future__ import annotations

import os
import time
from collections.abc import Callable
from pathlib import Path

import pytest

DEADLINE = 60.0


@pytest.fixture
def until() -> Callable[..., None]:
    """Poll until a condition holds; fails naming what was waited for and what was seen last."""

    def wait(what: str, holds: Callable[[], object], *, deadline: float = DEADLINE) -> None:
        end = time.monotonic() + deadline
        while not (seen := holds()):
            assert time.monotonic() < end, f"waited {deadline:.0f} s for: {what}; last seen: {seen!r}"
            time.sleep(0.05)

    return wait


def alive(pid: int) -> bool:
    """Whether a process with this id runs (an ended one that nobody has asked about yet does not)."""
    try:
        stat = Path(f"/proc/{pid}/stat").read_text()
    except FileNotFoundError:
        return False
    except OSError:
        os.kill(pid, 0)
        return True
    return stat.rpartition(")")[2].split()[0] not in "ZX"


@pytest.fixture
def is_alive() -> Callable[[int], bool]:
    return alive
