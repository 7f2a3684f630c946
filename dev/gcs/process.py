"""The stand-in as a process of its own, for tests whose worlds are processes too."""

from __future__ import annotations

import contextlib
import json
import subprocess
import sys
import urllib.request
from collections.abc import Iterator, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path

from dev.gcs.faults import Fault

TIMEOUT = 10.0


@dataclass(frozen=True, slots=True)
class StandIn:
    """A running stand-in; `address` is where it serves."""

    address: str
    pid: int

    def fail(self, *faults: Fault) -> None:
        """From now on these faults and no others."""
        body = json.dumps([asdict(fault) for fault in faults]).encode()
        request = urllib.request.Request(f"{self.address}/_faults", data=body, method="POST")
        with urllib.request.urlopen(request, timeout=TIMEOUT):
            pass

    def counts(self) -> tuple[int, dict[str, int]]:
        """How many calls there were, and how many faults of each kind struck."""
        with urllib.request.urlopen(f"{self.address}/_counts", timeout=TIMEOUT) as answer:
            told = json.load(answer)
        return told["calls"], told["faults"]

    def names(self, bucket: str) -> list[str]:
        """The names of a bucket's objects, ascending."""
        with urllib.request.urlopen(f"{self.address}/_objects/{bucket}", timeout=TIMEOUT) as answer:
            return [str(name) for name in json.load(answer)]


@contextlib.contextmanager
def started(*buckets: str, port: int = 0, seed: int = 0) -> Iterator[StandIn]:
    """Start it with empty buckets; it ends with the block, or with this process."""
    command = [sys.executable, "-m", "dev.gcs", "--port", str(port), "--seed", str(seed)]
    for bucket in buckets:
        command += ["--bucket", bucket]
    root = Path(__file__).resolve().parents[2]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True, cwd=root) as process:
        try:
            assert process.stdout is not None
            yield StandIn(process.stdout.readline().strip(), process.pid)
        finally:
            process.kill()


def mix(share: float, *, seconds: float = 0.2) -> Sequence[Fault]:
    """Faults of all kinds that together strike about `share` of the calls; `seconds` is how late or slow is."""
    kinds = (
        Fault(kind="refuse", status=503),
        Fault(kind="refuse", status=429),
        Fault(kind="lose", calls=("insert", "delete")),
        Fault(kind="cut"),
        Fault(kind="torn", calls=("get", "list")),
        Fault(kind="late", calls=("insert", "delete"), seconds=seconds),
        Fault(kind="slow", seconds=seconds),
    )
    for fault in kinds:
        fault.chance = share / len(kinds)
    return kinds
