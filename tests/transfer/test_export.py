"""Export: the tree of a Go server, equal byte for byte to the one that was imported, and nothing overwritten."""

from __future__ import annotations

import os
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from demarkus_world.engine.engine import Write

MakeTree = Callable[..., Any]
MakeTarget = Callable[..., Any]
Versions = Callable[..., list[bytes]]


class TestRoundTrip:
    async def test_a_tree_comes_out_as_it_went_in(
        self, a_tree: MakeTree, a_target: MakeTarget, versions: Versions
    ) -> None:
        tree, out, target = a_tree(), a_tree("out"), await a_target()
        tree.document("/tea.md", versions("one\n", "two\n", "three\n", metadata={"tags": "a, b", "x-y": "z: #1"}))
        tree.document("/notes/deep/er/cup of tea.md", versions("---\nown: matter\n---\n# Cup\n"))
        tree.document("/notes/gone.md", archive_state=b"true\n")
        tree.document("/.well-known/agent-manifest.md")
        tree.document("/pruned.md", versions("c\n", "d\n", first=3), first=3)
        march = versions("one\n", "two\n", metadata={})
        tree.document("/march.md", [march[0], march[1].replace(b"archived: false", b"archived: true")])
        tree.document("/große Kanne\t☕.md", versions("# ☕\n"))
        taken = await target.take_tree(tree.root)
        assert taken.refused == 0
        report = await target.export(out.root)
        assert (report.documents, report.versions, report.refused) == (7, taken.versions, 0)
        assert out.everything() == tree.everything()

    async def test_files_are_readable_by_all_and_pointers_are_relative(
        self, a_tree: MakeTree, a_target: MakeTarget, tmp_path: Path
    ) -> None:
        tree, target = a_tree(), await a_target()
        tree.document("/notes/tea.md")
        await target.take_tree(tree.root)
        await target.export(tmp_path / "out")
        assert os.readlink(tmp_path / "out/notes/tea.md") == "versions/tea.md/v2"
        assert (tmp_path / "out/notes/tea.md").read_bytes().endswith(b"Boil.\n")
        assert (tmp_path / "out/notes/versions/tea.md/v2").stat().st_mode & 0o777 == 0o644

    async def test_what_an_unarchived_march_document_says_is_overruled(
        self, a_tree: MakeTree, a_target: MakeTarget, versions: Versions, tmp_path: Path
    ) -> None:
        tree, target = a_tree(), await a_target()
        stored = versions("one\n")[0].replace(b"archived: false", b"archived: true")
        tree.document("/tea.md", [stored])
        await target.take_tree(tree.root)
        await target.engine.write(Write(op="unarchive", path="/tea.md", by="ada", credential="token"))
        await target.export(tmp_path / "out")
        assert (tmp_path / "out/versions/tea.md/archive-state").read_bytes() == b"false\n"

    async def test_an_export_can_be_imported_into_an_empty_store(self, a_target: MakeTarget, tmp_path: Path) -> None:
        first, second = await a_target(), await a_target()
        for number in range(3):
            await first.engine.write(
                Write(op="publish", path=f"/{number}/a.md", body=b"# A\n", by="ada", credential="token")
            )
        await first.engine.write(
            Write(op="append", path="/1/a.md", body=b"more\n", expected=1, by="ada", credential="token")
        )
        await first.export(tmp_path / "out")
        report = await second.take_tree(tmp_path / "out")
        assert (report.documents, report.versions, report.refused) == (3, 4, 0)
        assert await second.stored("/1/a.md") == await first.stored("/1/a.md")


class TestAgain:
    async def test_a_second_export_writes_nothing(self, a_tree: MakeTree, a_target: MakeTarget) -> None:
        tree, out, target = a_tree(), a_tree("out"), await a_target()
        tree.document("/tea.md", archive_state=b"true\n")
        await target.take_tree(tree.root)
        await target.export(out.root)
        before = out.everything()
        report = await target.export(out.root)
        assert (report.present, report.versions, report.refused) == (1, 0, 0)
        assert out.everything() == before

    async def test_it_is_taken_up_where_it_stopped(
        self, a_tree: MakeTree, a_target: MakeTarget, versions: Versions
    ) -> None:
        tree, out, target = a_tree(), a_tree("out"), await a_target()
        stored = tree.document("/tea.md", versions("one\n", "two\n", "three\n"))
        await target.take_tree(tree.root)
        out.document("/tea.md", stored[:1])
        out.file("versions/tea.md/.demarkus-export.tmp", b"half")
        (out.root / "tea.md.tmp").symlink_to("nowhere")
        report = await target.export(out.root)
        assert (report.versions, report.refused) == (2, 0)
        assert (out.root / "tea.md").read_bytes() == stored[2]
        assert sorted(p.name for p in (out.root / "versions/tea.md").iterdir()) == ["v1", "v2", "v3"]

    @pytest.mark.parametrize("there", ["other bytes", "newer version", "flat file", "foreign link", "folder"])
    async def test_what_differs_is_never_overwritten(
        self, a_tree: MakeTree, a_target: MakeTarget, versions: Versions, there: str
    ) -> None:
        tree, out, target = a_tree(), a_tree("out"), await a_target()
        tree.document("/tea.md", versions("one\n", "two\n"))
        tree.document("/cup.md")
        await target.take_tree(tree.root)
        match there:
            case "other bytes":
                out.document("/tea.md", versions("eins\n"))
            case "newer version":
                out.document("/tea.md", versions("one\n", "two\n", "three\n"))
            case "flat file":
                out.file("tea.md", b"flat\n")
            case "foreign link":
                (out.root / "tea.md").symlink_to("/etc/hostname")
            case "folder":
                out.file("tea.md/inside", b"x")
        before = {name: what for name, what in out.everything().items() if name.startswith(("tea.md", "versions/tea"))}
        report = await target.export(out.root)
        assert [refusal.path for refusal in report.refusals] == ["/tea.md"]
        assert (out.root / "cup.md").exists()
        after = out.everything()
        assert {name: after[name] for name in before} == before

    async def test_planted_links_lead_nowhere(self, a_tree: MakeTree, a_target: MakeTarget, tmp_path: Path) -> None:
        tree, out, target = a_tree(), a_tree("out"), await a_target()
        tree.document("/notes/tea.md")
        tree.document("/cup.md")
        await target.take_tree(tree.root)
        outside = tmp_path / "outside"
        outside.mkdir()
        (out.root / "notes").symlink_to(outside)
        (out.root / "versions").symlink_to(outside)
        report = await target.export(out.root)
        assert sorted(refusal.path for refusal in report.refusals) == ["/cup.md", "/notes/tea.md"]
        assert list(outside.iterdir()) == []
