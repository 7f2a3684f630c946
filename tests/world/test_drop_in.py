"""`demarkus-world serve --root`: a folder served without a configuration file, as a Go server would serve it."""

from __future__ import annotations

import json
import os
import re
import signal
import subprocess
import sys
import time
import tomllib
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from pathlib import Path

import pytest

from mark_protocol.client.client import MarkClient
from mark_protocol.client.pool import Pool
from mark_protocol.response import Response
from mark_protocol.tokens import hash_token
from mark_protocol.transport.port import Trust
from mark_protocol.versions import encode_version, etag

COMMAND = str(Path(sys.executable).with_name("demarkus-world"))
TOKENS = f'[tokens.kettle]\nhash = "{hash_token("secret")}"\npaths = ["/**"]\noperations = ["publish"]\n'


def environment(**variables: str) -> dict[str, str]:
    return {key: value for key, value in os.environ.items() if not key.startswith("DEMARKUS_")} | variables


def refused(*arguments: str, **variables: str) -> tuple[int, str]:
    """A start that is expected to fail: its exit code, and what it says in one line."""
    ended = subprocess.run(
        [COMMAND, "serve", *arguments],
        capture_output=True,
        text=True,
        timeout=60,
        stdin=subprocess.DEVNULL,
        env=environment(**variables),
    )
    assert "Traceback" not in ended.stderr
    return ended.returncode, ended.stderr.splitlines()[-1]


@dataclass
class Served:
    """A folder that is served; `log` is what the server has said so far."""

    root: Path
    process: subprocess.Popen[str]
    port: int
    log: list[str] = field(default_factory=list)

    async def ask(self, call: Callable[[MarkClient], object]) -> Response:
        trust = Trust(roots=(self.root / "world-dev.crt").read_bytes())
        pool = Pool([("127.0.0.1", self.port)], server_name="localhost", trust=trust, size=1)
        try:
            return await call(MarkClient(pool, auth="secret"))  # type: ignore[misc]
        finally:
            await pool.close()

    def stop(self) -> None:
        self.process.send_signal(signal.SIGTERM)
        assert self.process.wait(30) == 0


@pytest.fixture
def served(tmp_path: Path) -> Iterator[Callable[..., Served]]:
    """Serves a folder on a free port; `served(root, *arguments, VARIABLE=...)`."""
    processes: list[subprocess.Popen[str]] = []

    def start(root: Path, *arguments: str, **variables: str) -> Served:
        process = subprocess.Popen(
            [COMMAND, "serve", "-root", str(root), "-port", "0", *arguments],
            stdin=subprocess.DEVNULL,
            stderr=subprocess.PIPE,
            text=True,
            env=environment(**variables),
        )
        processes.append(process)
        log: list[str] = []
        deadline = time.monotonic() + 60
        assert process.stderr is not None
        for line in process.stderr:
            log.append(line)
            if "serving" in line:
                break
            assert time.monotonic() < deadline, log
        found = re.search(r"'mark': '\[::\]:(\d+)'", log[-1])
        assert found, log
        return Served(root, process, int(found[1]), log)

    yield start
    for process in processes:
        if process.poll() is None:
            process.kill()
        process.communicate()


@pytest.fixture
def tokens(tmp_path: Path) -> Path:
    file = tmp_path / "tokens.toml"
    file.write_text(TOKENS)
    return file


def go_tree(root: Path) -> str:
    """A tree with one document of two versions, and a plain file; the etag of the newest version."""
    versions = root / "docs" / "versions" / "guide.md"
    versions.mkdir(parents=True)
    first = encode_version(1, None, {"type": "Document"}, b"# Guide\n")
    second = encode_version(2, etag(first), {"type": "Document"}, b"# Guide\n\nMore.\n")
    (versions / "v1").write_bytes(first)
    (versions / "v2").write_bytes(second)
    (root / "docs" / "guide.md").symlink_to("versions/guide.md/v2")
    (root / "docs" / "flat.md").write_text("no document")
    return etag(second)


def tree(root: Path) -> dict[str, bytes]:
    return {str(file.relative_to(root)): file.read_bytes() for file in (root / "docs").rglob("*") if file.is_file()}


