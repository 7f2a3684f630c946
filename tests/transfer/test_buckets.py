"""Transfers to and from a bucket, beside the world that serves it."""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from dev.gcs.faults import Fault
from dev.gcs.process import StandIn, started
from mark_protocol.versions import etag

MakeTree = Callable[..., Any]
Versions = Callable[..., list[bytes]]
COMMAND = str(Path(sys.executable).with_name("demarkus-world"))


@pytest.fixture
def stand_in() -> Iterator[StandIn]:
    """An empty bucket `kettles`."""
    with started("kettles") as running:
        yield running


@pytest.fixture
def world(start_world: Callable[..., Any], token_file: Callable[..., str], stand_in: StandIn) -> Any:
    """A world that serves it."""
    store = {"gcs": {"url": "gs://kettles/tea", "service": stand_in.address}}
    return start_world(store=store, tokens=token_file(("admin", "/**", ("publish",))), reads="public")


def run(world: Any, *arguments: object) -> dict[str, Any]:
    """The report of a transfer that has to end well."""
    done = subprocess.run(
        [COMMAND, *map(str, arguments), "--config", str(world.folder / "world.yaml"), "--json"],
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stdout + done.stderr
    report: dict[str, Any] = json.loads(done.stdout)
    return report


async def test_the_world_that_serves_the_bucket_sees_what_comes_in(
    a_tree: MakeTree, world: Any, versions: Versions, tmp_path: Path
) -> None:
    tree = a_tree()
    stored = {f"/{n}.md": tree.document(f"/{n}.md", versions("one\n", f"{n}\n")) for n in range(20)}
    assert (await world.request("PUBLISH", "/mine.md", b"# Mine\n", auth="admin")).status == "created"
    assert run(world, "import", tree.root)["versions"] == 40
    for path, (_, newest) in stored.items():
        told = await world.request("FETCH", path)
        assert (told.status, told.metadata["etag"]) == ("ok", etag(newest))
    assert (await world.request("PUBLISH", "/7.md", b"# Seven\n", auth="admin")).metadata["version"] == "3"
    assert run(world, "export", tmp_path / "out")["documents"] == 21
    assert (tmp_path / "out" / "7.md").read_bytes().endswith(b"# Seven\n")


async def test_a_bucket_that_falters_costs_time_and_nothing_else(
    a_tree: MakeTree, world: Any, stand_in: StandIn, versions: Versions, tmp_path: Path
) -> None:
    tree = a_tree()
    for n in range(10):
        tree.document(f"/{n}.md", versions("one\n", "two\n", f"{n}\n"))
    stand_in.fail(*(Fault(kind=kind, chance=0.05) for kind in ("refuse", "lose", "cut", "torn")))
    run(world, "import", tree.root)
    stand_in.fail()
    assert run(world, "import", tree.root)["present"] == 10
    assert run(world, "export", tmp_path / "out")["versions"] == 30
    for place in tree.root.glob("*.md"):
        assert (tmp_path / "out" / place.name).read_bytes() == place.read_bytes()
