"""Import of a Go server's tree: every layout and quirk, byte for byte, and nothing that lies outside the tree."""

from __future__ import annotations

import os
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from mark_protocol.versions import encode_version, etag

GOLDEN = (
    b"---\nversion: 1\narchived: false\nmeta.importance: 0.8\ntags: [drinks, kitchen]\ntype: Document\n---\n"
    b"# Tea\n\nBoil water first.\n",
    b"---\nversion: 2\narchived: false\n"
    b"previous-hash: sha256-f9528fa1e0cf93cc3ed94397c0a0d94bf1d5c1cf83e778d77d7600e73a678d81\n"
    b"meta.importance: 0.8\ntags: [drinks, kitchen]\ntype: Document\n---\n"
    b"# Tea\n\nBoil water first.\n\n## Green\n\nUse cooler water, about 80 degrees.\n",
    b"---\nversion: 3\narchived: false\n"
    b"previous-hash: sha256-58547c19b50efc44ab153697fb3c5ec3d7cd2b54210d94fedaa80f2b257f6704\n"
    b"meta.importance: 0.8\ntags: [drinks, kitchen]\ntype: Document\n---\n"
    b"# Tea\n\nBoil water first.\n\n## Green\n\nUse cooler water, about 80 degrees.\n"
    b"\n## Black\n\nSteep four minutes.\n",
)
"""Stored versions of a Go server, with the hashes it gave them."""
ETAGS = (
    "f9528fa1e0cf93cc3ed94397c0a0d94bf1d5c1cf83e778d77d7600e73a678d81",
    "58547c19b50efc44ab153697fb3c5ec3d7cd2b54210d94fedaa80f2b257f6704",
    "f966e979353186a17c571238d1e8a2e4c390c4c5b2d496d777caae4d2a2971c1",
)

MakeTree = Callable[..., Any]
MakeTarget = Callable[..., Any]
Versions = Callable[..., list[bytes]]


