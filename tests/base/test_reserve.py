"""Space put by: held, let go of, made anew, and found again by the next process."""

from pathlib import Path

import pytest

from demarkus_base.reserve import PIECES, Reserve

SIZE = PIECES * 4096


def taken(folder: Path) -> int:
    """Bytes that the pieces have on the disk, not only in their names."""
    return sum(piece.stat().st_blocks * 512 for piece in folder.iterdir()) if folder.is_dir() else 0


async def test_it_takes_space_and_files_and_gives_both_back(tmp_path: Path) -> None:
    reserve = await Reserve.open(tmp_path / "reserve", size=SIZE)
    assert reserve.held
    assert taken(tmp_path / "reserve") >= SIZE
    assert len(list((tmp_path / "reserve").iterdir())) == PIECES
    await reserve.release()
    assert not reserve.held
    assert taken(tmp_path / "reserve") == 0
    assert await reserve.remake()
    assert reserve.held
    assert taken(tmp_path / "reserve") >= SIZE


@pytest.mark.parametrize("damage", ["missing", "short", "sparse"])
async def test_the_next_process_makes_what_is_missing(tmp_path: Path, damage: str) -> None:
    await Reserve.open(tmp_path / "reserve", size=SIZE)
    piece = tmp_path / "reserve" / "3"
    piece.unlink()
    if damage != "missing":
        with piece.open("wb") as file:
            file.truncate(4096 if damage == "sparse" else 5)
    again = await Reserve.open(tmp_path / "reserve", size=SIZE)
    assert again.held
    assert taken(tmp_path / "reserve") >= SIZE


async def test_what_can_not_be_had_whole_is_not_taken_at_all(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    reserve = await Reserve.open(tmp_path / "reserve", size=SIZE)
    await reserve.release()
    monkeypatch.setattr(Reserve, "_room", lambda *_: False)
    assert not await reserve.remake()
    assert (reserve.held, taken(tmp_path / "reserve")) == (False, 0)


async def test_room_is_what_the_volume_has_left(tmp_path: Path) -> None:
    reserve = await Reserve.open(tmp_path / "reserve", size=SIZE)
    assert await reserve.room(1, 1)
    assert not await reserve.room(1 << 62, 1)
