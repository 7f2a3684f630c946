"""`demarkus-world restore`: a world that is served again, exit codes, kill -9, buckets."""

from __future__ import annotations

import asyncio
import json
import os
import secrets
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey
from cryptography.hazmat.primitives.serialization import Encoding, NoEncryption, PrivateFormat

from demarkus_base.blobs.directory import DirectoryBlobs
from demarkus_base.tlog.tree import Edge
from demarkus_world.cli import main
from demarkus_world.engine import keys
from demarkus_world.engine.engine import Engine, Identity, Write
from demarkus_world.engine.notes import WorldKey
from dev.gcs.process import StandIn, started
from mark_protocol.versions import encode_version

IDENTITY = Identity("0a" * 16, "1b" * 16)
"""As the configuration has it."""

COMMAND = str(Path(sys.executable).with_name("demarkus-world"))
MakeTree = Callable[..., Any]


def run(*arguments: object) -> subprocess.CompletedProcess[str]:
    """The command, to its end, in this process; anything but an orderly end is raised."""
    done = CliRunner().invoke(main, [*map(str, arguments)])
    if done.exception is not None and not isinstance(done.exception, SystemExit):
        raise done.exception
    return subprocess.CompletedProcess(arguments, done.exit_code, done.stdout, done.stderr)


@pytest.fixture
def empty(tmp_path: Path) -> Path:
    """The mount of a volume with nothing in it."""
    folder = tmp_path / "empty"
    folder.mkdir()
    return folder


@pytest.fixture
def world(start_world: Callable[..., Any], token_file: Callable[..., str]) -> Any:
    """A world that is not started."""
    return start_world(tokens=token_file(("writer", "/**", ("read", "publish"))), begin=False)


@pytest.fixture
async def mount(world: Any) -> Path:
    """Its volume, with two versions of /tea.md, written a second apart."""
    folder = Path(world.folder / "data")
    blobs = await DirectoryBlobs.open(folder / "world")
    times = iter(range(1_790_000_000_000, 1_800_000_000_000, 1000))
    engine = await Engine.open(blobs, IDENTITY, now=lambda: next(times), random=secrets.token_bytes)
    for body in (b"# Tea\n", b"# Tea\n\nGreen.\n"):
        await engine.write(Write(op="publish", path="/tea.md", body=body, by="writer", credential="token"))
    await engine.close()
    await blobs.close()
    return folder


async def test_a_restored_world_is_served_as_another_incarnation(world: Any, mount: Path, empty: Path) -> None:
    config = world.folder / "world.yaml"
    done = await asyncio.to_thread(run, "restore", "--from", mount, "--to", empty, "--until", 1, "--config", config)
    assert done.returncode == 0, done.stderr
    assert "restored: 1 entries of history" in done.stdout
    assert "1 more entries are known to have been there; the log says so" in done.stdout
    world.write_config(store={"directory": str(empty)})
    world.start()
    assert (world.serving["history"], world.serving["sequence"]) == (IDENTITY.history, 2)
    assert world.serving["incarnation"] != IDENTITY.incarnation, "whatever the configuration says"
    told = await world.request("FETCH", "/tea.md", auth="writer")
    assert (told.body, told.metadata["version"]) == (b"# Tea\n", "1")
    answer = await world.request("PUBLISH", "/tea.md", b"# Tea\n\nBlack.\n", auth="writer", expected_version="1")
    assert answer.status == "created"
    history = await world.request("VERSIONS", "/tea.md", auth="writer")
    assert (history.metadata["chain-valid"], history.metadata["sequence"]) == ("true", "3")
    report = json.loads((await asyncio.to_thread(run, "verify", "--store", empty, "--json")).stdout)
    assert report["intact"]
    assert [(entry["entry"], entry["parent"], entry["lost"]) for entry in report["restores"]] == [
        (2, IDENTITY.incarnation, 1)
    ]
    words = (await asyncio.to_thread(run, "verify", "--store", empty)).stdout
    assert f"restored at entry 2 from incarnation {IDENTITY.incarnation}, 1 entries known to be lost" in words


def test_the_same_again_is_done_and_another_is_refused(mount: Path, empty: Path) -> None:
    made = json.loads(run("restore", "--from", mount, "--to", empty, "--json").stdout)
    again = json.loads(run("restore", "--from", mount, "--to", empty, "--json").stdout)
    assert again == {**made, "before": True}
    assert "restored before: 2 entries" in run("restore", "--from", mount, "--to", empty).stdout
    other = run("restore", "--from", mount, "--to", empty, "--until", "1")
    assert other.returncode == 2
    assert "another restore was begun in the target: up to entry is 2 there and 1 here" in other.stderr


def test_a_time_cuts_what_was_written_later(mount: Path, empty: Path) -> None:
    slot = json.loads((mount / "world" / keys.slot(2)).read_text())
    seconds, rest = divmod(slot["entries"][0]["time"] - 1, 1000)
    instant = f"{time.strftime('%Y-%m-%dT%H:%M:%S', time.gmtime(seconds))}.{rest:03}Z"
    made = json.loads(run("restore", "--from", mount, "--to", empty, "--until", instant, "--json").stdout)
    assert (made["entries"], made["lost"]) == (1, 1)