class TestLayouts:
    @pytest.mark.parametrize("legacy", [False, True])
    async def test_bytes_etags_times_and_chain_stay(self, a_tree: MakeTree, a_target: MakeTarget, legacy: bool) -> None:
        tree, target = a_tree(), await a_target()
        tree.document("/notes/tea.md", GOLDEN, legacy=legacy)
        before = tree.everything()
        report = await target.take_tree(tree.root)
        assert (report.documents, report.versions, report.refused) == (1, 3, 0)
        assert await target.stored("/notes/tea.md") == list(GOLDEN)
        records = (await target.engine.view(exact=True)).versions("/notes/tea.md")
        assert tuple(record.etag for record in records) == ETAGS
        assert [record.modified for record in records] == [1_700_000_000_000 + 60_000 * n for n in range(3)]
        assert {record.by for record in records} == {"local:ada"}
        chain = await target.engine.check_chain("/notes/tea.md")
        assert chain.state == "intact"
        assert tree.everything() == before

    async def test_both_layouts_of_one_document_are_one_history(self, a_tree: MakeTree, a_target: MakeTarget) -> None:
        tree, target = a_tree(), await a_target()
        tree.document("/tea.md", GOLDEN[:2], legacy=True, pointer=None)
        tree.document("/tea.md", GOLDEN[2:], first=3)
        report = await target.take_tree(tree.root)
        assert await target.stored("/tea.md") == list(GOLDEN)
        assert report.refused == 0

    async def test_c_20_the_canonical_name_wins_and_nothing_is_deleted(
        self, a_tree: MakeTree, a_target: MakeTarget
    ) -> None:
        tree, target = a_tree(), await a_target()
        tree.document("/tea.md", GOLDEN[:1], legacy=True)
        other = tree.file("versions/tea.md.v01", encode_version(1, None, {}, b"another\n"))
        report = await target.take_tree(tree.root)
        assert await target.stored("/tea.md") == [GOLDEN[0]]
        assert any("tea.md.v01" in note for note in report.notes)
        assert other.read_bytes().endswith(b"another\n")

    async def test_c_20_todays_layout_wins_over_the_old_one(self, a_tree: MakeTree, a_target: MakeTarget) -> None:
        tree, target = a_tree(), await a_target()
        tree.document("/tea.md", [encode_version(1, None, {}, b"old\n")], legacy=True, pointer=None)
        tree.document("/tea.md", GOLDEN[:1])
        await target.take_tree(tree.root)
        assert await target.stored("/tea.md") == [GOLDEN[0]]

    @pytest.mark.parametrize("legacy", [False, True])
    async def test_c_21_hidden_folders_come_too(self, a_tree: MakeTree, a_target: MakeTarget, legacy: bool) -> None:
        tree, target = a_tree(), await a_target()
        tree.document("/.well-known/agent-manifest.md", GOLDEN[:1], legacy=legacy)
        await target.take_tree(tree.root)
        assert await target.paths() == ["/.well-known/agent-manifest.md"]

    async def test_a_38_leftovers_of_a_crash_are_ignored(self, a_tree: MakeTree, a_target: MakeTarget) -> None:
        tree, target = a_tree(), await a_target()
        tree.document("/tea.md", GOLDEN)
        (tree.root / "tea.md.tmp").symlink_to("versions/tea.md/v2")
        tree.file("versions/tea.md/.archive-state-123", b"true\n")
        tree.file(".changes", b"---\ncursor: a:0\n---\n")
        report = await target.take_tree(tree.root)
        assert (await target.archived("/tea.md"), report.refused, report.ignored) == (False, 0, 0)

    async def test_a_flat_file_is_no_document(self, a_tree: MakeTree, a_target: MakeTarget) -> None:
        tree, target = a_tree(), await a_target()
        tree.document("/tea.md", GOLDEN)
        tree.file("flat.md", b"# Flat\n")
        tree.file("deep/er/flat.md", b"# Flat\n")
        report = await target.take_tree(tree.root)
        assert await target.paths() == ["/tea.md"]
        assert (report.ignored, report.refused) == (2, 0)

    async def test_a_pruned_history_keeps_its_numbers_and_says_so(self, a_tree: MakeTree, a_target: MakeTarget) -> None:
        tree, target = a_tree(), await a_target()
        tree.document("/tea.md", GOLDEN[1:], first=2)
        report = await target.take_tree(tree.root)
        assert (report.versions, report.refused) == (2, 0)
        view = await target.engine.view(exact=True)
        assert [record.version for record in view.versions("/tea.md")] == [2, 3]
        chain = await target.engine.check_chain("/tea.md")
        assert (chain.state, chain.first_retained, chain.predecessor_hash) == ("pruned", 2, ETAGS[0])

    async def test_a_pointer_that_was_copied_as_a_file_is_understood(
        self, a_tree: MakeTree, a_target: MakeTarget
    ) -> None:
        tree, target = a_tree(), await a_target()
        tree.document("/tea.md", GOLDEN, pointer=None)
        tree.file("tea.md", GOLDEN[2])
        tree.document("/cup.md", GOLDEN, pointer=None)
        tree.file("cup.md", b"# Something else\n")
        report = await target.take_tree(tree.root)
        assert await target.paths() == ["/tea.md"]
        assert [refusal.path for refusal in report.refusals] == ["/cup.md"]

    async def test_a_document_may_end_with_a_version_its_pointer_does_not_know_yet(
        self, a_tree: MakeTree, a_target: MakeTarget
    ) -> None:
        tree, target = a_tree(), await a_target()
        tree.document("/tea.md", GOLDEN, pointer="versions/tea.md/v2")
        tree.document("/torn.md", [*GOLDEN[:2], GOLDEN[2][:30]], pointer="versions/torn.md/v2")
        report = await target.take_tree(tree.root)
        assert await target.stored("/tea.md") == list(GOLDEN)
        assert await target.stored("/torn.md") == list(GOLDEN[:2])
        assert [(refusal.path, refusal.versions) for refusal in report.refusals] == [("/torn.md", (3, 3))]


