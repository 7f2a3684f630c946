"""Trees made and damaged at random: an import never fails, a second one adds nothing, what went in comes out again."""

from __future__ import annotations

import contextlib
import os
import random
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

MakeTree = Callable[..., Any]
MakeTarget = Callable[..., Any]
Versions = Callable[..., list[bytes]]


def grow(tree: Any, versions: Versions, rng: random.Random) -> None:
    """Some documents, of all layouts and states, in places that get into each other's way."""
    for number in range(rng.randint(1, 8)):
        folders = [rng.choice(["a", "b", "versions", ".x", "c d", "é", "v2", "a.md"]) for _ in range(rng.randint(0, 3))]
        name = rng.choice(["t.md", "u.md", "index.md", "n.txt", ".h.md", "v1", "a.md"])
        first = rng.choice([1, 1, 1, 2, 5])
        bodies = [f"{number} {count}\n" for count in range(rng.randint(1, 4))]
        with contextlib.suppress(FileExistsError, NotADirectoryError, IsADirectoryError):
            tree.document(
                "/" + "/".join([*folders, name]),
                versions(*bodies, first=first),
                first=first,
                legacy=rng.random() < 0.3,
                archive_state=rng.choice([None, None, b"true\n", b"false\n", b"x"]),
                pointer=rng.choice(["", "", "", "", None, "versions/x/v1", "/etc/passwd"]),
            )


def damage(place: Path, rng: random.Random) -> None:
    """Something that a disk, a person or somebody with bad intentions does to a file."""
    if place.is_dir() and not place.is_symlink():
        place.chmod(0o500)
        return
    match rng.randint(0, 5):
        case 0:
            place.unlink()
        case 1:
            place.unlink()
            place.write_bytes(b"garbage")
        case 2:
            data = place.read_bytes() if place.is_file() else b""
            place.unlink()
            place.write_bytes(data[: len(data) // 2])
        case 3:
            place.unlink()
            place.mkdir()
        case 4:
            place.unlink()
            place.symlink_to("/etc")
        case 5:
            place.unlink()
            os.mkfifo(place)


@pytest.mark.parametrize("seed", range(40))
async def test_whatever_is_there_what_comes_over_is_whole(
    a_tree: MakeTree, a_target: MakeTarget, versions: Versions, tmp_path: Path, seed: int
) -> None:
    rng = random.Random(seed)
    tree, target, again = a_tree(), await a_target(), await a_target()
    grow(tree, versions, rng)
    places = sorted(tree.root.rglob("*"))
    for place in rng.sample(places, min(len(places), rng.randint(0, 3))):
        if place.exists() or place.is_symlink():
            damage(place, rng)
    first = await target.take_tree(tree.root)
    sequence = target.engine.statistics.sequence
    second = await target.take_tree(tree.root)
    assert (second.versions, target.engine.statistics.sequence) == (0, sequence)
    assert sorted(map(str, second.refusals)) == sorted(map(str, first.refusals))
    out = await target.export(tmp_path / "out")
    back = await again.take_tree(tmp_path / "out")
    assert (out.refused, back.refused) == (0, 0), [*map(str, out.refusals), *map(str, back.refusals)]
    assert await again.paths() == await target.paths()
    for path in await target.paths():
        assert await again.stored(path) == await target.stored(path)
        assert await again.archived(path) == await target.archived(path)
        assert (await target.engine.check_chain(path)).valid
