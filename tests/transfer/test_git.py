"""Import of a git repository: a version for each commit, with who made it and when."""

from __future__ import annotations

import os
import subprocess
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from demarkus_world.transfer.git import Git
from demarkus_world.transfer.model import SourceError
from demarkus_world.transfer.report import Report
from mark_protocol.versions import parse_version

MakeTarget = Callable[..., Any]


@dataclass
class Repository:
    """A repository; every commit is an hour younger than the one before."""

    root: Path
    clock: int = 1_600_000_000

    def git(self, *arguments: str, author: str = "Ada Lovelace") -> str:
        """Runs git with a fixed author and time."""
        date = f"{self.clock} +0200"
        names = {
            f"GIT_{who}_{what}": value
            for who in ("AUTHOR", "COMMITTER")
            for what, value in (("NAME", author), ("EMAIL", "ada@example.com"), ("DATE", date))
        }
        environment = {**os.environ, **names, "GIT_CONFIG_GLOBAL": os.devnull, "GIT_CONFIG_NOSYSTEM": "1"}
        done = subprocess.run(
            ["git", *arguments], cwd=self.root, env=environment, check=True, capture_output=True, text=True
        )
        return done.stdout.strip()

    def commit(self, files: dict[str, str | bytes | None], *, author: str = "Ada Lovelace") -> str:
        """A commit that writes these files, None = deletes; its name."""
        for name, content in files.items():
            place = self.root / name
            if content is None:
                place.unlink()
            else:
                place.parent.mkdir(parents=True, exist_ok=True)
                place.write_bytes(content.encode() if isinstance(content, str) else content)
        self.clock += 3600
        self.git("add", "-A")
        self.git("commit", "-q", "--allow-empty", "-m", "change", author=author)
        return self.git("rev-parse", "HEAD")


@pytest.fixture
def repository(tmp_path: Path) -> Repository:
    """An empty repository on the branch `main`."""
    (tmp_path / "repository").mkdir()
    made = Repository(tmp_path / "repository")
    made.git("init", "-q", "-b", "main")
    return made


async def take(target: Any, repository: Repository, **options: Any) -> Report:
    report = Report()
    git = Git(repository.root, report, **options)
    try:
        return await target.take(git, report)
    finally:
        await git.close()