class TestArchiveState:
    @pytest.mark.parametrize(("state", "archived"), [(b"true\n", True), (b"false\n", False), (None, False)])
    async def test_the_state_file_decides(
        self, a_tree: MakeTree, a_target: MakeTarget, state: bytes | None, archived: bool
    ) -> None:
        tree, target = a_tree(), await a_target()
        tree.document("/tea.md", GOLDEN, archive_state=state)
        report = await target.take_tree(tree.root)
        assert await target.archived("/tea.md") is archived
        assert report.archived == archived
        assert await target.stored("/tea.md") == list(GOLDEN)

    @pytest.mark.parametrize("legacy", [False, True])
    async def test_a_march_server_wrote_it_into_the_newest_version(
        self, a_tree: MakeTree, a_target: MakeTarget, legacy: bool
    ) -> None:
        tree, target = a_tree(), await a_target()
        newest = GOLDEN[2].replace(b"archived: false", b"archived: true")
        tree.document("/tea.md", [*GOLDEN[:2], newest], legacy=legacy)
        await target.take_tree(tree.root)
        assert await target.archived("/tea.md") is True
        assert (await target.stored("/tea.md"))[2] == newest
        assert (await target.engine.check_chain("/tea.md")).valid

    async def test_the_state_file_wins_over_the_header(self, a_tree: MakeTree, a_target: MakeTarget) -> None:
        tree, target = a_tree(), await a_target()
        newest = GOLDEN[0].replace(b"archived: false", b"archived: true")
        tree.document("/tea.md", [newest], archive_state=b"false\n")
        await target.take_tree(tree.root)
        assert await target.archived("/tea.md") is False

    @pytest.mark.parametrize("state", [b"true", b"", b"yes\n", b"true\n\n", b"TRUE\n"])
    async def test_c_23_a_corrupt_state_fails_closed(
        self, a_tree: MakeTree, a_target: MakeTarget, state: bytes
    ) -> None:
        tree, target = a_tree(), await a_target()
        tree.document("/tea.md", GOLDEN, archive_state=state)
        tree.document("/cup.md", GOLDEN)
        report = await target.take_tree(tree.root)
        assert await target.paths() == ["/cup.md"]
        assert [refusal.path for refusal in report.refusals] == ["/tea.md"]

    async def test_c_23_a_state_that_is_a_link_fails_closed(
        self, a_tree: MakeTree, a_target: MakeTarget, tmp_path: Path
    ) -> None:
        tree, target = a_tree(), await a_target()
        tree.document("/tea.md", GOLDEN)
        (tmp_path / "state").write_bytes(b"false\n")
        (tree.root / "versions/tea.md/archive-state").symlink_to(tmp_path / "state")
        report = await target.take_tree(tree.root)
        assert await target.paths() == []
        assert "/tea.md" in {refusal.path for refusal in report.refusals}


class TestMarchQuirks:
    async def test_every_key_behind_meta_comes_as_it_is(self, a_tree: MakeTree, a_target: MakeTarget) -> None:
        tree, target = a_tree(), await a_target()
        stored = (
            b"---\nversion: 1\narchived: false\nmeta.retention: often\nmeta.tags: drinks,  kitchen\n"
            b"meta.title: Tea: the leaf\n---\n# T\n"
        )
        tree.document("/tea.md", [stored], legacy=True)
        report = await target.take_tree(tree.root)
        assert await target.stored("/tea.md") == [stored]
        assert report.refused == 0
        head = (await target.engine.view(exact=True)).head("/tea.md")
        assert head.metadata == {"retention": "often", "tags": "drinks,kitchen", "title": "Tea: the leaf"}

    @pytest.mark.parametrize("path", ["/notes.txt", "/.hidden/notes"])
    async def test_what_the_document_contract_forbids_is_listed(
        self, a_tree: MakeTree, a_target: MakeTarget, path: str
    ) -> None:
        tree, target = a_tree(), await a_target()
        tree.document(path, GOLDEN)
        tree.document("/binary.md", [encode_version(1, None, {}, b"\xff\xfe")])
        report = await target.take_tree(tree.root)
        assert await target.paths() == []
        reasons = {refusal.path: refusal.reason for refusal in report.refusals}
        assert ".md" in reasons[path]
        assert "UTF-8" in reasons["/binary.md"]

    async def test_old_dot_names_are_not_migrated(self, a_tree: MakeTree, a_target: MakeTarget) -> None:
        tree, target = a_tree(), await a_target()
        tree.file("versions/.draft.md.v1", GOLDEN[0])
        report = await target.take_tree(tree.root)
        assert await target.paths() == []
        assert report.refused == 0


