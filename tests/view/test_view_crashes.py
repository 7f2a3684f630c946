"""A view whose process is killed is whole: at a slot's end, with all of it or nothing. A full disk costs no more."""

import contextlib
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import pytest

from demarkus_base.blobs.memory import MemoryBlobs
from demarkus_base.tlog.tree import Edge
from demarkus_world.engine.engine import EngineError
from demarkus_world.view.local import LocalView
from tests.view.conftest import a_write, until
from tests.view.crashing import IDENTITY, write


def expected(slots: int) -> str:
    view, edge = LocalView(None, IDENTITY, boot=""), Edge()
    for number in range(slots):
        edge = write(view, number, edge)
    return view.digest()


def start(folder: Path, slots: int, *more: str) -> "subprocess.Popen[str]":
    command = [sys.executable, "-m", "tests.view.crashing", str(folder), str(slots), *more]
    return subprocess.Popen(command, stdout=subprocess.PIPE, text=True)


def reopened(folder: Path) -> LocalView:
    return LocalView(folder, IDENTITY, boot="boot")


def test_killed_inside_a_transaction_nothing_of_it_is_there(tmp_path: Path) -> None:
    with start(tmp_path, 5, "in") as process:
        assert process.stdout is not None
        while "inside" not in process.stdout.readline():
            pass
        process.kill()
    view = reopened(tmp_path)
    assert view.sequence == 15
    assert view.digest() == expected(5)
    write(view, 5, view.tip.edge)
    assert view.digest() == expected(6)
    view.close()


def test_killed_at_any_moment_what_was_told_is_there_and_whole(tmp_path: Path) -> None:
    for round_number in range(4):
        with start(tmp_path, 100_000) as process:
            assert process.stdout is not None
            told = int(process.stdout.readline())
            deadline = time.monotonic() + 0.05 + 0.07 * round_number
            while time.monotonic() < deadline:
                told = int(process.stdout.readline())
            process.kill()
        view = reopened(tmp_path)
        assert view.sequence >= told
        assert view.sequence % 3 == 0
        assert view.digest() == expected(view.sequence // 3)
        view.close()


async def test_a_disk_without_room_for_the_view_loses_nothing(
    open_world: Any, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    """The slot is in the log; the process says so and starts anew, in memory while the folder is of no use."""
    blobs = MemoryBlobs()
    engine = await open_world(blobs, view=tmp_path, key=None)
    await engine.write(a_write())
    rows = engine._log.view._rows
    (pages,) = rows.execute("PRAGMA page_count").fetchone()
    rows.execute(f"PRAGMA max_page_count = {pages}")
    written = 1
    with contextlib.suppress(EngineError):
        while written < 2000:
            await engine.write(a_write(path=f"/page-{written}.md", metadata={"note": "x" * 500}))
            written += 1
    await until(lambda: engine.fault, "the fault")
    assert "the local view can't take in" in str(engine.fault)
    await engine.close()
    again = await open_world(blobs, view=tmp_path, key=None)
    assert again.statistics.sequence in (written, written + 1)
    assert (await again.write(a_write(body=b"on"))).version == 2
