"""Real worlds prove their history, and serve nothing where the known one is not there."""

from __future__ import annotations

import shutil
from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from mark_protocol.client.client import Unreachable
from tests.operator.real_worlds import RealWorlds, eventually


@pytest.fixture
async def worlds(tmp_path: Path) -> AsyncIterator[RealWorlds]:
    made = RealWorlds(tmp_path)
    await made.declare()
    await made.serves()
    try:
        yield made
    finally:
        await made.pods.close()


async def _serves_nothing(worlds: RealWorlds) -> None:
    with pytest.raises(Unreachable):
        async with worlds.client() as client:
            await client.fetch("/health")


async def test_a_world_proves_that_its_history_goes_on(worlds: RealWorlds) -> None:
    first = await worlds.record()
    assert first is not None
    await worlds.publish("/a.md", "/b.md", "/c.md")
    await worlds.serves()
    second = await worlds.record()
    assert second is not None
    assert (first.size, second.size) == (0, 3)
    await worlds.publish("/d.md")
    await worlds.serves()
    third = await worlds.record()
    assert third is not None
    assert (third.size, third.doubt) == (4, None)
    assert third.newest is not None
    assert second.newest in third.older
    assert await worlds.turn() == []  # and then nothing is written any more


async def test_a_world_that_comes_back_without_its_volume_is_lost_and_serves_nothing(worlds: RealWorlds) -> None:
    await worlds.publish("/a.md", "/b.md")
    await worlds.serves()
    identity, record = await worlds.secret("tea-identity"), await worlds.record()
    await worlds.ends()
    await worlds.lose_volume()
    await worlds.declare()
    lost = await worlds.reaches("StoreLost")
    assert "PersistentVolumeClaim acme/tea-data is gone, and at least 2 entries of history" in lost["message"]

    # Somebody makes the claim by hand: then there is a process, and an empty volume.
    claim = {
        "apiVersion": "v1",
        "kind": "PersistentVolumeClaim",
        "metadata": {"name": "tea-data", "namespace": "acme", "labels": _labels(worlds)},
        "spec": {"resources": {"requests": {"storage": "1Gi"}}},
    }
    await worlds.port.create(claim)

    async def told() -> bool:
        await worlds.turn()
        return "the store is empty" in (await worlds.condition())["message"]

    await eventually("a process that says that its store is lost", told)
    assert (await worlds.condition())["reason"] == "StoreLost"
    await _serves_nothing(worlds)
    assert not (worlds.volume() / "world" / "world.json").exists()
    assert await worlds.secret("tea-identity") == identity
    assert await worlds.record() == record


def _labels(worlds: RealWorlds) -> dict[str, str]:
    (labels,) = [found["metadata"]["labels"] for ref, found in worlds.objects.items() if ref.name == "tea-world-config"]
    return dict(labels)


async def test_a_world_that_comes_back_with_its_volume_is_adopted(worlds: RealWorlds) -> None:
    await worlds.publish("/a.md")
    await worlds.serves()
    before = (await worlds.port.get(worlds.world()))["status"]
    await worlds.ends()
    await worlds.declare()
    await worlds.serves()
    after = (await worlds.port.get(worlds.world()))["status"]
    assert (after["history"], after["incarnation"]) == (before["history"], before["incarnation"])
    async with worlds.client() as client:
        assert (await client.fetch("/a.md")).body == b"# Tea\n"


async def test_an_older_volume_put_back_serves_nothing_until_the_newer_one_is_there(worlds: RealWorlds) -> None:
    await worlds.publish("/a.md")
    await worlds.serves()
    await worlds.ends()
    old = worlds.folder / "old"
    shutil.copytree(worlds.volume(), old, ignore=shutil.ignore_patterns("*.sock"))
    await worlds.declare()
    await worlds.serves()
    await worlds.publish("/b.md", "/c.md")
    await worlds.serves()
    await worlds.ends()
    new = worlds.volume().rename(worlds.folder / "new")
    old.rename(worlds.volume())
    await worlds.declare()
    lost = await worlds.reaches("StoreLost")
    assert "the log ends at entry 1, but 3 were known" in lost["message"]
    await _serves_nothing(worlds)
    await worlds.ends()
    shutil.rmtree(worlds.volume())
    new.rename(worlds.volume())
    await worlds.declare()
    await worlds.serves()


async def test_the_volume_of_another_world_is_foreign_and_left_alone(worlds: RealWorlds) -> None:
    await worlds.declare("ink")
    await worlds.serves("ink")
    await worlds.publish("/a.md", name="ink")
    await worlds.ends()
    await worlds.ends("ink")
    shutil.rmtree(worlds.volume())
    worlds.volume("ink").rename(worlds.volume())
    before = sorted((worlds.volume() / "world").rglob("*.json"))
    await worlds.declare()
    await worlds.reaches("StoreForeign")
    await _serves_nothing(worlds)
    assert sorted((worlds.volume() / "world").rglob("*.json")) == before


async def test_an_accepted_loss_begins_another_life_that_is_witnessed_anew(worlds: RealWorlds) -> None:
    await worlds.publish("/a.md")
    await worlds.serves()
    before = (await worlds.port.get(worlds.world()))["status"]
    await worlds.ends()
    await worlds.lose_volume()
    await worlds.declare()
    await worlds.reaches("StoreLost")
    await worlds.declare(annotations={"demarkus.io/accept-empty-store": before["history"]})
    await worlds.serves()
    after = (await worlds.port.get(worlds.world()))["status"]
    assert after["history"] == before["history"]
    assert after["incarnation"] != before["incarnation"]
    await worlds.publish("/b.md")
    await worlds.serves()
    record = await worlds.record()
    assert record is not None
    assert (record.size, len(record.given_up), record.accepted) == (1, 1, True)
    assert record.incarnations == {before["incarnation"], after["incarnation"]}
