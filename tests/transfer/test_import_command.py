"""`demarkus-world import` and `export`: exit codes, the lock, rehearsals, kill -9, a terminal."""

from __future__ import annotations

import asyncio
import json
import os
import pty
import signal
import socket
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner

from demarkus_world.cli import main
from demarkus_world.transfer import progress
from mark_protocol.versions import encode_version, etag

MakeTree = Callable[..., Any]
Versions = Callable[..., list[bytes]]
COMMAND = str(Path(sys.executable).with_name("demarkus-world"))


def run(*arguments: object) -> subprocess.CompletedProcess[str]:
    """The command, to its end, in this process; anything but an orderly end is raised."""
    done = CliRunner().invoke(main, [*map(str, arguments)])
    if done.exception is not None and not isinstance(done.exception, SystemExit):
        raise done.exception
    return subprocess.CompletedProcess(arguments, done.exit_code, done.stdout, done.stderr)


@pytest.fixture
def world(start_world: Callable[..., Any], token_file: Callable[..., str]) -> Any:
    """A world that is not started."""
    return start_world(tokens=token_file(("writer", "/**", ("read", "publish"))), begin=False)


@pytest.fixture
def config(world: Any) -> Path:
    """Its configuration."""
    return world.folder / "world.yaml"


def report_of(*arguments: object) -> dict[str, Any]:
    done = run(*arguments, "--json")
    assert done.stdout.startswith("{"), done.stderr
    return {**json.loads(done.stdout), "code": done.returncode}


