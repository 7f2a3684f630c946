"""The directory driver: what it does to the file system, and what it does when that fails."""

import asyncio
import errno
import os
import shutil
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

from demarkus_base.blobs.directory import DirectoryBlobs
from demarkus_base.blobs.port import Exists, Integrity, Permanent, Stopped, StoreFull, StoreLocked


def failing_after(calls: int, code: int) -> Callable[[int], None]:
    """An fsync that works `calls` times, fails once, and would claim success from then on, as Linux does."""
    done = iter([*[False] * calls, True])

    def fsync(file: int) -> None:
        if next(done, False):
            raise OSError(code, os.strerror(code))
        os.fsync(file)

    return fsync


async def fsyncs_of_start(root: Path) -> int:
    count = 0

    def fsync(file: int) -> None:
        nonlocal count
        count += 1

    await (await DirectoryBlobs.open(root, fsync=fsync)).close()
    return count


def files(root: Path) -> list[str]:
    return sorted(str(path.relative_to(root)) for path in root.rglob("*") if path.is_file())


async def test_objects_are_plain_files_and_nothing_is_left_in_tmp(tmp_path: Path) -> None:
    blobs = await DirectoryBlobs.open(tmp_path)
    await blobs.create("docs/a.md/v1", b"text\n")
    with pytest.raises(Exists):
        await blobs.create("docs/a.md/v1", b"other\n")
    await blobs.close()
    assert files(tmp_path) == ["docs/a.md/v1", "lock"]
    assert (tmp_path / "docs/a.md/v1").read_bytes() == b"text\n"
    assert (tmp_path / "docs/a.md/v1").stat().st_mode & 0o777 == 0o644


async def test_every_step_is_on_the_disk_before_the_next(tmp_path: Path) -> None:
    """The file, each missing parent's parent, the new name: in this order."""
    synced: list[str] = []

    def fsync(file: int) -> None:
        name = os.readlink(f"/proc/self/fd/{file}")
        synced.append("file" if os.path.isfile(name) else os.path.relpath(name, tmp_path))

    blobs = await DirectoryBlobs.open(tmp_path, fsync=fsync)
    synced.clear()
    await blobs.create("docs/a/b.md/v1", b"1")
    assert synced == ["file", ".", "docs", "docs/a", "docs/a/b.md"]
    synced.clear()
    await blobs.create("docs/a/b.md/v2", b"2")
    assert synced == ["file", "docs/a/b.md"]
    await blobs.close()

    again = await DirectoryBlobs.open(tmp_path, fsync=fsync)
    synced.clear()
    await again.create("docs/a/b.md/v3", b"3")
    assert synced == ["file", ".", "docs", "docs/a", "docs/a/b.md"], "an earlier process may have died in between"
    await again.close()


async def test_a_failed_fsync_of_the_file_is_final_and_leaves_no_name(tmp_path: Path) -> None:
    start = await fsyncs_of_start(tmp_path)
    blobs = await DirectoryBlobs.open(tmp_path, fsync=failing_after(start, errno.EIO))
    with pytest.raises(Stopped) as failed:
        await blobs.create("a", b"1")
    assert not failed.value.ambiguous
    with pytest.raises(Stopped, match="opened anew"):
        await blobs.create("b", b"2")
    assert files(tmp_path) == ["lock"]
    await blobs.close()


async def test_a_failed_fsync_of_the_name_is_final_and_ambiguous(tmp_path: Path) -> None:
    start = await fsyncs_of_start(tmp_path)
    blobs = await DirectoryBlobs.open(tmp_path, fsync=failing_after(start + 1, errno.EIO))
    with pytest.raises(Stopped) as failed:
        await blobs.create("a", b"1")
    assert failed.value.ambiguous
    with pytest.raises(Stopped) as refused:
        await blobs.delete("a")
    assert not refused.value.ambiguous
    await blobs.close()


