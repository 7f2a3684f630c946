"""Import of a plain folder."""

from __future__ import annotations

import os
from collections.abc import Callable
from pathlib import Path
from typing import Any

from demarkus_world.engine.engine import Write
from demarkus_world.transfer.folder import Folder
from demarkus_world.transfer.report import Report
from mark_protocol.versions import parse_version

MakeTree = Callable[..., Any]
MakeTarget = Callable[..., Any]


async def take(target: Any, root: Path) -> Report:
    report = Report()
    folder = Folder(root, report)
    try:
        return await target.take(folder, report)
    finally:
        folder.close()


async def test_every_md_file_becomes_a_first_version_with_its_time(a_tree: MakeTree, a_target: MakeTarget) -> None:
    tree, target = a_tree(), await a_target()
    tree.file("a/b/tea.md", b"---\ntitle: mine\n---\n# Tea\n")
    tree.file("index.md", b"# Index\n")
    tree.file("picture.png", b"\x89PNG")
    tree.file(".git/config.md", b"no\n")
    tree.file(".well-known/agent-manifest.md", b"# Site\n")
    report = await take(target, tree.root)
    assert await target.paths() == ["/.well-known/agent-manifest.md", "/a/b/tea.md", "/index.md"]
    assert (report.refused, report.ignored) == (0, 2)
    (tea,) = await target.stored("/a/b/tea.md")
    assert parse_version(tea).body == b"---\ntitle: mine\n---\n# Tea\n"
    assert parse_version(tea).metadata == {"type": "Document"}
    assert parse_version((await target.stored("/index.md"))[0]).metadata == {}
    head = (await target.engine.view(exact=True)).head("/a/b/tea.md")
    assert head.record.modified == 1_700_000_000_000


async def test_a_second_run_adds_nothing_and_never_overwrites(a_tree: MakeTree, a_target: MakeTarget) -> None:
    tree, target = a_tree(), await a_target()
    tree.file("tea.md", b"# Tea\n")
    tree.file("cup.md", b"# Cup\n")
    await take(target, tree.root)
    await target.engine.write(
        Write(op="publish", path="/cup.md", body=b"# Cup, edited\n", by="ada", credential="token")
    )
    sequence = target.engine.statistics.sequence
    tree.file("tea.md", b"# Tea, changed\n")
    report = await take(target, tree.root)
    assert target.engine.statistics.sequence == sequence
    assert report.present == 1
    assert [refusal.path for refusal in report.refusals] == ["/tea.md"]


async def test_links_and_what_is_no_text_are_listed(a_tree: MakeTree, a_target: MakeTarget, tmp_path: Path) -> None:
    tree, target = a_tree(), await a_target()
    (tmp_path / "outside.md").write_bytes(b"secret\n")
    (tree.root / "link.md").symlink_to(tmp_path / "outside.md")
    (tree.root / "folder").symlink_to(tmp_path)
    tree.file("binary.md", b"\xff")
    tree.file("large.md", b"x" * ((1 << 20) + 1))
    os.mkfifo(tree.root / "pipe.md")
    report = await take(target, tree.root)
    assert await target.paths() == []
    assert {refusal.path for refusal in report.refusals} == {"/link.md", "/binary.md", "/large.md", "/pipe.md"}
