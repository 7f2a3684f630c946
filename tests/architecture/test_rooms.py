"""The tree is the architecture: imports point one way, pure rooms stay pure, maps name every file."""

from __future__ import annotations

import ast
import re
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
ROOMS = {
    "mark_protocol": ROOT / "mark" / "mark_protocol",
    "demarkus_base": ROOT / "base" / "demarkus_base",
    "demarkus_world": ROOT / "world_image" / "demarkus_world",
    "demarkus_broker": ROOT / "broker_image" / "demarkus_broker",
    "demarkus_operator": ROOT / "operator" / "demarkus_operator",
}
SHARED = {"mark_protocol", "demarkus_base"}
MAY_IMPORT = {
    "mark_protocol": set(),
    "demarkus_base": set(),
    "demarkus_world": SHARED,
    "demarkus_broker": SHARED,
    "demarkus_operator": SHARED,
}
# Decisions are functions of values: what touches the world comes in as a parameter.
PURE = [
    *sorted(ROOMS["mark_protocol"].glob("*.py")),
    *sorted((ROOMS["demarkus_operator"] / "plan").rglob("*.py")),
    *sorted((ROOMS["demarkus_operator"] / "api").rglob("*.py")),
    ROOMS["demarkus_world"] / "engine" / "preconditions.py",
    ROOMS["demarkus_world"] / "authority.py",
    ROOMS["demarkus_world"] / "transfer" / "runs.py",
    ROOMS["demarkus_broker"] / "identity.py",
    ROOMS["demarkus_broker"] / "limits.py",
    ROOMS["demarkus_broker"] / "state" / "names.py",
    ROOMS["demarkus_broker"] / "state" / "rotation.py",
    *(
        ROOMS["demarkus_broker"] / "oauth" / f"{name}.py"
        for name in [
            "errors",
            "parameters",
            "redirects",
            "pkce",
            "resources",
            "scopes",
            "clients",
            "registration",
            "requests",
            "tokens",
            "metadata",
            "seals",
            "id_tokens",
            "pages",
            "pace",
        ]
    ),
]
IMPURE = {"asyncio", "http", "kubernetes", "random", "secrets", "socket", "subprocess", "tempfile", "threading", "time"}


def imported(path: Path) -> Iterator[str]:
    """The top-level names of the modules a file imports."""
    for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
        if isinstance(node, ast.Import):
            yield from (alias.name.partition(".")[0] for alias in node.names)
        elif isinstance(node, ast.ImportFrom) and node.level == 0 and node.module:
            yield node.module.partition(".")[0]


@pytest.mark.parametrize("room", ROOMS)
def test_imports_point_one_way(room: str) -> None:
    """The shared rooms know nobody; the three services know only the shared rooms."""
    forbidden = set(ROOMS) - MAY_IMPORT[room] - {room}
    found = {
        f"{path.relative_to(ROOT)} imports {name}"
        for path in ROOMS[room].rglob("*.py")
        for name in imported(path)
        if name in forbidden
    }
    assert not found


@pytest.mark.parametrize("path", PURE, ids=lambda p: str(p.relative_to(ROOT)))
def test_pure_files_touch_no_socket_clock_or_chance(path: Path) -> None:
    """Sockets, clocks, threads and randomness belong to the edges."""
    assert not set(imported(path)) & IMPURE


@pytest.mark.parametrize("package", [p for room in ROOMS.values() for p in room.rglob("__init__.py")], ids=str)
def test_a_package_docstring_names_every_file_of_its_room(package: Path) -> None:
    """Whoever opens a room finds its map on the door, and the map is complete."""
    text = ast.get_docstring(ast.parse(package.read_text(encoding="utf-8"))) or ""
    here = {p.stem for p in package.parent.glob("*.py")} | {p.parent.name for p in package.parent.glob("*/__init__.py")}
    missing = sorted(name for name in here - {"__init__", "__main__"} if not re.search(rf"\b{name}\b", text))
    assert text, "the package has no docstring"
    assert not missing, f"not on the map: {missing}"


def test_operator_folder_is_not_a_package() -> None:
    """An `operator` package would shadow the standard library's module."""
    assert not (ROOT / "operator" / "__init__.py").exists()


def tracked(*patterns: str) -> list[Path]:
    """The files git tracks, as a fresh clone would have them."""
    listing = subprocess.run(
        ["git", "ls-files", "-z", *patterns], cwd=ROOT, capture_output=True, check=True, text=True
    ).stdout
    return [ROOT / name for name in listing.split("\0") if name and (ROOT / name).is_file()]


def test_lock_files_carry_hashes_and_no_addresses() -> None:
    """Every pinned package has hashes, and no index is named: the reader's own settings decide."""
    locks = tracked("requirements/*.txt")
    assert {lock.stem for lock in locks} == {"world", "broker", "operator", "dev"}
    for lock in locks:
        text = lock.read_text(encoding="utf-8")
        assert "://" not in text
        pins = re.findall(r"^[a-z0-9_.\[\]-]+==\S+[^\n]*\\$", text, re.MULTILINE)
        assert len(pins) == len(re.findall(r"^[a-z0-9_.\[\]-]+==", text, re.MULTILINE)) > 10


def test_no_tracked_file_names_a_place_on_a_machine() -> None:
    """What is written here must be true on every machine."""
    home = re.compile(rb"(?<![\w.])/(?:root|home/\w+|work)/")
    found = [
        str(path.relative_to(ROOT)) for path in tracked() if path.name != "LICENSE" and home.search(path.read_bytes())
    ]
    assert not found
