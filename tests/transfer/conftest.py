"""Builders of the transfer tests: trees of Go servers made byte for byte, stores in memory, imports into them."""

from __future__ import annotations

import os
import random
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping, Sequence
from contextlib import AsyncExitStack
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest

from demarkus_base.blobs.memory import MemoryBlobs
from demarkus_world.engine.engine import Engine, Identity
from demarkus_world.transfer.exporting import Export
from demarkus_world.transfer.gotree import GoTree
from demarkus_world.transfer.importing import Import
from demarkus_world.transfer.report import Report
from mark_protocol.versions import encode_version, etag

HISTORY, INCARNATION = "0a" * 16, "1b" * 16
NOW = 1_800_000_000_000
WRITTEN = 1_700_000_000_000
"""When the first version of a built tree was written (ms); each further one is a minute younger."""


def chained(*bodies: str | bytes, metadata: Mapping[str, str] | None = None, first: int = 1) -> list[bytes]:
    """Stored versions of these bodies, linked."""
    kept = {"type": "Document"} if metadata is None else metadata
    stored: list[bytes] = []
    previous = None if first == 1 else "5e" * 32
    for number, body in enumerate(bodies, first):
        stored.append(encode_version(number, previous, kept, body.encode() if isinstance(body, str) else body))
        previous = etag(stored[-1])
    return stored


@dataclass
class Tree:
    """The content root of a Go server, made by hand."""

    root: Path
    clock: int = WRITTEN

    def document(
        self,
        path: str = "/notes/tea.md",
        versions: Sequence[bytes] | None = None,
        *,
        first: int = 1,
        archive_state: bytes | None = None,
        legacy: bool = False,
        pointer: str | None = "",
    ) -> list[bytes]:
        """A document with these stored versions; `pointer` None leaves it out, a text makes it lead there."""
        stored = chained("# Tea\n", "# Tea\n\nBoil.\n", first=first) if versions is None else list(versions)
        name = path.rpartition("/")[2]
        folder = self.root / path[1:]
        folder = folder.parent
        for number, data in enumerate(stored, first):
            self.file(folder / "versions" / (f"{name}.v{number}" if legacy else f"{name}/v{number}"), data)
        if archive_state is not None:
            self.file(folder / "versions" / name / "archive-state", archive_state)
        if pointer is not None:
            newest = first + len(stored) - 1
            own = f"versions/{name}.v{newest}" if legacy else f"versions/{name}/v{newest}"
            folder.mkdir(parents=True, exist_ok=True)
            (folder / name).symlink_to(pointer or own)
        return stored

    def file(self, place: Path | str, data: bytes = b"x") -> Path:
        """A file with a time of its own."""
        file = self.root / place
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_bytes(data)
        os.utime(file, ns=(self.clock * 1_000_000,) * 2)
        self.clock += 60_000
        return file

    def everything(self) -> dict[str, Any]:
        """Every name with its bytes and time, or where it leads; what two equal trees have in common."""
        found: dict[str, Any] = {}
        for folder, below, files in os.walk(self.root):
            for name in [*files, *below]:
                place = Path(folder) / name
                relative = str(place.relative_to(self.root))
                if place.is_symlink():
                    found[relative] = ("link", os.readlink(place))
                elif place.is_file():
                    dated = name != "archive-state"
                    found[relative] = (place.read_bytes(), place.stat().st_mtime_ns if dated else None)
        return found


@dataclass
class Target:
    """A store in memory to import into."""

    engine: Engine
    blobs: MemoryBlobs
    clock: list[int]
    compatible: bool = False
    slept: list[float] = field(default_factory=list)

    async def take(self, source: Any, report: Report, *, into: str = "/") -> Report:
        """Import a source that was made with the report."""
        await Import(self.engine, source, report, by="local:ada", into=into, compatible=self.compatible).run()
        return report

    async def take_tree(self, root: Path, *, into: str = "/") -> Report:
        """Import the tree of a Go server."""
        report = Report()
        tree = GoTree(root, report)
        try:
            return await self.take(tree, report, into=into)
        finally:
            tree.close()

    async def export(self, root: Path) -> Report:
        """Export everything."""
        report = Report()
        work = Export(self.engine, root, report)
        try:
            await work.run()
        finally:
            work.close()
        return report

    async def stored(self, path: str) -> list[bytes]:
        """The stored bytes of every retained version."""
        view = await self.engine.view(exact=True)
        return [await self.engine.stored(record) for record in view.versions(path)]

    async def archived(self, path: str) -> bool | None:
        """Whether a document is archived; None if there is none."""
        head = (await self.engine.view(exact=True)).head(path)
        return None if head is None else head.archived

    async def paths(self) -> list[str]:
        """All documents."""
        view = await self.engine.view(exact=True)
        found, folders = [], [""]
        while folders:
            folder = folders.pop()
            for child in view.children(folder or "/"):
                place = f"{folder}/{child.name}"
                if child.head is None:
                    folders.append(place)
                else:
                    found.append(place)
        return sorted(found)


@pytest.fixture
def a_tree(tmp_path: Path) -> Callable[..., Tree]:
    """Makes empty trees."""

    def make(name: str = "root") -> Tree:
        (tmp_path / name).mkdir()
        return Tree(tmp_path / name)

    return make


@pytest.fixture
async def a_target() -> AsyncIterator[Callable[..., Awaitable[Target]]]:
    """Makes empty stores in memory."""
    async with AsyncExitStack() as stack:

        async def make(*, compatible: bool = False, **options: Any) -> Target:
            clock, blobs = [NOW], MemoryBlobs()
            engine = await Engine.open(
                blobs,
                Identity(HISTORY, INCARNATION),
                now=lambda: clock[0],
                random=random.Random(11).randbytes,
                compatible=compatible,
                **options,
            )
            stack.push_async_callback(engine.close)
            return Target(engine, blobs, clock, compatible)

        yield make


@pytest.fixture
def versions() -> Callable[..., list[bytes]]:
    """`versions(body, body, ...)`: stored versions of these bodies, linked."""
    return chained