class TestNothingOutsideTheTree:
    @pytest.fixture
    def secret(self, tmp_path: Path) -> Path:
        outside = tmp_path / "outside"
        (outside / "versions" / "secret.md").mkdir(parents=True)
        (outside / "versions" / "secret.md" / "v1").write_bytes(GOLDEN[0])
        (outside / "secret.md").symlink_to("versions/secret.md/v1")
        return outside

    @pytest.mark.parametrize("where", ["file", "folder", "versions", "version", "document"])
    async def test_planted_links_are_never_followed(
        self, a_tree: MakeTree, a_target: MakeTarget, secret: Path, where: str
    ) -> None:
        tree, target = a_tree(), await a_target()
        stolen = secret / "versions" / "secret.md"
        tree.document("/tea.md", GOLDEN[:1])
        match where:
            case "file":
                (tree.root / "stolen.md").symlink_to(stolen / "v1")
            case "folder":
                (tree.root / "stolen").symlink_to(secret)
            case "versions":
                (tree.root / "stolen").mkdir()
                (tree.root / "stolen" / "versions").symlink_to(secret / "versions")
                (tree.root / "stolen" / "secret.md").symlink_to("versions/secret.md/v1")
            case "version":
                (tree.root / "versions" / "stolen.md").mkdir()
                (tree.root / "versions" / "stolen.md" / "v1").symlink_to(stolen / "v1")
                (tree.root / "stolen.md").symlink_to("versions/stolen.md/v1")
            case "document":
                (tree.root / "versions" / "secret.md").symlink_to(stolen)
                (tree.root / "secret.md").symlink_to("versions/secret.md/v1")
        report = await target.take_tree(tree.root)
        assert await target.paths() == ["/tea.md"]
        assert report.refused >= 1
        assert any("symbolic link" in refusal.reason for refusal in report.refusals)

    @pytest.mark.parametrize(
        "pointer", ["/etc/passwd", "../outside/secret.md", "versions/cup.md/v1", "versions/tea.md"]
    )
    async def test_a_pointer_has_to_lead_to_a_version_of_its_own(
        self, a_tree: MakeTree, a_target: MakeTarget, pointer: str
    ) -> None:
        tree, target = a_tree(), await a_target()
        tree.document("/tea.md", GOLDEN, pointer=pointer)
        tree.document("/cup.md", GOLDEN)
        report = await target.take_tree(tree.root)
        assert await target.paths() == ["/cup.md"]
        assert [(refusal.path, "not followed" in refusal.reason) for refusal in report.refusals] == [("/tea.md", True)]

    async def test_c_22_a_broken_link_is_listed_and_not_fatal(self, a_tree: MakeTree, a_target: MakeTarget) -> None:
        tree, target = a_tree(), await a_target()
        tree.document("/lost.md", GOLDEN, pointer="versions/lost.md/v9")
        (tree.root / "gone.md").symlink_to("versions/gone.md/v1")
        tree.document("/tea.md", GOLDEN)
        report = await target.take_tree(tree.root)
        assert await target.paths() == ["/tea.md"]
        assert sorted(refusal.path for refusal in report.refusals) == ["/gone.md", "/lost.md"]

    async def test_devices_and_pipes_are_not_opened(self, a_tree: MakeTree, a_target: MakeTarget) -> None:
        tree, target = a_tree(), await a_target()
        tree.document("/tea.md", GOLDEN[:1])
        os.mkfifo(tree.root / "versions" / "tea.md" / "v2")
        os.mkfifo(tree.root / "pipe.md")
        await target.take_tree(tree.root)
        assert await target.stored("/tea.md") == [GOLDEN[0]]


