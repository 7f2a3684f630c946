"""What a disk may answer, at every system call of every operation: what the writer is told, and what is there after.

The errors are injected below the driver, so this runs for any user and on any file system.
"""

import asyncio
import contextlib
import errno
import os
import threading
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from demarkus_base.blobs import directory
from demarkus_base.blobs.directory import DirectoryBlobs
from demarkus_base.blobs.port import BlobError
from demarkus_world.engine.engine import (
    Engine,
    EngineError,
    Identity,
    OutcomeUnknown,
    StoreFull,
    Unavailable,
    Write,
)
from demarkus_world.engine.model import Prune
from demarkus_world.engine.sweep import Sweeper

FULL = {errno.ENOSPC, errno.EDQUOT}
CALLS = ("open", "write", "link", "fsync", "mkdir")


class Disk:
    """Stands between the driver and the operating system; call number `at` of one kind fails, once or from then on."""

    def __init__(self) -> None:
        self._guard = threading.Lock()
        self.arm("", 0, 0)

    def arm(self, call: str, at: int, error: int, *, lasts: bool = False) -> None:
        self._call, self._at, self._error, self._lasts = call, at, error, lasts
        self.counted, self.failed = 0, False

    def enter(self, call: str) -> None:
        with self._guard:
            if call != self._call:
                return
            self.counted += 1
            if self.counted == self._at or (self._lasts and self.counted > self._at > 0):
                self.failed = True
                raise OSError(self._error, os.strerror(self._error))

    # What the driver takes for the module `os`.

    def __getattr__(self, name: str) -> Any:
        return getattr(os, name)

    def open(self, path: Any, flags: int, mode: int = 0o777) -> int:
        if flags & os.O_CREAT:
            self.enter("open")
        return os.open(path, flags, mode)

    def write(self, file: int, data: Any) -> int:
        self.enter("write")
        return os.write(file, data)

    def link(self, source: Any, target: Any, **given: Any) -> None:
        self.enter("link")
        os.link(source, target, **given)

    def fsync(self, file: int) -> None:
        self.enter("fsync")
        os.fsync(file)


class Spare:
    """A reserve that can be let go of, and is made anew when a test says that there is space."""

    def __init__(self, disk: Disk) -> None:
        self._disk = disk
        self.held = True
        self.space = False

    async def room(self, size: int, files: int) -> bool:
        return True

    async def release(self) -> None:
        self.held = False
        self._disk.arm("", 0, 0)

    async def remake(self) -> bool:
        self.held = self.space
        return self.held


@pytest.fixture
def disk(monkeypatch: pytest.MonkeyPatch) -> Disk:
    disk = Disk()
    mkdir = Path.mkdir

    def make(path: Path, *arguments: Any, **named: Any) -> None:
        disk.enter("mkdir")
        mkdir(path, *arguments, **named)

    monkeypatch.setattr(directory, "os", disk)
    monkeypatch.setattr(Path, "mkdir", make)
    return disk


class Opened:
    """A store in a folder with its engine and sweeper; three versions of `/a.md` and one of `/old.md` are in it."""

    def __init__(self, blobs: DirectoryBlobs, engine: Engine) -> None:
        self.blobs, self.engine = blobs, engine
        self.sweeper = Sweeper(blobs, engine, now=lambda: 9, grace=lambda: 0, pause=no_pause)

    async def close(self) -> None:
        closing = asyncio.create_task(self.engine.close())
        await asyncio.sleep(0)
        closing.cancel()
        with contextlib.suppress(asyncio.CancelledError):
            await closing
        await self.blobs.close()

    async def state(self) -> Any:
        """All that a reader finds: documents with their versions, and the bytes of each."""
        view = await self.engine.view(exact=True)
        found = {}
        for path in ("/a.md", "/b/c.md", "/old.md", "/z.md"):
            head = view.head(path)
            if head is not None:
                kept = [await self.engine.stored(record) for record in view.versions(path)]
                assert (await self.engine.check_chain(path)).valid
                found[path] = (head.archived, kept)
        return found


async def no_pause(seconds: float) -> None:
    await asyncio.sleep(0)


async def opened(folder: Path, disk: Disk, reserve: Spare | None = None) -> Opened:
    blobs = await DirectoryBlobs.open(folder, fsync=disk.fsync)
    engine = await Engine.open(
        blobs, Identity("a" * 32, "b" * 32), now=lambda: 9, random=os.urandom, pause=no_pause, reserve=reserve
    )
    return Opened(blobs, engine)


def publish(path: str = "/a.md", body: bytes = b"new\n") -> Write:
    return Write(op="publish", path=path, body=body, by="kettle", credential="token")


async def prepared(folder: Path, disk: Disk, reserve: Spare | None = None) -> Opened:
    store = await opened(folder, disk, reserve)
    for number in range(3):
        await store.engine.write(publish(body=b"%d" % number))
    await store.engine.write(publish("/old.md"))
    await store.engine.write(publish("/old.md", b"newer\n"))
    await store.engine.write(Prune(path="/old.md", keep=1, by="local:ann"))
    return store


