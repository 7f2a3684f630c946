"""`demarkus-world prune` and `sweep`: through the world that serves, without one, beside many on a bucket."""

import asyncio
import contextlib
import json
import os
import pwd
import socket
import stat
import subprocess
import sys
from collections.abc import Callable
from hashlib import sha256
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner, Result

from demarkus_world.cli import main
from dev.gcs.process import started

COMMAND = str(Path(sys.executable).with_name("demarkus-world"))
ME = pwd.getpwuid(os.getuid()).pw_name
ADMIN = ("admin", "/**", ("publish", "prune"))


async def command(world: Any, verb: str, *arguments: str) -> Result:
    """Runs it in this process, off the loop, as it has one of its own."""
    config = str(world.folder / "world.yaml")
    return await asyncio.to_thread(CliRunner().invoke, main, [verb, *arguments, "--config", config])


async def done(world: Any, verb: str, *arguments: str) -> Any:
    ended = await command(world, verb, *arguments, "--json")
    assert ended.exit_code == 0, ended.stderr
    return json.loads(ended.stdout)


def bodies(world: Any) -> list[str]:
    return sorted(path.name.split("-")[0] for path in (world.store / "docs").rglob("*.md") if path.is_file())


def entries(world: Any) -> list[dict[str, Any]]:
    return [
        entry for slot in sorted((world.store / "log").iterdir()) for entry in json.loads(slot.read_text())["entries"]
    ]


async def versions(world: Any, count: int, path: str = "/a.md") -> None:
    for number in range(count):
        assert (await world.request("PUBLISH", path, b"body %d\n" % number, auth="admin")).status == "created"


@pytest.fixture
def world(start_world: Callable[..., Any], token_file: Callable[..., str]) -> Callable[..., Any]:
    """Starts a world whose sweeps find what is free at once, unless a test says otherwise."""

    def start(**fields: Any) -> Any:
        fields = {"reads": "public", "retention": {"grace": "0s"}, **fields}
        return start_world(tokens=token_file(ADMIN), **fields)

    return start


@pytest.mark.parametrize("served", [True, False], ids=["a world serves", "nobody serves"])
async def test_bodies_of_pruned_versions_really_go(world: Callable[..., Any], served: bool) -> None:
    kettles = world()
    await versions(kettles, 5)
    if not served:
        kettles.stop()
    assert await done(kettles, "prune", "/a.md", "--keep", "2") == {"path": "/a.md", "newest": 5, "first": 1, "last": 3}
    assert len(bodies(kettles)) == 5
    assert (await done(kettles, "sweep"))["deleted"] == 3
    assert bodies(kettles) == ["v4", "v5"]
    if not served:
        kettles.start()
    assert (await kettles.request("FETCH", "/a.md/v3")).status == "not-found"
    assert (await kettles.request("FETCH", "/a.md/v4")).status == "ok"
    listed = (await kettles.request("VERSIONS", "/a.md", auth="admin")).metadata
    assert (listed["chain-valid"], listed["chain-state"], listed["first-retained"]) == ("true", "pruned", "4")
    prune, sweep = entries(kettles)[-2:]
    assert (prune["op"], prune["by"], prune["credential"]) == ("prune", f"local:{ME}", "local")
    assert (sweep["op"], sweep["by"], sweep["blobs"]) == ("sweep", f"local:{ME}", 3)


async def test_words_say_what_was_done(world: Callable[..., Any]) -> None:
    kettles = world(retention={"grace": "24h"})
    await versions(kettles, 4)
    said = await command(kettles, "prune", "/a.md", "--before", "2")
    assert said.stdout == "/a.md: version 1 pruned; its newest version is 4\n"
    said = await command(kettles, "prune", "/a.md", "--before", "2099-01-01T00:00:00Z", "--keep", "2")
    assert said.stdout == "/a.md: version 2 pruned; its newest version is 4\n"
    assert (await command(kettles, "prune", "/a.md", "--keep", "2")).stdout.startswith("/a.md: nothing to prune")
    said = await command(kettles, "sweep")
    assert said.stdout.startswith("0 bodies deleted\n2 more are not needed; they can be deleted from 20")
    said = await command(kettles, "prune", "/a.md", "--keep", "1", "--erase")
    assert said.stdout == "/a.md: version 3 pruned; its newest version is 4\n3 bodies erased\n"
    assert bodies(kettles) == ["v4"]


async def test_who_asks_is_what_the_kernel_says(world: Callable[..., Any]) -> None:
    kettles = world()
    await versions(kettles, 2)
    arguments = ["prune", "/a.md", "--keep", "1", "--config", str(kettles.folder / "world.yaml")]
    forged = {**os.environ, "USER": "eve", "LOGNAME": "eve"}
    await asyncio.to_thread(
        subprocess.run, [COMMAND, *arguments], check=True, timeout=60, stdin=subprocess.DEVNULL, env=forged
    )
    assert entries(kettles)[-1]["by"] == f"local:{ME}"


