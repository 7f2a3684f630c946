"""An import is one writer among others of a bucket: nothing is doubled, lost or overwritten."""

from __future__ import annotations

import asyncio
import random
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import AsyncExitStack
from typing import Any

import pytest

from demarkus_base.blobs.memory import MemoryBlobs
from demarkus_world.engine.engine import Engine, Identity, Write
from demarkus_world.transfer.gotree import GoTree
from demarkus_world.transfer.importing import Import
from demarkus_world.transfer.report import Report

MakeTree = Callable[..., Any]
Versions = Callable[..., list[bytes]]
Open = Callable[..., Awaitable[Engine]]


@pytest.fixture
async def open_engine() -> AsyncIterator[Open]:
    """Opens engines on one store in memory, as several processes would."""
    blobs = MemoryBlobs()
    async with AsyncExitStack() as stack:

        async def make(seed: int) -> Engine:
            engine = await Engine.open(
                blobs,
                Identity("0a" * 16, "1b" * 16),
                now=lambda: 1_800_000_000_000,
                random=random.Random(seed).randbytes,
            )
            stack.push_async_callback(engine.close)
            return engine

        yield make


async def take(engine: Engine, tree: Any) -> Report:
    report = Report()
    source = GoTree(tree.root, report)

    async def soon(seconds: float) -> None:
        await asyncio.sleep(0.001)

    try:
        await Import(engine, source, report, by="local:ada", pause=soon).run()
    finally:
        source.close()
    return report


async def stored(engine: Engine, path: str) -> list[bytes]:
    view = await engine.view(exact=True)
    return [await engine.stored(record) for record in view.versions(path)]


async def test_two_imports_of_one_tree_make_one_history(
    a_tree: MakeTree, open_engine: Open, versions: Versions
) -> None:
    tree = a_tree()
    documents = {
        f"/{number}.md": tree.document(
            f"/{number}.md", versions(*(f"{number} {n}\n" for n in range(5))), archive_state=b"true\n"
        )
        for number in range(20)
    }
    one, two = await open_engine(1), await open_engine(2)
    first, second = await asyncio.gather(take(one, tree), take(two, tree))
    assert first.refused == second.refused == 0, [*map(str, first.refusals), *map(str, second.refusals)]
    assert first.versions + second.versions == 100
    for path, expected in documents.items():
        assert await stored(two, path) == expected
        head = (await one.view(exact=True)).head(path)
        assert head is not None
        assert head.archived
    assert await one.digest() == await two.digest()


async def test_what_others_write_meanwhile_stays(a_tree: MakeTree, open_engine: Open, versions: Versions) -> None:
    tree = a_tree()
    for number in range(30):
        tree.document(f"/there/{number}.md", versions("one\n", "two\n", "three\n"))
    importing, other = await open_engine(1), await open_engine(2)

    async def write(number: int) -> None:
        for path in (f"/here/{number}.md", f"/there/{number}.md"):
            await other.write(Write(op="publish", path=path, body=b"# Mine\n", by="grace", credential="token"))

    report, *_ = await asyncio.gather(take(importing, tree), *map(write, range(30)))
    await importing.view(exact=True)
    await other.view(exact=True)
    assert await importing.digest() == await other.digest()
    there = [b"one\n", b"two\n", b"three\n"]
    refused = {refusal.path for refusal in report.refusals}
    for number in range(30):
        path = f"/there/{number}.md"
        bodies = [data.rpartition(b"---\n")[2] for data in await stored(other, path)]
        imported = [body for body in bodies if body != b"# Mine\n"]
        assert len(bodies) == len(imported) + 1
        assert imported == there[: len(imported)]
        assert (path in refused) == (imported != there)
        assert len(await stored(other, f"/here/{number}.md")) == 1
