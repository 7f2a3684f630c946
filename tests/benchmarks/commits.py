"""Commits per second and their latency: one engine, some writers, each waiting for its answer before the next."""

from __future__ import annotations

import asyncio
import os
import random
import time
from collections.abc import AsyncIterator, Callable
from contextlib import AsyncExitStack, asynccontextmanager
from dataclasses import asdict, dataclass
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

from demarkus_base.blobs.directory import DirectoryBlobs
from demarkus_base.blobs.gcs import Anonymous, GcsBlobs
from demarkus_base.blobs.hedged import HedgedBlobs
from demarkus_base.blobs.port import Blobs
from demarkus_world.engine.engine import Engine, Identity, Write
from dev.gcs.faults import Fault
from dev.gcs.process import started

BODY = 1024
DOCUMENTS_OF_A_WRITER = 4
FSYNC = 0.005
CALL = 0.05
IDENTITY = Identity("a" * 32, "b" * 32)


@dataclass(frozen=True, slots=True)
class Rate:
    """One row: milliseconds are from asking to the durable answer."""

    store: str
    writers: int
    commits_per_second: float
    p50_ms: float
    p99_ms: float
    entries_per_slot: float


def percentile(values: list[float], share: float) -> float:
    """The value below which that share of the values is."""
    ordered = sorted(values)
    return ordered[min(len(ordered) - 1, int(len(ordered) * share))]


async def rate(store: str, blobs: Blobs, writers: int, seconds: float) -> Rate:
    """Let writers publish new versions of their own documents."""
    engine = await Engine.open(blobs, IDENTITY, now=lambda: time.time_ns() // 1_000_000, random=os.urandom)
    took: list[float] = []

    async def work(number: int, count: int | None) -> None:
        chance = random.Random(f"{number} {count}")
        done = 0
        while done < count if count is not None else time.monotonic() < end:
            path = f"/writer-{number:02}/document-{done % DOCUMENTS_OF_A_WRITER}.md"
            begun = time.monotonic()
            await engine.write(
                Write(
                    op="publish", path=path, body=chance.randbytes(BODY // 2).hex().encode(), by="b", credential="token"
                )
            )
            took.append(time.monotonic() - begun)
            done += 1

    try:
        end = 0.0
        await asyncio.gather(
            *(work(number, DOCUMENTS_OF_A_WRITER) for number in range(writers))
        )  # the folders are made
        took.clear()
        slots = engine.statistics.slots
        begun = time.monotonic()
        end = begun + seconds
        await asyncio.gather(*(work(number, None) for number in range(writers)))
        passed = time.monotonic() - begun
        return Rate(
            store=store,
            writers=writers,
            commits_per_second=round(len(took) / passed, 1),
            p50_ms=round(percentile(took, 0.5) * 1000, 1),
            p99_ms=round(percentile(took, 0.99) * 1000, 1),
            entries_per_slot=round(len(took) / (engine.statistics.slots - slots), 1),
        )
    finally:
        await engine.close()


@asynccontextmanager
async def a_directory(where: Path | None, fsync: Callable[[int], None]) -> AsyncIterator[Blobs]:
    """A fresh store on a disk."""
    with TemporaryDirectory(dir=where) as folder:
        blobs = await DirectoryBlobs.open(Path(folder) / "world", fsync=fsync)
        try:
            yield blobs
        finally:
            await blobs.close()


@asynccontextmanager
async def a_bucket(seconds: float) -> AsyncIterator[Blobs]:
    """A fresh bucket of the stand-in, in which every call takes that long."""
    with started("benchmark") as stand_in:
        stand_in.fail(Fault(kind="slow", seconds=seconds))
        gcs = GcsBlobs.open("gs://benchmark/world", service=stand_in.address, authorization=Anonymous())
        try:
            yield HedgedBlobs(gcs, clock=time.monotonic, count=lambda _: None)
        finally:
            await gcs.close()


def slow_fsync(descriptor: int) -> None:
    """An fsync of a disk that takes its time."""
    time.sleep(FSYNC)
    os.fsync(descriptor)


async def rates(*, seconds: float, where: Path | None, tell: Callable[[dict[str, Any]], None]) -> list[dict[str, Any]]:
    """All rows, each told as soon as it is known."""
    rows = []
    for store in ("disk", "disk, fsync + 5 ms", "bucket, 50 ms a call"):
        for writers in (1, 16, 64):
            async with AsyncExitStack() as stack:
                if store.startswith("bucket"):
                    blobs = await stack.enter_async_context(a_bucket(CALL))
                else:
                    fsync = slow_fsync if "5 ms" in store else os.fsync
                    blobs = await stack.enter_async_context(a_directory(where, fsync))
                row = asdict(await rate(store, blobs, writers, seconds))
            tell(row)
            rows.append(row)
    return rows