OPERATIONS: dict[str, Callable[[Opened], Any]] = {
    "publish": lambda store: store.engine.write(publish()),
    "publish below new folders": lambda store: store.engine.write(publish("/b/c.md")),
    "append": lambda store: store.engine.write(
        Write(op="append", path="/a.md", body=b"more\n", expected=3, by="kettle", credential="token")
    ),
    "archive": lambda store: store.engine.write(Write(op="archive", path="/a.md", by="kettle", credential="token")),
    "prune": lambda store: store.engine.write(Prune(path="/a.md", keep=1, by="local:ann")),
    "sweep": lambda store: store.sweeper.sweep(),
}
CONTENT = ("publish", "publish below new folders", "append")


@pytest.mark.parametrize("error", [errno.ENOSPC, errno.EDQUOT, errno.EIO, errno.EROFS, errno.EACCES, errno.EMFILE])
@pytest.mark.parametrize("operation", OPERATIONS)
async def test_every_error_at_every_call_leaves_one_of_two_states(
    tmp_path: Path, disk: Disk, operation: str, error: int
) -> None:
    number = 0
    for call in CALLS:
        at = 0
        while True:
            at, number = at + 1, number + 1
            folder = tmp_path / str(number)
            store = await prepared(folder, disk)
            before = await store.state()
            disk.arm(call, at, error)
            raised: Exception | None = None
            try:
                await OPERATIONS[operation](store)
            except (EngineError, BlobError) as refused:
                raised = refused
            failed, where = disk.failed, f"{call} {at}"
            disk.arm("", 0, 0)
            if failed and raised is None:
                # Only what may pass by itself is tried again.
                assert error in (errno.EIO, errno.EMFILE), f"{where}: {errno.errorcode[error]} was not told"
            if raised is not None:
                assert isinstance(raised, (StoreFull, Unavailable, OutcomeUnknown)), f"{where}: {raised!r}"
                if isinstance(raised, StoreFull):
                    assert error in FULL
            # The process goes on where the error was about this one call; else it says that it can't.
            try:
                mended = await store.engine.write(publish("/mended.md"))
                assert mended.version == 1
                assert store.engine.fault is None
            except EngineError:
                assert store.engine.fault is not None, where
                assert call in ("write", "fsync"), where
            await store.close()
            again = await opened(folder, disk)
            after = await again.state()
            if raised is not None and not isinstance(raised, OutcomeUnknown):
                assert after == before, f"{where}: told {raised!r}, done all the same"
            elif raised is None and operation != "sweep":
                assert after != before, f"{where}: acknowledged and not there"
            assert (await again.engine.write(publish("/last.md"))).version == 1
            await again.close()
            if not failed:
                break
    assert number > len(CALLS)


@pytest.mark.parametrize("operation", OPERATIONS)
async def test_on_a_full_disk_only_content_is_refused(tmp_path: Path, disk: Disk, operation: str) -> None:
    """From the first to the last: without space for anything but what the reserve gives."""
    reserve = Spare(disk)
    store = await prepared(tmp_path, disk, reserve)
    before = await store.state()
    disk.arm("write", 1, errno.ENOSPC, lasts=True)
    if operation in CONTENT:
        with pytest.raises(StoreFull, match=r"^store is full$"):
            await OPERATIONS[operation](store)
        assert store.engine.full
        assert reserve.held  # content does not get it
        disk.arm("", 0, 0)
        await OPERATIONS[operation](store)
        assert not store.engine.full
    else:
        await OPERATIONS[operation](store)
        assert not reserve.held
        with pytest.raises(StoreFull):
            await store.engine.write(publish("/z.md"))
        assert store.engine.full
        reserve.space = True
        await until_taken(store)
        assert reserve.held
    assert await store.state() != before
    await store.close()


async def until_taken(store: Opened) -> None:
    """Space is looked for at most once a second."""
    async with asyncio.timeout(20):
        while True:
            with contextlib.suppress(StoreFull):
                await store.engine.write(publish("/z.md"))
                return
            await asyncio.sleep(0.05)


async def test_writes_that_come_together_with_an_archive_do_not_take_it_down(tmp_path: Path, disk: Disk) -> None:
    """The slot of both finds no space: the content is refused, what may make room is committed alone."""
    reserve = Spare(disk)
    store = await prepared(tmp_path, disk, reserve)
    # The slot, once the two blobs are there.
    disk.arm("link", 3, errno.ENOSPC, lasts=True)
    results = await asyncio.gather(
        store.engine.write(publish("/x.md")),
        store.engine.write(publish("/y.md")),
        store.engine.write(Write(op="archive", path="/a.md", by="kettle", credential="token")),
        return_exceptions=True,
    )
    assert [type(result).__name__ for result in results] == ["StoreFull", "StoreFull", "Written"]
    view = await store.engine.view(exact=True)
    assert (view.head("/x.md"), view.head("/a.md").archived) == (None, True)
    await store.close()


async def test_the_list_of_a_sweep_gets_the_reserve_as_well(tmp_path: Path, disk: Disk) -> None:
    reserve = Spare(disk)
    store = await prepared(tmp_path, disk, reserve)
    disk.arm("link", 2, errno.ENOSPC, lasts=True)  # after the entry
    assert (await store.sweeper.sweep()).deleted == 1
    assert not reserve.held
    await store.close()
