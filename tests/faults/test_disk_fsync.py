"""A disk whose fsync fails under a running world: it ends, because the kernel may have dropped what it should write;
after the next start all that was acknowledged is there."""

import asyncio
import os
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

CUSTOM = """
import os
_fsync = os.fsync
def fsync(file):
    if os.path.exists({switch!r}):
        raise OSError(5, "Input/output error")
    _fsync(file)
os.fsync = fsync
"""


class Disk:
    """Breaks and is mended by a file that the processes look for."""

    def __init__(self, switch: Path) -> None:
        self._switch = switch

    def breaks(self) -> None:
        self._switch.touch()

    def is_mended(self) -> None:
        self._switch.unlink()


@pytest.fixture
def disk(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Disk:
    """The fsync of every process that starts from now on."""
    switch = tmp_path / "fsync fails"
    custom = tmp_path / "custom"
    custom.mkdir()
    (custom / "sitecustomize.py").write_text(CUSTOM.format(switch=str(switch)))
    monkeypatch.setenv("PYTHONPATH", os.pathsep.join(filter(None, (str(custom), os.environ.get("PYTHONPATH")))))
    return Disk(switch)


@pytest.mark.parametrize("verb", ["PUBLISH", "APPEND", "ARCHIVE"])
async def test_a_failed_fsync_ends_the_world_and_loses_nothing(
    start_world: Callable[..., Any], token_file: Callable[..., str], disk: Disk, verb: str
) -> None:
    world = start_world(tokens=token_file(("admin", "/**", ("publish",))), reads="public")
    for number in range(3):
        answer = await world.request("PUBLISH", "/a.md", b"%d\n" % number, auth="admin")
        assert answer.status == "created"
    disk.breaks()
    metadata = {"expected_version": "3"} if verb == "APPEND" else {}
    body = b"" if verb == "ARCHIVE" else b"lost or not\n"
    assert (await world.request(verb, "/a.md", body, auth="admin", **metadata)).status == "server-error"
    assert await asyncio.to_thread(world.process.wait, 20) == 1
    assert "must be opened anew" in (world.folder / "log").read_text().splitlines()[-1]
    # While the disk is broken there is no world.
    world.start(wait=False)
    assert await asyncio.to_thread(world.process.wait, 20) == 1
    disk.is_mended()
    world.start()
    listed = (await world.request("VERSIONS", "/a.md")).metadata
    assert (int(listed["total"]) >= 3, listed["chain-valid"]) == (True, "true")
    assert (await world.request("FETCH", "/a.md/v3")).body == b"2\n"
    assert (await world.request("PUBLISH", "/b.md", b"1\n", auth="admin")).status == "created"
