"""How long a world takes until it can be asked, and what memory that takes, in a process of its own.

`python -m tests.benchmarks.opening --store FOLDER --view FOLDER [--checkpoint]` prints one JSON line; with
`--checkpoint` it also leaves a checkpoint in the store.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import os
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey

from demarkus_base.blobs.directory import DirectoryBlobs
from demarkus_world.engine.checkpoints import Checkpoints
from demarkus_world.engine.engine import Engine
from demarkus_world.engine.notes import WorldKey
from tests.benchmarks.bulk import IDENTITY, Size, fill, path_of
from tests.benchmarks.commits import percentile

KEY = WorldKey(Ed25519PrivateKey.from_private_bytes(bytes(range(32))))
READS = 2000


def memory_mb(field: str) -> int:
    """`VmRSS` or `VmHWM` (its peak) of this process."""
    lines = Path("/proc/self/status").read_text().splitlines()
    return next(int(line.split()[1]) for line in lines if line.startswith(field)) // 1024


async def opened(store: Path, view: Path, documents: int, *, checkpoint: bool) -> dict[str, Any]:
    """Open, look, read a little."""
    blobs = await DirectoryBlobs.open(store)
    begun = time.monotonic()
    engine = await Engine.open(
        blobs, IDENTITY, now=lambda: time.time_ns() // 1_000_000, random=os.urandom, view=view, key=KEY
    )
    seconds = time.monotonic() - begun
    rss, peak = memory_mb("VmRSS"), memory_mb("VmHWM")
    found = await engine.view(exact=True)
    took = []
    for number in range(READS):
        asked = time.monotonic()
        head = found.head(path_of(number * 7919 % documents))
        assert head is not None
        took.append(time.monotonic() - asked)
    result: dict[str, Any] = {
        "seconds": round(seconds, 2),
        "entries": found.sequence,
        "rss_mb": rss,
        "peak_rss_mb": peak,
        "head_p50_us": round(percentile(took, 0.5) * 1e6),
        "head_p99_us": round(percentile(took, 0.99) * 1e6),
    }
    if checkpoint:
        begun = time.monotonic()
        made = Checkpoints(blobs, IDENTITY, KEY, random=os.urandom, pause=asyncio.sleep)
        await made.write(engine._log.view)
        result["checkpoint_seconds"] = round(time.monotonic() - begun, 2)
    await engine.close()
    await blobs.close()
    return result


def starts(size: Size, *, where: Path | None, tell: Callable[[dict[str, Any]], None]) -> list[dict[str, Any]]:
    """Load a large store, then open it: from bundles and blobs, from a checkpoint, with its view at hand."""
    rows = []
    with TemporaryDirectory(dir=where) as folder:
        store, rebuilt, fresh = (Path(folder) / name for name in ("world", "rebuilt", "fresh"))
        begun = time.monotonic()
        fill(store, size)
        print(f"{size.versions} versions of {size.documents} documents written in {time.monotonic() - begun:.0f} s")
        for what, view, more in (
            ("view rebuilt from bundles and blobs", rebuilt, ["--checkpoint"]),
            ("cold start from a checkpoint", fresh, []),
            ("restart with the view at hand", fresh, []),
        ):
            command = [sys.executable, "-m", "tests.benchmarks.opening", "--store", str(store), "--view", str(view)]
            command += ["--documents", str(size.documents), *more]
            done = subprocess.run(command, stdout=subprocess.PIPE, text=True, check=True)
            row = {"start": what, **json.loads(done.stdout)}
            tell(row)
            rows.append(row)
    return rows


def main() -> None:
    """Read the arguments, open, print."""
    parser = argparse.ArgumentParser(prog="python -m tests.benchmarks.opening")
    parser.add_argument("--store", type=Path, required=True)
    parser.add_argument("--view", type=Path, required=True)
    parser.add_argument("--documents", type=int, required=True)
    parser.add_argument("--checkpoint", action="store_true")
    options = parser.parse_args()
    print(
        json.dumps(asyncio.run(opened(options.store, options.view, options.documents, checkpoint=options.checkpoint)))
    )


if __name__ == "__main__":
    main()
