"""Folders of the directory driver: made when needed, gone with their last object, never the reason of a loss."""

import asyncio
import os
import random
from pathlib import Path
from typing import Any

import pytest

from demarkus_base.blobs.directory import DirectoryBlobs
from demarkus_base.blobs.port import Exists, Stopped


def folders(root: Path) -> list[str]:
    return sorted(str(path.relative_to(root)) for path in root.rglob("*") if path.is_dir() and path.name != "tmp")


async def test_a_folder_goes_with_its_last_object(tmp_path: Path) -> None:
    blobs = await DirectoryBlobs.open(tmp_path)
    for key in ("docs/a/b/c.md/v1", "docs/a/b/c.md/v2", "docs/a/d.md/v1", "log/1"):
        await blobs.create(key, b"x")
    await blobs.delete("docs/a/b/c.md/v1")
    assert folders(tmp_path) == ["docs", "docs/a", "docs/a/b", "docs/a/b/c.md", "docs/a/d.md", "log"]
    await blobs.delete("docs/a/b/c.md/v2")
    assert folders(tmp_path) == ["docs", "docs/a", "docs/a/d.md", "log"]
    await blobs.delete("docs/a/d.md/v1")
    assert folders(tmp_path) == ["log"]
    await blobs.create("docs/a/b/c.md/v3", b"again")
    assert await blobs.get("docs/a/b/c.md/v3") == b"again"
    await blobs.close()
    assert folders(tmp_path) == ["docs", "docs/a", "docs/a/b", "docs/a/b/c.md", "log"]


async def test_a_folder_that_is_made_anew_is_synced_anew(tmp_path: Path) -> None:
    synced: list[str] = []

    def fsync(file: int) -> None:
        synced.append(os.path.relpath(os.readlink(f"/proc/self/fd/{file}"), tmp_path))
        os.fsync(file)

    blobs = await DirectoryBlobs.open(tmp_path, fsync=fsync)
    await blobs.create("docs/a.md/v1", b"x")
    await blobs.delete("docs/a.md/v1")
    synced.clear()
    await blobs.create("docs/a.md/v1", b"x")
    await blobs.close()
    assert synced[1:] == [".", "docs", "docs/a.md"]


async def test_a_folder_that_goes_while_an_object_is_on_its_way_is_made_again(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    blobs = await DirectoryBlobs.open(tmp_path)
    await blobs.create("docs/a.md/v1", b"x")
    link = os.link
    interfered = False

    def between(source: Any, target: Any, **given: Any) -> None:
        nonlocal interfered
        if not interfered:
            interfered = True
            blobs._delete(tmp_path / "docs/a.md/v1")
            assert folders(tmp_path) == []
        link(source, target, **given)

    monkeypatch.setattr(os, "link", between)
    await blobs.create("docs/a.md/v2", b"y")
    assert interfered
    assert await blobs.get("docs/a.md/v2") == b"y"
    await blobs.close()


@pytest.mark.parametrize("fails", [False, True])
async def test_a_folder_that_another_call_made_anew_is_synced_before_the_answer(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, fails: bool
) -> None:
    """The other call has made the folder and not synced it when the object gets its name in it."""
    synced: list[str] = []
    failing = False

    def fsync(file: int) -> None:
        name = os.path.relpath(os.readlink(f"/proc/self/fd/{file}"), tmp_path)
        if failing and name == "docs":
            raise OSError(5, "Input/output error")
        synced.append(name)
        os.fsync(file)

    blobs = await DirectoryBlobs.open(tmp_path, fsync=fsync)
    for key in ("docs/a.md/v1", "docs/b.md/v1"):
        await blobs.create(key, b"x")
    make_durable = blobs._make_durable
    interfered = False

    def then_interfere(directory: Path, **given: Any) -> None:
        nonlocal interfered, failing
        make_durable(directory, **given)
        if directory.name == "a.md" and not interfered:
            interfered = True
            blobs._delete(tmp_path / "docs/a.md/v1")
            (tmp_path / "docs/a.md").mkdir()
            synced.clear()
            failing = fails

    monkeypatch.setattr(blobs, "_make_durable", then_interfere)
    if fails:
        with pytest.raises(Stopped) as stopped:
            await blobs.create("docs/a.md/v2", b"y")
        assert stopped.value.ambiguous
    else:
        await blobs.create("docs/a.md/v2", b"y")
        assert synced == ["docs/a.md", ".", "docs"], "its own folder, then the names of the folders on the way"
    assert interfered
    await blobs.close()


async def test_many_come_and_go_at_once(tmp_path: Path) -> None:
    blobs = await DirectoryBlobs.open(tmp_path, fsync=lambda file: None)
    chance = random.Random(1)
    there: dict[str, bytes] = {}

    async def work(number: int) -> None:
        for turn in range(60):
            key = f"docs/{chance.choice('ab')}/{chance.choice('cd')}/{number}-{turn}"
            await blobs.create(key, key.encode())
            with pytest.raises(Exists):
                await blobs.create(key, b"other")
            if chance.random() < 0.9:
                await blobs.delete(key)
            else:
                there[key] = key.encode()

    await asyncio.gather(*(work(number) for number in range(12)))
    assert {key: await blobs.get(key) async for key in blobs.list("")} == there
    for key in there:
        await blobs.delete(key)
    await blobs.close()
    assert folders(tmp_path) == []
