"""The crash matrix of an import: every blob call of the store fails in every way, and the import is run again.

Whatever the failure left, each document there is the beginning of the one that comes, byte for byte; a second run
brings the rest and nothing twice, and the store is intact.
"""

from __future__ import annotations

import asyncio
import contextlib
import hashlib
from collections.abc import Callable, Mapping
from typing import Any

import pytest

from demarkus_base.blobs.memory import MemoryBlobs
from demarkus_base.blobs.port import Blobs
from demarkus_world.engine import keys
from demarkus_world.engine.engine import Engine, Identity
from demarkus_world.engine.sweep import Sweeper
from demarkus_world.engine.verify.verify import Expected, verify
from demarkus_world.transfer.gotree import GoTree
from demarkus_world.transfer.importing import Import
from demarkus_world.transfer.report import Report
from tests.engine.failing import Failing, Failure
from tests.engine.test_crash_matrix import until_dead

IDENTITY = Identity("0a" * 16, "1b" * 16)
NOW = 1_800_000_000_000
SURVIVED = (Failure.ERROR, Failure.OPEN_NOT_DONE, Failure.OPEN_DONE, Failure.OPEN_LATE)
Documents = Mapping[str, tuple[bool, list[tuple[int, str, int]]]]


async def no_pause(seconds: float) -> None:
    for _ in range(10):
        await asyncio.sleep(0)


async def opened(blobs: Blobs, seed: str) -> Engine:
    calls = iter(range(10**6))

    def random(size: int) -> bytes:
        return hashlib.sha256(f"{seed} {next(calls)}".encode()).digest()[:size]

    return await Engine.open(blobs, IDENTITY, now=lambda: NOW, random=random, pause=no_pause)


async def killed(engine: Engine) -> None:
    """End an engine as the death of its process does."""
    closing = asyncio.create_task(engine.close())
    await asyncio.sleep(0)
    closing.cancel()
    with contextlib.suppress(asyncio.CancelledError):
        await closing


async def documents(engine: Engine, paths: list[str]) -> Documents:
    """What there is: whether it is archived, and number, etag and time of every version."""
    view = await engine.view(exact=True)
    heads = {path: head for path in paths if (head := view.head(path)) is not None}
    return {
        path: (head.archived, [(record.version, record.etag, record.modified) for record in view.versions(path)])
        for path, head in heads.items()
    }


@pytest.mark.parametrize("failure", Failure)
async def test_an_interrupted_import_is_completed_by_the_next(
    a_tree: Callable[..., Any], versions: Callable[..., list[bytes]], failure: Failure
) -> None:
    tree = a_tree()
    tree.document("/one.md")
    tree.document("/many.md", versions(*[f"{number}\n" for number in range(5)]))
    tree.document("/old.md", archive_state=b"true\n")
    tree.document("/late.md", versions("x\n", "y\n", first=4), first=4)
    paths = ["/one.md", "/many.md", "/old.md", "/late.md"]

    async def bring(engine: Engine) -> Report:
        report = Report()
        source = GoTree(tree.root, report)
        try:
            await Import(engine, source, report, by="local:ada", pause=no_pause).run()
        finally:
            source.close()
        return report

    engine = await opened(MemoryBlobs(), "undisturbed")
    assert not (await bring(engine)).refused
    whole = await documents(engine, paths)
    assert [len(versions) for _, versions in whole.values()] == [2, 5, 2, 2]
    await engine.close()

    seen: set[str] = set()
    at = 1
    while True:
        blobs = MemoryBlobs()
        failing = Failing(blobs, failure, 10**9)
        engine = await opened(failing, "first")
        failing.fail_in(at)
        outcome = await until_dead(bring(engine), failing)
        await killed(engine)
        if not failing.failed:
            break
        seen.add(outcome)
        if failure is not Failure.DEATH_LATE:
            await failing.settle()
        engine = await opened(blobs, "second")
        await failing.settle()
        for path, (archived, found) in (await documents(engine, paths)).items():
            expected_archived, expected = whole[path]
            assert found == expected[: len(found)], f"call {at}: {outcome}: {path} is the beginning of what comes"
            assert archived in (False, expected_archived), f"call {at}: {outcome}: {path}"
        report = await bring(engine)
        assert not report.refused, f"call {at}: {outcome}"
        assert await documents(engine, paths) == whole, f"call {at}: {outcome}"
        again = await bring(engine)
        assert (again.versions, again.present) == (0, 4), f"call {at}: {outcome}: nothing comes twice"
        await Sweeper(blobs, engine, now=lambda: NOW, grace=lambda: 0, pause=no_pause).sweep()
        view = await engine.view(exact=True)
        needed = {record.blob for path in paths for record in view.versions(path)}
        assert {key async for key in blobs.list(keys.DOCS)} == needed, f"call {at}: {outcome}"
        judged = await verify(blobs, Expected(history=IDENTITY.history), pause=no_pause)
        assert judged.intact, [finding.text for finding in judged.findings]
        await engine.close()
        at += 1
    assert at > 10, "an import makes calls"
    if failure in SURVIVED:
        assert seen == {"done"}, "one such failure is survived"