class TestImport:
    async def test_a_world_serves_what_was_imported(self, a_tree: MakeTree, world: Any, config: Path) -> None:
        tree = a_tree()
        stored = tree.document("/notes/tea.md")
        done = await asyncio.to_thread(run, "import", tree.root, "--config", config)
        assert done.returncode == 0, done.stderr
        assert "added: 1 documents, 2 versions" in done.stdout
        assert "Go tree" in done.stderr
        world.start()
        told = await world.request("FETCH", "/notes/tea.md", auth="writer")
        assert (told.status, told.metadata["etag"], told.metadata["version"]) == ("ok", etag(stored[1]), "2")
        assert told.metadata["modified"] == "2023-11-14T22:14:20Z"
        history = await world.request("VERSIONS", "/notes/tea.md", auth="writer")
        assert (history.metadata["chain-valid"], history.metadata["total"]) == ("true", "2")
        assert history.metadata["by"].startswith("local:")
        written = await world.request("APPEND", "/notes/tea.md", b"more\n", auth="writer", expected_version="2")
        assert written.status == "created"

    def test_refusals_are_listed_at_the_end_and_the_code_is_1(self, a_tree: MakeTree, config: Path) -> None:
        tree = a_tree()
        tree.document("/tea.md")
        tree.document("/broken.md", pointer="versions/broken.md/v9")
        done = run("import", tree.root, "--config", config)
        assert done.returncode == 1
        assert done.stdout.splitlines()[-1].startswith("refused: /broken.md: ")
        told = report_of("import", tree.root, "--config", config)
        assert (told["code"], told["present"], told["refused"]) == (1, 1, 1)
        assert told["refusals"][0]["path"] == "/broken.md"

    def test_a_rehearsal_writes_nothing_and_says_what_would_be(
        self, a_tree: MakeTree, world: Any, config: Path
    ) -> None:
        tree = a_tree()
        tree.document("/tea.md")
        tree.document("/bad.txt")
        told = report_of("import", tree.root, "--config", config, "--dry-run")
        assert (told["code"], told["documents"], told["versions"], told["refused"]) == (1, 1, 2, 1)
        assert list((world.folder / "data").iterdir()) == []
        tree.document("/bad.md")
        run("import", tree.root, "--config", config)
        before = sorted((world.folder / "data").rglob("*"))
        tree.document("/new.md")
        told = report_of("import", tree.root, "--config", config, "--dry-run")
        assert (told["documents"], told["present"]) == (1, 2)
        assert sorted((world.folder / "data").rglob("*")) == before

    def test_a_rehearsal_works_beside_a_running_world(self, a_tree: MakeTree, world: Any, config: Path) -> None:
        tree = a_tree()
        tree.document("/tea.md")
        world.start()
        assert report_of("import", tree.root, "--config", config, "--dry-run")["documents"] == 1

    def test_a_store_that_is_served_is_not_touched(self, a_tree: MakeTree, world: Any, config: Path) -> None:
        tree = a_tree()
        tree.document("/tea.md")
        world.start()
        done = run("import", tree.root, "--config", config)
        assert done.returncode == 1
        assert "another process" in done.stderr

    def test_a_store_without_a_world_is_named_by_its_folder(
        self, a_tree: MakeTree, world: Any, config: Path, tmp_path: Path
    ) -> None:
        tree = a_tree()
        tree.document("/tea.md")
        empty = run("import", tree.root, "--store", tmp_path)
        assert (empty.returncode, "no store" in empty.stderr) == (2, True)
        run("import", tree.root, "--config", config)
        tree.document("/cup.md")
        told = report_of("import", tree.root, "--store", world.folder / "data")
        assert (told["documents"], told["present"]) == (1, 1)

    def test_killed_in_the_middle_it_is_taken_up_and_nothing_is_doubled(
        self, a_tree: MakeTree, world: Any, config: Path, versions: Versions, wait_until: Callable[..., Any]
    ) -> None:
        tree = a_tree()
        stored = {
            f"/{number:03}.md": tree.document(
                f"/{number:03}.md", versions(*(f"{number} {n}\n" for n in range(6))), archive_state=b"true\n"
            )
            for number in range(40)
        }

        def killed_after(slots: int) -> None:
            log = world.store / "log"
            process = subprocess.Popen(
                [COMMAND, "import", str(tree.root), "--config", str(config)],
                stdout=subprocess.DEVNULL,
                stderr=subprocess.DEVNULL,
            )
            wait_until(
                f"{slots} slots",
                lambda: process.poll() is not None or (log.is_dir() and len(list(log.iterdir())) >= slots),
            )
            process.kill()
            process.wait()

        killed_after(2)
        killed_after(5)
        told = report_of("import", tree.root, "--config", config)
        assert (told["code"], told["refused"]) == (0, 0)
        assert told["versions"] < 40 * 6
        again = report_of("import", tree.root, "--config", config)
        assert (again["versions"], again["present"]) == (0, 40)
        out = world.folder / "out"
        assert run("export", out, "--config", config).returncode == 0
        for path, expected in stored.items():
            folder = out / "versions" / path[1:]
            assert [(folder / f"v{n}").read_bytes() for n in range(1, 7)] == expected
            assert (folder / "archive-state").read_bytes() == b"true\n"
        assert run("verify", "--config", config).returncode == 0

    def test_interrupted_it_ends_at_once(self, a_tree: MakeTree, world: Any, config: Path, versions: Versions) -> None:
        """Its source is a server that never answers, so only the interrupt can end it before its own time is up."""
        with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as silent:
            silent.bind(("127.0.0.1", 0))
            silent.settimeout(20)
            process = subprocess.Popen(
                [COMMAND, "import", f"mark://127.0.0.1:{silent.getsockname()[1]}/", "--config", str(config)],
                stdout=subprocess.DEVNULL,
                stderr=subprocess.PIPE,
                text=True,
            )
            silent.recv(2048)
            process.send_signal(signal.SIGINT)
            _, said = process.communicate(timeout=20)
        assert process.returncode not in (0, -signal.SIGINT)
        assert "Aborted" in said
        assert "Traceback" not in said
        tree = a_tree()
        tree.document("/a.md", versions("a\n", "b\n"))
        assert report_of("import", tree.root, "--config", config)["code"] == 0

    @pytest.mark.parametrize(
        ("arguments", "said"),
        [
            (("mark://localhost:1/", "--as", "folder"), "named as mark://"),
            (("{tree}", "--as", "server"), "named as mark://"),
            (("{tree}/nothing",), "nothing"),
            (("{tree}", "--into", "nowhere"), "--into"),
            (("mark://nobody@/",), "mark://nobody@/"),
        ],
    )
    def test_what_can_t_be_meant_is_said(
        self, a_tree: MakeTree, config: Path, arguments: tuple[str, ...], said: str
    ) -> None:
        tree = a_tree()
        done = run("import", *(text.format(tree=tree.root) for text in arguments), "--config", config)
        assert done.returncode in (1, 2)
        assert said in done.stderr
        assert "Traceback" not in done.stderr

    def test_verify_finds_nothing_wrong_with_what_came_in(
        self, a_tree: MakeTree, config: Path, versions: Versions
    ) -> None:
        tree = a_tree()
        tree.document("/pruned.md", versions("c\n", "d\n", first=3), first=3)
        tree.document("/gone.md", archive_state=b"true\n")
        march = versions("one\n", metadata={})[0].replace(b"archived: false", b"archived: true")
        tree.document("/march.md", [march], legacy=True)
        assert report_of("import", tree.root, "--config", config)["archived"] == 2
        done = run("verify", "--config", config)
        assert done.returncode == 0, done.stdout + done.stderr

    def test_the_world_s_quota_holds(self, a_tree: MakeTree, world: Any, config: Path) -> None:
        tree = a_tree()
        for number in range(5):
            tree.document(f"/{number}.md")
        world.write_config(limits={"maxDocuments": 3})
        told = report_of("import", tree.root, "--config", config)
        assert (told["code"], told["documents"], told["refused"]) == (1, 3, 2)
        assert all("maxDocuments" in refusal["reason"] for refusal in told["refusals"])

    def test_a_store_that_has_to_be_there_is_not_made(self, a_tree: MakeTree, world: Any, config: Path) -> None:
        tree = a_tree()
        tree.document("/tea.md")
        world.write_config(expect={"history": world.config["identity"]["history"], "minSize": 1})
        done = run("import", tree.root, "--config", config)
        assert done.returncode == 1
        assert "Traceback" not in done.stderr
        assert not (world.store / "world.json").exists()

    def test_a_world_in_memory_is_refused(self, a_tree: MakeTree, start_world: Callable[..., Any]) -> None:
        world = start_world(begin=False, store={"memory": {}})
        done = run("import", a_tree().root, "--config", world.folder / "world.yaml")
        assert (done.returncode, "store.memory" in done.stderr) == (2, True)

    def test_a_repository_and_a_folder_are_seen_for_what_they_are(self, a_tree: MakeTree, config: Path) -> None:
        plain, repository = a_tree("plain"), a_tree("repository")
        plain.file("tea.md", b"# Tea\n")
        repository.file("cup.md", b"# Cup\n")
        for command in (
            ["init", "-q"],
            ["add", "-A"],
            ["-c", "user.name=a", "-c", "user.email=a@b", "commit", "-q", "-m", "x"],
        ):
            subprocess.run(["git", *command], cwd=repository.root, check=True)
        assert "a folder" in run("import", plain.root, "--config", config).stderr
        assert "a git repository" in run("import", repository.root, "--config", config).stderr
        assert report_of("import", plain.root, "--config", config)["present"] == 1