async def test_every_commit_makes_a_version_with_author_and_time(a_target: MakeTarget, repository: Repository) -> None:
    target = await a_target()
    first = repository.commit({"notes/tea.md": "one\n", "code.py": "1\n"})
    repository.commit({"code.py": "2\n"})
    second = repository.commit({"notes/tea.md": "two\n"}, author="Grace  Hopper")
    report = await take(target, repository)
    assert (report.documents, report.versions, report.refused) == (1, 2, 0)
    one, two = map(parse_version, await target.stored("/notes/tea.md"))
    assert (one.body, two.body) == (b"one\n", b"two\n")
    assert one.metadata == {
        "author": "Ada Lovelace",
        "commit": first,
        "timestamp": "2020-09-13T13:26:40Z",
        "type": "Document",
    }
    assert (two.metadata["author"], two.metadata["commit"]) == ("Grace Hopper", second)
    assert (await target.engine.check_chain("/notes/tea.md")).state == "intact"
    records = (await target.engine.view(exact=True)).versions("/notes/tea.md")
    assert [record.modified // 1000 for record in records] == [1_600_003_600, 1_600_010_800]


async def test_a_renamed_file_is_a_new_document_and_the_old_one_is_archived(
    a_target: MakeTarget, repository: Repository
) -> None:
    target = await a_target()
    repository.commit({"tea.md": "one\n"})
    repository.git("mv", "tea.md", "cup.md")
    repository.commit({})
    await take(target, repository)
    assert (await target.archived("/tea.md"), await target.archived("/cup.md")) == (True, False)
    assert len(await target.stored("/cup.md")) == 1


async def test_a_file_that_came_back_is_one_document(a_target: MakeTarget, repository: Repository) -> None:
    target = await a_target()
    repository.commit({"tea.md": "one\n"})
    repository.commit({"tea.md": None})
    repository.commit({"tea.md": "one\n"})
    await take(target, repository)
    assert len(await target.stored("/tea.md")) == 2
    assert await target.archived("/tea.md") is False


async def test_a_merge_is_one_commit_of_its_line(a_target: MakeTarget, repository: Repository) -> None:
    target = await a_target()
    repository.commit({"tea.md": "one\n"})
    repository.git("checkout", "-q", "-b", "side")
    repository.commit({"tea.md": "two\n"})
    repository.commit({"tea.md": "three\n"})
    repository.git("checkout", "-q", "main")
    repository.commit({"cup.md": "cup\n"})
    repository.git("merge", "-q", "--no-ff", "-m", "merge", "side")
    await take(target, repository)
    bodies = [parse_version(stored).body for stored in await target.stored("/tea.md")]
    assert bodies == [b"one\n", b"three\n"]


async def test_a_second_run_adds_what_was_committed_since(a_target: MakeTarget, repository: Repository) -> None:
    target = await a_target()
    repository.commit({"tea.md": "one\n"})
    await take(target, repository)
    assert (await take(target, repository)).versions == 0
    repository.commit({"tea.md": "two\n"})
    report = await take(target, repository)
    assert (report.versions, report.refused) == (1, 0)


async def test_an_older_commit_can_be_named(a_target: MakeTarget, repository: Repository) -> None:
    target = await a_target()
    name = repository.commit({"tea.md": "one\n"})
    repository.commit({"tea.md": "two\n"})
    await take(target, repository, revision=name)
    assert len(await target.stored("/tea.md")) == 1
    for wrong in ("nowhere", "--all", "HEAD:tea.md"):
        with pytest.raises(SourceError, match="names no commit"):
            await take(target, repository, revision=wrong)


async def test_what_can_t_be_a_version_is_listed(a_target: MakeTarget, repository: Repository) -> None:
    target = await a_target()
    large = "x" * (1 << 20) + "y"
    repository.commit({"large.md": large, "binary.md": b"\xff\xfe", "fixed.md": b"\xff"})
    (repository.root / "link.md").symlink_to("/etc/hostname")
    repository.commit({"fixed.md": "fine\n"})
    report = await take(target, repository)
    assert await target.paths() == ["/fixed.md"]
    assert {refusal.path for refusal in report.refusals} == {"/large.md", "/binary.md", "/fixed.md", "/link.md"}
    assert "symbolic link" in next(r.reason for r in report.refusals if r.path == "/link.md")


async def test_odd_names_and_authors_come_through(a_target: MakeTarget, repository: Repository) -> None:
    target = await a_target()
    repository.commit({"große Kanne ☕/a b.md": "x\n", ":colon.md": "y\n"}, author="Ø" * 400)
    report = await take(target, repository)
    assert await target.paths() == ["/:colon.md", "/große Kanne ☕/a b.md"]
    assert report.refused == 0
    (stored,) = await target.stored("/:colon.md")
    assert parse_version(stored).metadata["author"] == "Ø" * 200


async def test_the_repository_runs_nothing_and_stays_as_it_is(
    a_target: MakeTarget, repository: Repository, tmp_path: Path
) -> None:
    target = await a_target()
    repository.commit({"tea.md": "one\n", ".gitattributes": "*.md diff=evil filter=evil\n"})
    ran = tmp_path / "ran"
    for key in (
        "core.pager",
        "core.fsmonitor",
        "diff.external",
        "diff.evil.textconv",
        "filter.evil.smudge",
        "gpg.program",
    ):
        repository.git("config", key, f"touch {ran}; false")
    repository.git("config", "log.showSignature", "true")
    before = sorted(str(path) for path in repository.root.rglob("*"))
    report = await take(target, repository)
    assert (report.versions, report.refused) == (1, 0)
    assert not ran.exists()
    assert sorted(str(path) for path in repository.root.rglob("*")) == before


async def test_a_folder_without_a_repository_is_named(a_target: MakeTarget, tmp_path: Path) -> None:
    target = await a_target()
    with pytest.raises(SourceError, match=str(tmp_path)):
        await take(target, Repository(tmp_path))


async def test_an_empty_repository_says_so(a_target: MakeTarget, repository: Repository) -> None:
    target = await a_target()
    with pytest.raises(SourceError, match="HEAD names no commit"):
        await take(target, repository)
