"""Connections for reading beside the changes: kept while nobody uses them, never two users of one, none left open."""

import asyncio
import sqlite3
from pathlib import Path
from typing import Any

import pytest

from demarkus_base.blobs.memory import MemoryBlobs
from demarkus_world.engine.model import Identity
from demarkus_world.view.local import IDLE, LocalView
from demarkus_world.view.search import Query
from tests.view.conftest import a_write

COUNT = "SELECT count(*) FROM document"


@pytest.fixture
def view(tmp_path: Path) -> LocalView:
    return LocalView(tmp_path, Identity("0a" * 16, "1b" * 16), boot="this one")


def test_a_reader_is_used_again_but_never_by_two(view: LocalView) -> None:
    with view.reader() as first, view.reader() as second:
        assert first is not second
    with view.reader() as one, view.reader() as two:
        assert {one, two} == {first, second}
    view.close()


def test_not_more_are_kept_than_are_worth_it_and_none_behind_the_end(view: LocalView) -> None:
    readers = [view.reader() for _ in range(IDLE + 2)]
    rows = [reader.__enter__() for reader in readers]
    for reader in readers[1:]:
        reader.__exit__(None, None, None)
    still_open = [row for row in rows if _open(row)]
    assert len(still_open) == IDLE + 1
    view.close()
    assert [row for row in rows if _open(row)] == [rows[0]]
    readers[0].__exit__(None, None, None)
    assert not _open(rows[0])


def test_a_reader_that_failed_is_not_used_again(view: LocalView) -> None:
    with pytest.raises(ZeroDivisionError), view.reader() as rows:
        _ = 1 / 0
    assert not _open(rows)
    view.close()


async def test_searches_at_once_see_what_was_written_before_them(open_world: Any, tmp_path: Path) -> None:
    engine = await open_world(MemoryBlobs(), view=tmp_path, key=None)
    for number in range(20):
        await engine.write(a_write(path=f"/{number}.md", body=b"# Tea\n"))
        answers = await asyncio.gather(
            *(engine.lookup(Query(text="tea", limit=100), lambda path: True) for _ in range(5))
        )
        assert [len(found) for _, found in answers] == [number + 1] * 5


def _open(rows: sqlite3.Connection) -> bool:
    try:
        rows.execute(COUNT)
    except sqlite3.ProgrammingError:
        return False
    return True


async def test_a_head_that_was_asked_for_is_never_an_old_one(open_world: Any) -> None:
    engine, ahead = await open_world(MemoryBlobs(), key=None), await open_world(MemoryBlobs(), key=None)
    view = engine._log.view
    assert view.head("/a.md") is None
    await engine.write(a_write())
    assert view.head("/a.md").record.version == 1
    await engine.write(a_write("archive"))
    assert view.head("/a.md").archived
    await engine.write(a_write("unarchive"))
    assert not view.head("/a.md").archived
    for op in ("publish", "archive", "unarchive"):
        await ahead.write(a_write(op))
    await ahead.write(a_write(body=b"second"))
    following = ahead.recent(3)[0]

    def taken_in_and_back_out() -> None:
        with view.slot():
            view.apply(following, None)
            assert view.head("/a.md").record.version == 2
            raise RuntimeError

    with pytest.raises(RuntimeError):
        taken_in_and_back_out()
    assert view.head("/a.md").record.version == 1
    view.forget()
    assert view.head("/a.md") is None
