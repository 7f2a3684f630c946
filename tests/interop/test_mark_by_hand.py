"""The command `mark` against a real world process: a document's life, as someone would type it."""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

MARK = Path(sys.executable).with_name("mark")


@pytest.fixture
def mark(start_world, token_file, tmp_path) -> Callable[..., subprocess.CompletedProcess[str]]:
    """`mark(verb, path, ...)` on a fresh world, with a token that may do everything."""
    world = start_world(reads="scoped", tokens=token_file(("hand", "/**", ("read", "publish"))))
    roots = tmp_path / "roots.pem"
    roots.write_bytes(world.roots)

    def run(verb: str, path: str, *arguments: str, token: str = "hand") -> subprocess.CompletedProcess[str]:
        return subprocess.run(
            [MARK, verb, f"mark://localhost:{world.port}{path}", *arguments],
            env={"DEMARKUS_AUTH": token, "DEMARKUS_CA": str(roots)},
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
            timeout=60,
        )

    return run


def test_the_life_of_a_document(mark):
    created = mark("publish", "/notes/tea.md", "--body", "# Tea\n", "--expect", "0", "-m", "tags=hot, leaf")
    assert created.returncode == 0, created.stderr
    assert created.stdout.startswith("created: version 1, ")

    again = mark("publish", "/notes/tea.md", "--body", "# Mate\n", "--expect", "0")
    assert again.returncode == 1
    assert again.stderr.startswith("conflict: A document already exists at this path (version 1).")

    assert mark("append", "/notes/tea.md", "--body", "Steep it.", "--expect", "1").returncode == 0
    assert mark("fetch", "/notes/tea.md").stdout == "# Tea\nSteep it."
    assert mark("fetch", "/notes/tea.md/v1").stdout == "# Tea\n"
    shown = json.loads(mark("fetch", "/notes/tea.md", "--json").stdout)
    assert (shown["metadata"]["version"], shown["metadata"]["tags"]) == ("2", "hot,leaf")
    unchanged = mark("fetch", "/notes/tea.md", "--if-none-match", shown["metadata"]["etag"])
    assert (unchanged.returncode, unchanged.stderr) == (0, "not-modified\n")

    listed = mark("list", "/notes")
    assert "- [tea.md](tea.md)\n" in listed.stdout
    versions = mark("versions", "/notes/tea.md")
    assert versions.stdout.count("\n- [v") == 2
    assert versions.stderr == "chain-valid: true\n"

    assert mark("archive", "/notes/tea.md").stdout == "archived: version 2\n"
    gone = mark("fetch", "/notes/tea.md")
    assert (gone.returncode, gone.stderr) == (1, "archived: /notes/tea.md is archived\n")
    assert mark("publish", "/notes/tea.md", "--unarchive").returncode == 0
    assert mark("fetch", "/notes/tea.md").returncode == 0


def test_a_wrong_token_is_refused_and_not_shown(mark):
    refused = mark("fetch", "/notes/tea.md", token="s3cret")
    assert refused.returncode == 1
    assert refused.stderr.startswith("unauthorized: ")
    assert "s3cret" not in refused.stdout + refused.stderr