class TestRules:
    async def test_a_37_long_names_and_a_13_versions_segments_are_listed(
        self, a_tree: MakeTree, a_target: MakeTarget
    ) -> None:
        tree, target = a_tree(), await a_target()
        deep = "/".join(["d" * 200] * 5)
        tree.document(f"/{deep}/tea.md", GOLDEN)
        tree.document("/versions/tea.md", GOLDEN)
        tree.document("/a/versions/b.md", GOLDEN)
        tree.document("/cup.md", GOLDEN)
        report = await target.take_tree(tree.root)
        assert await target.paths() == ["/cup.md"]
        assert sorted(refusal.path for refusal in report.refusals) == sorted(
            [f"/{deep}/tea.md", "/versions/tea.md", "/a/versions/b.md"]
        )

    async def test_a_compatible_world_takes_a_versions_segment(self, a_tree: MakeTree, a_target: MakeTarget) -> None:
        tree, target = a_tree(), await a_target(compatible=True)
        tree.document("/versions/tea.md", GOLDEN)
        await target.take_tree(tree.root)
        assert await target.paths() == ["/versions/tea.md"]

    async def test_names_that_are_no_utf_8_are_listed(self, a_tree: MakeTree, a_target: MakeTarget) -> None:
        tree, target = a_tree(), await a_target()
        tree.document(os.fsdecode(b"/\xff\xfe.md"), GOLDEN)
        report = await target.take_tree(tree.root)
        assert "UTF-8" in report.refusals[0].reason
        assert str(report.refusals[0]).isprintable()

    async def test_a_tampered_version_ends_the_run_and_is_listed(
        self, a_tree: MakeTree, a_target: MakeTarget, versions: Versions
    ) -> None:
        tree, target = a_tree(), await a_target()
        stored = versions("one\n", "two\n", "three\n", "four\n")
        stored[1] = stored[1].replace(b"two", b"TWO")
        tree.document("/tea.md", stored)
        report = await target.take_tree(tree.root)
        assert await target.stored("/tea.md") == stored[2:]
        assert [(refusal.path, refusal.versions) for refusal in report.refusals] == [("/tea.md", (1, 2))]
        assert (await target.engine.check_chain("/tea.md")).predecessor_hash != etag(stored[1])

    async def test_an_older_version_never_passes_for_a_damaged_newest_one(
        self, a_tree: MakeTree, a_target: MakeTarget, versions: Versions
    ) -> None:
        tree, target = a_tree(), await a_target()
        stored = versions("one\n", "two\n")
        tree.document("/tea.md", [stored[0], stored[1].replace(b"version: 2", b"version: 3")])
        report = await target.take_tree(tree.root)
        assert await target.paths() == []
        assert "newest" in report.refusals[0].reason

    async def test_times_never_go_back_and_never_lie_ahead(
        self, a_tree: MakeTree, a_target: MakeTarget, versions: Versions
    ) -> None:
        tree, target = a_tree(), await a_target()
        tree.document("/tea.md", versions("one\n", "two\n", "three\n"))
        folder = tree.root / "versions" / "tea.md"
        for name, time in (("v1", 1_500_000_000), ("v2", 1_400_000_000), ("v3", 4_000_000_000)):
            os.utime(folder / name, (time, time))
        await target.take_tree(tree.root)
        records = (await target.engine.view(exact=True)).versions("/tea.md")
        assert [record.modified for record in records] == [1_500_000_000_000, 1_500_000_000_000, target.clock[0]]

    async def test_a_5_a_touched_file_changes_nothing_that_is_here(
        self, a_tree: MakeTree, a_target: MakeTarget
    ) -> None:
        tree, target = a_tree(), await a_target()
        tree.document("/tea.md", GOLDEN)
        await target.take_tree(tree.root)
        sequence = target.engine.statistics.sequence
        os.utime(tree.root / "versions" / "tea.md" / "v3", (1, 1))
        report = await target.take_tree(tree.root)
        assert (report.present, report.versions, target.engine.statistics.sequence) == (1, 0, sequence)
        assert await target.stored("/tea.md") == list(GOLDEN)


