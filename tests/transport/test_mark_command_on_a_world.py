"""What `mark` does with more than one request, against a real world: a process of its own, filled through the wire."""

from __future__ import annotations

import asyncio
import json
import os
import pty
import re
import signal
import subprocess
import sys
from collections.abc import Iterator
from contextlib import closing
from dataclasses import dataclass
from pathlib import Path

import pytest

from mark_protocol.client.client import MarkClient
from mark_protocol.client.pool import Pool
from mark_protocol.tokens import hash_token
from mark_protocol.transport.port import Trust

BIN = Path(sys.executable).parent

DOCUMENTS = {
    "/index.md": ["# Hub\n\nSee [tea](notes/tea.md#green), [tea again](/notes/tea.md) and <https://example.com/>.\n"],
    "/roadmap.md": ["# Roadmap\n" + "x" * 5000 + "\n"],
    "/notes/tea.md": [
        "# Tea\n",
        "# Tea\n\nBoil.\n\n## Green\n\n80 degrees. See [pots](pots.md).\n\n## Black\n\nLong.\n",
    ],
    "/notes/pots.md": [
        "# Pots\n\n```\n[no link](nowhere.md)\n```\n\nBack to [tea](./tea.md), or to [lost][1].\n\n[1]: lost.md\n",
    ],
    "/journal/2026/2026-11-29.md": ["# Sunday\n"],
    "/journal/2026/2026-11-30.md": ["# Monday\n"],
    "/journal/2025/2025-01-01.md": ["# New year\n"],
    "/journal/2024-05-05.md": ["# Long ago\n"],
}


@dataclass(frozen=True)
class Ran:
    """What became of a command."""

    code: int
    out: str
    err: str


@dataclass(frozen=True)
class World:
    """A world of `DOCUMENTS` whose history is a compatible one, and everything that `mark` needs for it."""

    root: Path
    port: int

    def url(self, path: str = "/") -> str:
        return f"mark://localhost:{self.port}{path}"

    def environment(self, **more: str) -> dict[str, str]:
        ours = {"DEMARKUS_CA": str(self.root / "world-dev.crt"), "DEMARKUS_AUTH": "writer"}
        return {key: value for key, value in os.environ.items() if not key.startswith("DEMARKUS_")} | ours | more

    def mark(self, *arguments: str, **environment: str) -> Ran:
        done = subprocess.run(
            [BIN / "mark", *arguments],
            capture_output=True,
            text=True,
            stdin=subprocess.DEVNULL,
            timeout=60,
            env=self.environment(**environment),
        )
        return Ran(done.returncode, done.stdout, done.stderr)


def entry(label: str, *operations: str) -> str:
    words = ", ".join(f'"{word}"' for word in operations)
    return f'[tokens.{label}]\nhash = "{hash_token(label)}"\npaths = ["/**"]\noperations = [{words}]\n'


async def fill(world: World) -> None:
    pool = Pool([("127.0.0.1", world.port)], server_name="localhost", trust=Trust(insecure=True), size=1)
    client = MarkClient(pool, auth="writer")
    for path, bodies in DOCUMENTS.items():
        for body in bodies:
            written = await client.publish(path, body.encode(), metadata={"tags": "a, b", "title": "x: #y"})
            assert written.status == "created", written
    await pool.close()


@pytest.fixture(scope="module")
def world(tmp_path_factory: pytest.TempPathFactory) -> Iterator[World]:
    root = tmp_path_factory.mktemp("world")
    tokens = root / "tokens.toml"
    tokens.write_text(entry("writer", "publish", "read") + entry("reviewer", "publish", "review", "read"))
    process = subprocess.Popen(
        [BIN / "demarkus-world", "serve", "--root", root, "--port", "0", "--tokens", tokens],
        stdin=subprocess.DEVNULL,
        stderr=subprocess.PIPE,
        text=True,
        env={**os.environ, "DEMARKUS_RATE_LIMIT": "0"},
    )
    assert process.stderr is not None
    log: list[str] = []
    for line in process.stderr:
        log.append(line)
        if found := re.search(r"'mark': '\[::\]:(\d+)'", line):
            break
    else:
        raise AssertionError(f"the world does not start: {log}")
    made = World(root, int(found[1]))
    asyncio.run(fill(made))
    yield made
    process.send_signal(signal.SIGTERM)
    process.communicate(timeout=60)