class TestExport:
    def test_a_store_that_is_not_there_is_not_made(self, world: Any, config: Path, tmp_path: Path) -> None:
        done = run("export", tmp_path / "out", "--config", config)
        assert done.returncode == 2
        assert "no store" in done.stderr
        assert not (tmp_path / "out").exists()
        assert list((world.folder / "data").iterdir()) == []

    def test_a_target_that_can_t_be_written_is_named(self, a_tree: MakeTree, config: Path, tmp_path: Path) -> None:
        tree = a_tree()
        tree.document("/tea.md")
        run("import", tree.root, "--config", config)
        (tmp_path / "file").write_bytes(b"x")
        done = run("export", tmp_path / "nowhere" / "out", "--config", config)
        assert done.returncode == 1
        assert str(tmp_path / "nowhere") in done.stderr


class TestProgress:
    def test_a_terminal_shows_a_bar_and_nobody_else_does(self, a_tree: MakeTree, config: Path) -> None:
        tree = a_tree()
        tree.document("/tea.md", [encode_version(1, None, {}, b"x\n")])
        assert "\r" not in run("import", tree.root, "--config", config).stderr
        leader, follower = pty.openpty()
        process = subprocess.Popen(
            [COMMAND, "import", str(tree.root), "--config", str(config)],
            stdout=subprocess.DEVNULL,
            stderr=follower,
            env={**os.environ, "NO_COLOR": "1", "COLUMNS": "120"},
        )
        os.close(follower)
        shown = b""
        try:
            while part := os.read(leader, 4096):
                shown += part
        except OSError:
            pass  # the other end is closed
        os.close(leader)
        assert process.wait() == 0
        assert b"importing" in shown
        assert b"\x1b[3" not in shown

    @pytest.mark.parametrize("columns", [10, 40, 200])
    def test_a_line_fits_and_colour_is_only_the_bar_s(self, columns: int) -> None:
        state = progress.State(verb="importing", done=5, total=10, versions=70, refused=1)
        plain = progress.line(state, seconds=7, columns=columns, colour=False)
        assert len(plain) < columns
        coloured = progress.line(state, seconds=7, columns=columns, colour=True)
        assert coloured.replace("\x1b[36m", "").replace("\x1b[0m", "") == plain
        if columns == 200:
            assert plain == "importing [##############--------------] 5/10 documents, 70 versions, 10/s, 1 refused"

    def test_without_a_total_there_is_no_bar(self) -> None:
        state = progress.State(verb="importing", done=5, total=None, versions=0, refused=0)
        assert progress.line(state, seconds=0, columns=200, colour=True) == "importing 5 documents, 0 versions, -"