async def test_no_space_is_store_full_and_passes(tmp_path: Path) -> None:
    start = await fsyncs_of_start(tmp_path)
    blobs = await DirectoryBlobs.open(tmp_path, fsync=failing_after(start, errno.ENOSPC))
    with pytest.raises(StoreFull, match="store is full") as failed:
        await blobs.create("a", b"1")
    assert not failed.value.ambiguous
    await blobs.create("a", b"2")
    assert await blobs.get("a") == b"2"
    await blobs.close()


async def test_a_second_opener_in_this_process_is_refused(tmp_path: Path) -> None:
    blobs = await DirectoryBlobs.open(tmp_path)
    with pytest.raises(StoreLocked, match=f"another process .pid {os.getpid()}.*stop that process first"):
        await DirectoryBlobs.open(tmp_path)
    await blobs.close()
    await (await DirectoryBlobs.open(tmp_path)).close()


HOLD = """
import asyncio, sys
from pathlib import Path
from demarkus_base.blobs.directory import DirectoryBlobs
async def main():
    await DirectoryBlobs.open(Path(sys.argv[1]))
    print("held", flush=True)
    sys.stdin.read()
asyncio.run(main())
"""


async def test_a_killed_writer_leaves_no_lock_behind(tmp_path: Path) -> None:
    holder = await asyncio.create_subprocess_exec(
        sys.executable, "-c", HOLD, str(tmp_path), stdin=asyncio.subprocess.PIPE, stdout=asyncio.subprocess.PIPE
    )
    assert holder.stdout is not None
    assert (await holder.stdout.readline()).strip() == b"held"
    with pytest.raises(StoreLocked, match=f"pid {holder.pid}"):
        await DirectoryBlobs.open(tmp_path)
    holder.kill()
    await holder.communicate()
    await (await DirectoryBlobs.open(tmp_path)).close()


async def test_a_38_leftovers_of_a_crash_are_cleaned(tmp_path: Path) -> None:
    (tmp_path / "tmp").mkdir()
    (tmp_path / "tmp" / "dead-7").write_bytes(b"half")
    blobs = await DirectoryBlobs.open(tmp_path)
    assert list((tmp_path / "tmp").iterdir()) == []
    await blobs.close()


async def test_names_of_the_driver_and_of_mkfs_are_not_objects(tmp_path: Path) -> None:
    (tmp_path / "lost+found").mkdir()
    (tmp_path / "lost+found" / "#12").write_bytes(b"x")
    blobs = await DirectoryBlobs.open(tmp_path)
    assert [key async for key in blobs.list("")] == []
    for key in ("lock", "tmp/x", "lost+found/#12"):
        with pytest.raises(ValueError, match="itself"):
            await blobs.get(key)
    await blobs.close()


async def test_a_planted_link_is_not_followed(tmp_path: Path) -> None:
    (tmp_path / "secret").write_bytes(b"secret")
    blobs = await DirectoryBlobs.open(tmp_path / "store")
    (tmp_path / "store" / "log").symlink_to(tmp_path / "secret")
    with pytest.raises(Integrity, match="symbolic link"):
        await blobs.get("log")
    await blobs.close()


async def test_a_root_that_is_a_file_is_refused_by_name(tmp_path: Path) -> None:
    (tmp_path / "store").write_bytes(b"")
    with pytest.raises(Permanent, match="store can't hold a store"):
        await DirectoryBlobs.open(tmp_path / "store")


def no_links(source: Path, target: Path) -> None:
    raise PermissionError(errno.EPERM, "Operation not permitted")


@pytest.mark.parametrize("link", [no_links, shutil.copyfile])
async def test_a_file_system_without_working_links_is_refused(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, link: Callable[[Path, Path], object]
) -> None:
    monkeypatch.setattr(os, "link", link)
    with pytest.raises(Permanent, match="can't hold a store"):
        await DirectoryBlobs.open(tmp_path)
    monkeypatch.undo()
    await (await DirectoryBlobs.open(tmp_path)).close()


async def test_a_file_system_without_a_lock_is_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("fcntl.flock", lambda *_: None)
    with pytest.raises(Permanent, match="second writer"):
        await DirectoryBlobs.open(tmp_path)