def test_a_section_is_fetched_with_all_below_it(world: World) -> None:
    assert world.mark("fetch", world.url("/notes/tea.md#black")) == Ran(0, "## Black\n\nLong.\n", "")
    assert world.mark("fetch", world.url("/notes/tea.md#tea")).out == DOCUMENTS["/notes/tea.md"][1]
    ran = world.mark("fetch", world.url("/notes/tea.md#red"))
    assert ran == Ran(1, "", "Error: there is no section #red; sections: #tea #green #black\n")


def test_histories_are_verified(world: World) -> None:
    ran = world.mark("verify", world.url("/notes/tea.md"))
    assert (ran.code, ran.err) == (0, "1 documents, 2 versions, 0 findings\n")
    assert re.fullmatch(r"intact /notes/tea\.md v1-v2 [0-9a-f]{64}\n", ran.out)
    told = json.loads(world.mark("verify", world.url("/notes/"), "--json").out)
    assert told["intact"] is True
    assert [(found["path"], found["versions"]) for found in told["documents"]] == [
        ("/notes/pots.md", [1]),
        ("/notes/tea.md", [1, 2]),
    ]
    ran = world.mark("verify", world.url("/none.md"))
    assert ran == Ran(1, "", "VERSIONS /none.md: not-found: /none.md not found\n")


def test_the_primer_has_hub_newest_entries_and_roadmap(world: World) -> None:
    ran = world.mark("context", world.url())
    assert ran.code == 0
    places = [line[4:] for line in ran.out.splitlines() if line.startswith(">>> ")]
    assert places == [
        world.url("/index.md/v1"),
        world.url("/journal/2026/2026-11-30.md/v1"),
        world.url("/journal/2026/2026-11-29.md/v1"),
        world.url("/journal/2025/2025-01-01.md/v1"),
        world.url("/roadmap.md/v1"),
    ]
    assert "[clipped: 4000 of 5011 bytes]" in ran.out
    assert world.mark("context", world.url("/notes")).code == 1


def test_links_are_followed_and_counted(world: World) -> None:
    ran = world.mark("graph", world.url("/index.md"), "--depth", "2", "--json")
    told = json.loads(ran.out)
    assert {node["url"]: (node["status"], node["links"]) for node in told["nodes"]} == {
        "https://example.com/": ("external", 0),
        world.url("/index.md"): ("ok", 2),
        world.url("/notes/lost.md"): ("unvisited", 0),
        world.url("/notes/pots.md"): ("ok", 2),
        world.url("/notes/tea.md"): ("ok", 1),
    }
    edges = {(edge["source"], edge["target"]): edge for edge in told["edges"]}
    tea = edges[world.url("/index.md"), world.url("/notes/tea.md")]
    assert (tea["label"], tea["anchor"], tea["count"]) == ("tea", "hub", 2)
    ran = world.mark("graph", world.url("/index.md"), "--depth", "1")
    assert ran.out.startswith("# Document Graph\n\n> Exported: 2")
    assert "> Nodes: 4\n> Edges: 3\n" in ran.out


def test_a_tree_of_files_is_written_once(world: World, tmp_path: Path) -> None:
    folder = tmp_path / "out"
    assert world.mark("export", world.url(), str(folder)) == Ran(0, "8 written, 0 unchanged, 0 failed\n", "")
    there = {f"/{file.relative_to(folder)}": file.read_text() for file in folder.rglob("*") if file.is_file()}
    assert there == {path: bodies[-1] for path, bodies in DOCUMENTS.items()}
    (folder / "index.md").write_text("mine")
    ran = world.mark("export", world.url(), str(folder))
    assert (ran.code, ran.out) == (1, "0 written, 7 unchanged, 1 failed\n")
    assert "index.md holds something else; --overwrite replaces it" in ran.err
    assert (folder / "index.md").read_text() == "mine"