class TestFolder:
    async def test_a_go_tree_is_taken_over_once_and_stays_as_it_is(
        self, tmp_path: Path, tokens: Path, served: Callable[..., Served]
    ) -> None:
        root = tmp_path / "root"
        newest = go_tree(root)
        before = tree(root)
        world = served(root, "-tokens", str(tokens))
        fetched = await world.ask(lambda client: client.fetch("/docs/guide.md"))
        assert (fetched.status, fetched.metadata["etag"], fetched.metadata["version"]) == ("ok", newest, "2")
        assert (await world.ask(lambda client: client.fetch("/docs/flat.md"))).status == "not-found"
        history = await world.ask(lambda client: client.versions("/docs/guide.md"))
        assert history.metadata == {"total": "2", "current": "2", "chain-valid": "true"}
        written = await world.ask(lambda client: client.publish("/docs/guide.md", b"# Ours\n", expected_version=2))
        assert written.status == "created"
        world.process.send_signal(signal.SIGHUP)
        assert (await world.ask(lambda client: client.fetch("/health"))).status == "ok"
        world.stop()
        assert tree(root) == before
        assert not (root / "world.import").exists()

        again = served(root, DEMARKUS_READ_ONLY="yes", DEMARKUS_TOKENS=str(tokens))
        fetched = await again.ask(lambda client: client.fetch("/docs/guide.md"))
        assert (fetched.metadata["version"], fetched.body) == ("3", b"# Ours\n")
        refusal = await again.ask(lambda client: client.archive("/docs/guide.md"))
        assert (refusal.status, b"server is read-only" in refusal.body) == ("not-permitted", True)
        again.stop()

    def test_an_import_that_was_killed_is_never_served_half(
        self, tmp_path: Path, served: Callable[..., Served]
    ) -> None:
        root = tmp_path / "root"
        go_tree(root)
        # As a killed import leaves it: a store that is begun, and not in its place.
        served(root).stop()
        (root / "world.import").mkdir()
        (root / "world").rename(root / "world.import" / "world")
        identity = (root / "world.import" / "world" / "world.json").read_bytes()
        served(root).stop()
        assert (root / "world" / "world.json").read_bytes() == identity
        assert not (root / "world.import").exists()

    def test_c_37_a_folder_that_is_missing_is_a_start_up_error(self, tmp_path: Path) -> None:
        code, said = refused("--root", str(tmp_path / "nowhere"))
        assert (code, "nowhere: it does not exist" in said) == (2, True)
        assert not (tmp_path / "nowhere").exists()

    def test_a_20_a_token_file_that_is_missing_is_a_start_up_error(self, tmp_path: Path) -> None:
        code, said = refused("--root", str(tmp_path), DEMARKUS_TOKENS=str(tmp_path / "none.toml"))
        assert (code, "none.toml: there is no such file" in said) == (2, True)
        assert list(tmp_path.iterdir()) == []

    def test_documents_where_the_store_would_be_are_left_alone(self, tmp_path: Path) -> None:
        (tmp_path / "world").mkdir()
        (tmp_path / "world" / "a.md").write_text("ours")
        code, said = refused("--root", str(tmp_path))
        assert (code, "world/ holds documents" in said) == (2, True)
        assert [file.name for file in tmp_path.rglob("*")] == ["world", "a.md"]

    @pytest.mark.parametrize(
        ("variables", "message"),
        [
            ({"DEMARKUS_IDLE_TIMEOUT": "soon"}, "such as 10s or 1m30s"),
            ({"DEMARKUS_MAX_STREAMS": "0"}, "0 is not in the range"),
            ({"DEMARKUS_TLS_CERT": "cert.pem"}, "belong together"),
        ],
    )
    def test_a_variable_that_means_nothing_is_an_error(
        self, tmp_path: Path, variables: dict[str, str], message: str
    ) -> None:
        code, said = refused("--root", str(tmp_path), **variables)
        assert (code, message in said) == (2, True), said


class TestTokens:
    def run(self, *arguments: str) -> subprocess.CompletedProcess[str]:
        return subprocess.run(
            [COMMAND, "token", *arguments], capture_output=True, text=True, timeout=60, env=environment()
        )

    def test_a_token_is_shown_once_and_others_stay(self, tmp_path: Path) -> None:
        file = tmp_path / "tokens.toml"
        file.write_text("# ours\n" + TOKENS)
        made = self.run(
            "make", "new one", "--tokens", str(file), "--path", "/a/**", "--operations", "read,write", "--expires", "9d"
        )
        raw = made.stdout.strip()
        assert (made.returncode, len(raw)) == (0, 64)
        text = file.read_text()
        assert text.startswith("# ours\n" + TOKENS)
        assert raw not in text
        assert tomllib.loads(text)["tokens"]["new one"]["hash"] == hash_token(raw)
        assert file.stat().st_mode & 0o777 == 0o600
        assert [entry.name for entry in tmp_path.iterdir()] == ["tokens.toml"]
        listed = self.run("list", "--tokens", str(file), "--json")
        assert [(entry["label"], entry["operations"]) for entry in json.loads(listed.stdout)] == [
            ("kettle", ["publish"]),
            ("new one", ["read", "write"]),
        ]
        assert "sha256-" not in self.run("list", "--tokens", str(file)).stdout

    @pytest.mark.parametrize(
        ("arguments", "message"),
        [
            (["kettle", "--path", "/**", "--operations", "read"], "there is a token 'kettle' already"),
            (["b", "--path", "notes", "--operations", "read"], "a pattern begins with /"),
            (["b", "--path", "/**", "--operations", "reed"], "'reed' is none of read, append"),
            (["b", "--path", "/**", "--operations", "read", "--expires", "soon"], "or a span such as 90d"),
        ],
    )
    def test_what_cannot_be_added_leaves_the_file_alone(self, tokens: Path, arguments: list[str], message: str) -> None:
        made = self.run("make", *arguments, "--tokens", str(tokens))
        assert (made.returncode, made.stdout) == (2, "")
        assert message in made.stderr
        assert tokens.read_text() == TOKENS