@pytest.mark.parametrize("served", [True, False], ids=["a world serves", "nobody serves"])
async def test_what_is_refused_is_one_line_and_nothing_happens(world: Callable[..., Any], served: bool) -> None:
    floors = {
        "keepVersions": 2,
        "keepFor": "90d",
        "holds": [{"paths": ["/held/**"], "reason": "case 12"}],
    }
    kettles = world(retention={"grace": "0s", **floors})
    await versions(kettles, 3)
    await versions(kettles, 3, "/held/a.md")
    if not served:
        kettles.stop()
    for arguments, message, code in [
        (["/none.md", "--keep", "1"], "/none.md does not exist", 1),
        (["a.md", "--keep", "1"], "a.md is no path of a document", 1),
        (["/a.md"], "--before, --keep, or both", 2),
        (["/a.md", "--keep", "0"], "", 2),
        (["/a.md", "--before", "yesterday"], "neither a version", 2),
        (["/a.md", "--keep", "1"], "(retention.keepVersions)", 1),
        (["/a.md", "--keep", "2"], "(retention.keepFor)", 1),
        (["/held/a.md", "--keep", "2"], "/held/a.md is on hold: case 12", 1),
        (["/held/a.md", "--keep", "2", "--erase"], "/held/a.md is on hold: case 12", 1),
    ]:
        ended = await command(kettles, "prune", *arguments)
        assert ended.exit_code == code, arguments
        assert message in ended.stderr
        assert code == 2 or len(ended.stderr.splitlines()) == 1
    assert len(entries(kettles)) == 6


async def test_rules_that_change_while_a_world_runs_bind_at_once(
    world: Callable[..., Any], wait_until: Callable[..., Any]
) -> None:
    kettles = world()
    await versions(kettles, 2)
    kettles.write_config(retention={"holds": [{"paths": ["/a.md"], "reason": "case 12"}]})
    wait_until("the new rules", lambda: kettles.health()["loaded"]["config"] == digest(kettles))
    assert "case 12" in (await command(kettles, "prune", "/a.md", "--keep", "1")).stderr


def digest(world: Any) -> str:
    return sha256((world.folder / "world.yaml").read_bytes()).hexdigest()


async def test_the_socket_is_its_users_alone_and_goes_with_the_world(world: Callable[..., Any]) -> None:
    kettles = world()
    found = (kettles.folder / "data" / "control.sock").stat()
    assert stat.S_ISSOCK(found.st_mode)
    assert stat.S_IMODE(found.st_mode) == 0o600
    kettles.stop()
    assert not (kettles.folder / "data" / "control.sock").exists()


async def test_a_dead_worlds_socket_is_in_nobodys_way(world: Callable[..., Any]) -> None:
    kettles = world()
    await versions(kettles, 3)
    kettles.kill()
    assert (kettles.folder / "data" / "control.sock").exists()
    assert (await done(kettles, "prune", "/a.md", "--keep", "1"))["last"] == 2
    kettles.start()
    assert (await done(kettles, "sweep"))["deleted"] == 2


async def test_what_is_no_command_is_refused_at_the_socket(world: Callable[..., Any]) -> None:
    kettles = world()
    for sent, answer in [
        (b"{}\n", "the command None is not known"),
        (b'{"command": "drop"}\n', "the command 'drop' is not known"),
        (b"[]\n", "a command is a JSON object"),
        (b"no JSON\n", "expected one line"),
        (b"\xff\n", "expected one line"),
        (b"x" * 70_000 + b"\n", "expected one line"),
        (b'{"command": "prune", "path": "/a.md", "keep": "1"}\n', "keep: "),
        (b'{"command": "prune", "path": "/a.md", "keep": 1, "by": "local:eve"}\n', "by: "),
        (b'{"command": "prune", "path": "/../a.md", "keep": 1}\n', "no path of a document"),
        (b'{"command": "sweep", "grace": 0}\n', "grace: "),
    ]:
        assert answer in json.loads(spoken(kettles.folder / "data", sent))["refused"]
    assert kettles.health()["ready"]


def spoken(mount: Path, sent: bytes) -> bytes:
    """What the socket answers; its name is short enough for an address however deep the folder of a test is."""
    folder = os.open(mount, os.O_RDONLY)
    with socket.socket(socket.AF_UNIX) as line:
        line.settimeout(20)
        line.connect(f"/proc/self/fd/{folder}/control.sock")
        os.close(folder)
        with contextlib.suppress(ConnectionError):
            line.sendall(sent)
        return line.makefile("rb").readline()


async def test_there_has_to_be_a_store(world: Callable[..., Any]) -> None:
    kettles = world(begin=False)
    for arguments in (["sweep"], ["prune", "/a.md", "--keep", "1"]):
        ended = await command(kettles, *arguments)
        assert (ended.exit_code, len(ended.stderr.splitlines())) == (2, 1)
        assert "there is no store" in ended.stderr
    assert not kettles.store.exists()
    kettles.write_config(store={"memory": {}})
    assert "store.memory" in (await command(kettles, "sweep")).stderr


async def test_the_store_of_another_world_is_left_alone(world: Callable[..., Any]) -> None:
    kettles = world()
    kettles.stop()
    kettles.write_config(identity={"history": "ff" * 16, "incarnation": "1b" * 16})
    ended = await command(kettles, "sweep")
    assert (ended.exit_code, len(ended.stderr.splitlines())) == (1, 1)
    assert "belongs to history" in ended.stderr


async def test_on_a_bucket_commands_are_one_more_writer(
    start_world: Callable[..., Any], token_file: Callable[..., str]
) -> None:
    with started("kettles") as stand_in:
        store = {"gcs": {"url": "gs://kettles/tea", "service": stand_in.address}}
        fields = {"store": store, "tokens": token_file(ADMIN), "reads": "public", "retention": {"grace": "0s"}}
        first, second = start_world(**fields), start_world(**fields)
        await versions(first, 4)
        assert (await done(second, "prune", "/a.md", "--keep", "1"))["last"] == 3
        assert (await done(first, "sweep"))["deleted"] == 3
        assert (await first.request("FETCH", "/a.md/v3")).status == "not-found"
        assert (await second.request("FETCH", "/a.md")).body == b"body 3\n"
        assert sum("/docs/" in name for name in stand_in.names("kettles")) == 1
        assert not any("/sweeps/" in name for name in stand_in.names("kettles"))
        await versions(second, 1, "/b.md")