def test_documents_are_looked_up(world: World) -> None:
    ran = world.mark("lookup", world.url("/notes/"), "tea", "--match", "body", "--limit", "3", "--json")
    assert ran.code == 0, ran
    told = json.loads(ran.out)
    assert told["matches"]
    assert {found["path"] for found in told["matches"]} <= {"/notes/tea.md", "/notes/pots.md"}
    ran = world.mark("lookup", world.url(), "*", "--limit", "2")
    assert (ran.code, len([line for line in ran.out.splitlines() if line.startswith("| /")])) == (0, 2)


def test_changes_are_printed_until_enough_or_interrupted(world: World) -> None:
    watching = subprocess.Popen(
        [BIN / "mark", "watch", world.url("/watched/"), "--json", "--since", "old:1"],
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        env=world.environment(),
    )
    assert watching.stdout is not None
    # A cursor of another time is answered with where the world is now, so the watch is known to be open.
    assert "resync" in json.loads(watching.stdout.readline())
    assert world.mark("publish", world.url("/watched/a.md"), "--body", "x").code == 0
    change = json.loads(watching.stdout.readline())
    assert (change["path"], change["version"], change["op"]) == ("/watched/a.md", 1, "publish")
    watching.send_signal(signal.SIGINT)
    out, err = watching.communicate(timeout=60)
    assert (watching.returncode, out, err) == (0, "", f"go on: --since {change['cursor']}\n")
    before = change["cursor"].rpartition(":")
    ran = world.mark("watch", world.url("/watched/"), "--since", f"{before[0]}:{int(before[2]) - 1}", "--count", "1")
    assert (ran.code, ran.out.split()[:3]) == (0, ["publish", "/watched/a.md", "v1"])


def test_a_watch_of_nothing_that_listens_ends_at_once(world: World) -> None:
    ran = world.mark("watch", "mark://localhost:1/", "--timeout", "2")
    assert ran.code == 1
    assert "Traceback" not in ran.err


def test_a_proposal_is_listed_and_decided(world: World) -> None:
    policy = "/.well-known/demarkus/policy.md"
    body = "# Policy\n\nstrictness: ask\n"
    assert world.mark("publish", world.url(policy), "--body", body, "-m", "tags=policy").code == 0
    try:
        ran = world.mark("publish", world.url("/proposed.md"), "--body", "# New\n")
        assert ran.code == 1, ran
        listed = world.mark("proposals", world.url())
        name, _, target = listed.out.split()
        assert target == "/proposed.md"
        assert ran.err.startswith(f"proposal: {name}\nbad-request: publish policy (ask) refused this write:\n")
        ran = world.mark("proposals", world.url(), "--accept", name, DEMARKUS_AUTH="reviewer")
        assert ran == Ran(0, f"accepted: {name}\n", "")
        assert world.mark("fetch", world.url("/proposed.md")).out == "# New\n"
        assert world.mark("proposals", world.url()) == Ran(0, "", "no proposals\n")
    finally:
        world.mark("publish", world.url(policy), "--body", "strictness: warn\n", "-m", "tags=policy")


def test_a_long_work_shows_how_far_it_is_only_on_a_terminal(world: World) -> None:
    keyboard, terminal = pty.openpty()
    with closing(os.fdopen(keyboard, "rb", buffering=0)) as screen:
        done = subprocess.run(
            [BIN / "mark", "verify", world.url("/notes/")],
            stdin=terminal,
            stdout=subprocess.PIPE,
            stderr=terminal,
            timeout=60,
            env=world.environment(NO_COLOR="1"),
        )
        os.close(terminal)
        shown = screen.read(4096)
    assert done.returncode == 0
    assert b"versions checked: 1" in shown
    assert b"\x1b[3" not in done.stdout + shown


@pytest.mark.parametrize("shell", ["bash", "zsh", "fish"])
def test_a_shell_completes_commands(world: World, shell: str) -> None:
    ran = world.mark("completion", shell)
    assert ran.code == 0
    assert f"_MARK_COMPLETE={shell}_complete" in ran.out
    words = {"COMP_WORDS": "mark ver", "COMP_CWORD": "1"}
    assert world.mark(_MARK_COMPLETE="bash_complete", **words).out.split() == ["plain,verify", "plain,versions"]
