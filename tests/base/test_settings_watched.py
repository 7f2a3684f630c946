"""Configuration watched by content: what reloads, what keeps the last good value, and what it says."""

import hashlib
import logging
from pathlib import Path

import pytest

from demarkus_base.settings import FILE_LIMIT, SettingsError, Watched, content_digest


def number(contents: dict[str, bytes]) -> int:
    (content,) = contents.values()
    return int(content)


def names(contents: dict[str, bytes]) -> list[str]:
    return [Path(name).name for name in contents]


def sha256(content: bytes) -> str:
    return hashlib.sha256(content).hexdigest()


async def test_a_new_content_is_loaded_and_announced(tmp_path: Path) -> None:
    file = tmp_path / "n"
    file.write_bytes(b"1")
    seen: list[int] = []
    watched = Watched([file], number, on_change=seen.append)
    assert (watched.value, watched.digest) == (1, sha256(b"1"))
    assert not await watched.check()
    file.write_bytes(b"2")
    assert await watched.check()
    assert (watched.value, watched.digest, seen) == (2, sha256(b"2"), [2])


async def test_the_swap_of_a_symbolic_link_is_seen(tmp_path: Path) -> None:
    """As the kubelet does it: ..data points to a folder, the file's name to a name in ..data."""
    for version in ("1", "2"):
        (tmp_path / f"..{version}").mkdir()
        (tmp_path / f"..{version}" / "n").write_text(version)
    (tmp_path / "..data").symlink_to("..1")
    (tmp_path / "n").symlink_to("..data/n")
    watched = Watched([tmp_path / "n"], number)
    (tmp_path / "..next").symlink_to("..2")
    (tmp_path / "..next").rename(tmp_path / "..data")
    assert await watched.check()
    assert watched.value == 2


async def test_a_file_touched_or_renamed_over_with_the_same_content_is_no_change(tmp_path: Path) -> None:
    file = tmp_path / "n"
    file.write_bytes(b"1")
    watched = Watched([file], number)
    (tmp_path / "m").write_bytes(b"1")
    (tmp_path / "m").rename(file)
    assert not await watched.check()


@pytest.mark.parametrize("broken", ["no number", None])
async def test_what_is_broken_later_keeps_the_last_good_value_and_says_so(
    tmp_path: Path, caplog: pytest.LogCaptureFixture, broken: str | None
) -> None:
    file = tmp_path / "n"
    file.write_bytes(b"1")
    watched = Watched([file], number, what="numbers")
    if broken is None:
        file.unlink()
    else:
        file.write_text(broken)
    for _ in range(3):
        assert not await watched.check()
    assert (watched.value, watched.digest) == (1, sha256(b"1"))
    assert watched.error is not None
    assert str(file) in watched.error
    errors = [line.getMessage() for line in caplog.records if line.levelno == logging.ERROR]
    assert errors == [f"numbers not reloaded, the last good one stays: {watched.error}"], "said once, not every second"
    file.write_bytes(b"1")
    await watched.check()
    assert watched.error is None
    file.write_bytes(b"3")
    await watched.check()
    assert watched.value == 3


@pytest.mark.parametrize("content", [None, b"no number", b" " * FILE_LIMIT + b"1"])
def test_what_is_broken_at_the_start_is_an_error_that_names_the_file(tmp_path: Path, content: bytes | None) -> None:
    file = tmp_path / "n"
    if content is not None:
        file.write_bytes(content)
    with pytest.raises(SettingsError, match=str(file)):
        Watched([file], number)


async def test_a_bug_in_the_loader_is_logged_with_its_trace_and_changes_nothing(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    def load(contents: dict[str, bytes]) -> int:
        if b"2" in contents.values():
            raise KeyError("oops")
        return number(contents)

    file = tmp_path / "n"
    file.write_bytes(b"1")
    watched = Watched([file], load)
    file.write_bytes(b"2")
    assert not await watched.check()
    assert watched.value == 1
    assert any(line.exc_info for line in caplog.records)


async def test_a_directory_stands_for_its_visible_files(tmp_path: Path) -> None:
    for name in ("b", "a", "..hidden"):
        (tmp_path / name).write_bytes(name.encode())
    (tmp_path / "folder").mkdir()
    watched = Watched([tmp_path], names)
    assert watched.value == ["a", "b"]
    (tmp_path / "c").write_bytes(b"c")
    (tmp_path / "a").unlink()
    assert await watched.check()
    assert watched.value == ["b", "c"]
    assert watched.digest == content_digest([b"b", b"c"])


def test_the_digest_of_several_files_is_the_digest_of_their_digests() -> None:
    assert content_digest([b"x"]) == sha256(b"x")
    assert content_digest([b"x", b"y"]) == sha256(f"{sha256(b'x')}\n{sha256(b'y')}\n".encode())