def test_a_witness_that_says_otherwise_refuses(mount: Path, empty: Path, tmp_path: Path) -> None:
    key = Ed25519PrivateKey.generate()
    pem = tmp_path / "world.key"
    pem.write_bytes(key.private_bytes(Encoding.PEM, PrivateFormat.PKCS8, NoEncryption()))
    edge, _ = Edge().grown(b"another history".ljust(32))
    note = tmp_path / "note"
    note.write_text(WorldKey(key).note(IDENTITY, edge))
    wanted = ("restore", "--from", mount, "--to", empty, "--witness", note)
    without = run(*wanted)
    assert (without.returncode, "give --key, or --config" in without.stderr) == (2, True)
    refused = run(*wanted, "--key", pem)
    assert refused.returncode == 2
    assert "the source is not the witnessed history: its first 1 entries" in refused.stderr
    assert not (empty / "world" / keys.WORLD).exists()


@pytest.mark.parametrize(
    ("arguments", "code", "told"),
    [
        (("--to", "{empty}", "--until", "soon"), 2, "neither an entry such as 812 nor a time"),
        (("--to", "{empty}", "--until", "3"), 2, "the log of the source ends with entry 2, before entry 3"),
        (("--to", "{mount}"), 2, "there is a world in the target already"),
        (("--to", "{empty}/none"), 2, "does not exist"),
        (("--to", "gs://X"), 2, "expected gs://NAME"),
        ((), 2, "say where it is restored to"),
        (("--to", "{empty}", "--config", "{empty}/none"), 2, "No such file"),
    ],
)
def test_what_has_to_change_is_said(mount: Path, empty: Path, arguments: tuple[str, ...], code: int, told: str) -> None:
    done = run("restore", "--from", mount, *(text.format(empty=empty, mount=mount) for text in arguments))
    assert (done.returncode, told in done.stderr) == (code, True), done.stderr
    assert not (empty / "world" / keys.WORLD).exists()


def test_a_damaged_source_is_told_and_nothing_is_made(mount: Path, empty: Path) -> None:
    [blob] = (mount / "world" / "docs" / "tea.md").glob("v1-*")
    blob.write_bytes(blob.read_bytes().replace(b"Tea", b"Toe"))
    done = run("restore", "--from", mount, "--to", empty)
    assert done.returncode == 1
    assert "the source is damaged: the oldest retained version of /tea.md (version 1) was altered" in done.stderr
    assert not (empty / "world" / keys.WORLD).exists()


def test_a_restore_that_is_killed_is_finished_by_the_next_and_not_served_before(
    a_tree: MakeTree, world: Any, empty: Path, wait_until: Callable[..., Any]
) -> None:
    tree = a_tree()
    for number in range(150):
        tree.document(f"/{number}.md", [encode_version(1, None, {"type": "note"}, b"%d\n" % number)])
    assert run("import", tree.root, "--config", world.folder / "world.yaml").returncode == 0
    source = world.folder / "data"
    command = [COMMAND, "restore", "--from", str(source), "--to", str(empty)]
    killed = 0
    for objects in (20, 90):
        restoring = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE)

        def enough(objects: int = objects, restoring: Any = restoring) -> bool:
            found = sum(len(files) for folder, _, files in os.walk(empty / "world") if not folder.endswith("/tmp"))
            return found > objects or restoring.poll() is not None

        wait_until("objects of the restored store", enough, deadline=60)
        restoring.send_signal(signal.SIGKILL)
        restoring.communicate()
        if not list((empty / "world" / "log").glob("*")) and (empty / "world" / keys.WORLD).exists():
            killed += 1
    assert killed, "none of them was killed in the middle"
    world.write_config(store={"directory": str(empty)})
    world.start(wait=False)
    assert world.process.wait(60) == 1
    assert "its restore broke off: nothing is served" in (world.folder / "log").read_text()
    assert run("restore", "--from", source, "--to", empty).returncode == 0
    assert run("verify", "--store", empty).returncode == 0


@pytest.fixture
def stand_in() -> Iterator[StandIn]:
    """Two empty buckets, `kettles` and `copies`."""
    with started("kettles", "copies") as running:
        yield running


def test_from_a_volume_to_a_bucket_and_back(world: Any, mount: Path, empty: Path, stand_in: StandIn) -> None:
    world.write_config(store={"gcs": {"url": "gs://kettles/tea", "service": stand_in.address}})
    config = world.folder / "world.yaml"
    done = run("restore", "--from", mount, "--config", config)
    assert done.returncode == 0, done.stderr
    assert run("verify", "--config", config).returncode == 0
    back = run("restore", "--from", "gs://kettles/tea", "--to", empty, "--config", config, "--json")
    assert back.returncode == 0, back.stderr
    assert json.loads(back.stdout)["entries"] == 3, "the first restore is an entry, too"
    assert run("verify", "--store", empty).returncode == 0