class TestAgain:
    async def test_a_second_run_adds_nothing(self, a_tree: MakeTree, a_target: MakeTarget) -> None:
        tree, target = a_tree(), await a_target()
        tree.document("/tea.md", GOLDEN)
        tree.document("/old.md", GOLDEN, archive_state=b"true\n")
        tree.document("/pruned.md", GOLDEN[1:], first=2)
        await target.take_tree(tree.root)
        sequence = target.engine.statistics.sequence
        report = await target.take_tree(tree.root)
        assert (report.present, report.documents, report.refused) == (3, 0, 0)
        assert target.engine.statistics.sequence == sequence

    async def test_what_was_added_there_is_added_here(self, a_tree: MakeTree, a_target: MakeTarget) -> None:
        tree, target = a_tree(), await a_target()
        tree.document("/tea.md", GOLDEN[:2], archive_state=b"true\n")
        await target.take_tree(tree.root)
        assert await target.archived("/tea.md") is True
        tree.file("versions/tea.md/v3", GOLDEN[2])
        tree.file("versions/tea.md/archive-state", b"false\n")
        (tree.root / "tea.md").unlink()
        (tree.root / "tea.md").symlink_to("versions/tea.md/v3")
        report = await target.take_tree(tree.root)
        assert (report.versions, report.refused) == (1, 0)
        assert await target.stored("/tea.md") == list(GOLDEN)
        assert await target.archived("/tea.md") is False

    async def test_an_archive_state_that_changed_there_changes_here(
        self, a_tree: MakeTree, a_target: MakeTarget
    ) -> None:
        tree, target = a_tree(), await a_target()
        tree.document("/tea.md", GOLDEN)
        await target.take_tree(tree.root)
        tree.file("versions/tea.md/archive-state", b"true\n")
        assert (await target.take_tree(tree.root)).archived == 1
        assert await target.archived("/tea.md") is True
        tree.file("versions/tea.md/archive-state", b"false\n")
        assert (await target.take_tree(tree.root)).unarchived == 1
        assert await target.archived("/tea.md") is False

    async def test_another_history_is_not_mixed_in(
        self, a_tree: MakeTree, a_target: MakeTarget, versions: Versions
    ) -> None:
        first, second, target = a_tree("first"), a_tree("second"), await a_target()
        first.document("/tea.md", versions("one\n", "two\n"))
        second.document("/tea.md", versions("eins\n", "zwei\n", "drei\n"))
        await target.take_tree(first.root)
        report = await target.take_tree(second.root)
        assert await target.stored("/tea.md") == versions("one\n", "two\n")
        assert "another one" in report.refusals[0].reason

    async def test_into_a_directory(self, a_tree: MakeTree, a_target: MakeTarget) -> None:
        tree, target = a_tree(), await a_target()
        tree.document("/tea.md", GOLDEN)
        await target.take_tree(tree.root, into="/old/world")
        assert await target.paths() == ["/old/world/tea.md"]
        assert await target.stored("/old/world/tea.md") == list(GOLDEN)

    async def test_documents_never_lie_below_documents(self, a_tree: MakeTree, a_target: MakeTarget) -> None:
        first, second, target = a_tree("first"), a_tree("second"), await a_target()
        first.document("/tea.md", GOLDEN)
        second.document("/tea.md/deeper.md", GOLDEN)
        await target.take_tree(first.root)
        report = await target.take_tree(second.root)
        assert await target.paths() == ["/tea.md"]
        assert "ancestor" in report.refusals[0].reason
