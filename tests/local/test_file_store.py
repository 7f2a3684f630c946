"""The state folder answers as an API server does, as far as the reconcilers can tell."""

from __future__ import annotations

import asyncio
import itertools
import json
import stat
from collections.abc import Mapping
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest

from demarkus_operator.cluster.port import AlreadyExists, Conflict, Invalid, NotFound, Port
from demarkus_operator.local.store import FileStore, StateDamaged
from demarkus_operator.plan.objects import Manifest, Ref

NOW = datetime(2026, 11, 30, 9, tzinfo=UTC)


async def a_store(folder: Path, *, seen: list[tuple[Ref, bool]] | None = None) -> FileStore:
    numbers = itertools.count(1)

    def changed(manifest: Manifest, *, gone: bool) -> None:
        if seen is not None:
            seen.append((Ref.of(manifest), gone))

    return await FileStore.open(
        folder,
        now=lambda: NOW,
        new_uid=lambda: f"uid-{next(numbers)}-{len(written(folder))}",
        changed=changed,
    )


def a_config_map(name: str = "settings", *, owner: Manifest | None = None, **data: str) -> dict[str, Any]:
    metadata: dict[str, Any] = {"name": name, "namespace": "default", "labels": {"app": "x"}}
    if owner is not None:
        metadata["ownerReferences"] = [{"uid": owner["metadata"]["uid"], "name": owner["metadata"]["name"]}]
    return {"apiVersion": "v1", "kind": "ConfigMap", "metadata": metadata, "data": data}


def a_world(name: str = "tea", **spec: Any) -> dict[str, Any]:
    return {
        "apiVersion": "demarkus.io/v1alpha1",
        "kind": "World",
        "metadata": {"name": name, "namespace": "default"},
        "spec": spec,
    }


def written(folder: Path) -> Mapping[str, bytes]:
    return {str(file.relative_to(folder)): file.read_bytes() for file in folder.rglob("*.json")}


def leftovers(folder: Path) -> list[Path]:
    return list(folder.rglob(".*"))


async def test_it_is_the_port(tmp_path: Path) -> None:
    port: Port = await a_store(tmp_path)
    assert port is not None


async def test_create_keeps_what_exists(tmp_path: Path) -> None:
    store = await a_store(tmp_path)
    await store.create(a_config_map(a="1"))
    with pytest.raises(AlreadyExists):
        await store.create(a_config_map(a="2"))
    assert (await store.get(Ref.of(a_config_map())))["data"] == {"a": "1"}


async def test_an_absent_object_is_not_found(tmp_path: Path) -> None:
    store = await a_store(tmp_path)
    with pytest.raises(NotFound):
        await store.get(Ref("v1", "Secret", "default", "nothing"))


async def test_apply_makes_the_object_what_the_manifest_says(tmp_path: Path) -> None:
    store = await a_store(tmp_path)
    await store.apply(a_config_map(a="1", old="1"))
    assert (await store.apply(a_config_map(a="2")))["data"] == {"a": "2"}


async def test_apply_of_the_same_writes_nothing(tmp_path: Path) -> None:
    seen: list[tuple[Ref, bool]] = []
    store = await a_store(tmp_path, seen=seen)
    first = await store.apply(a_config_map(a="1"))
    before = written(tmp_path)
    again = await store.apply(a_config_map(a="1"))
    assert again["metadata"]["resourceVersion"] == first["metadata"]["resourceVersion"]
    assert written(tmp_path) == before
    assert seen == [(Ref.of(first), False)]


async def test_generation_counts_changes_of_the_spec_alone(tmp_path: Path) -> None:
    store = await a_store(tmp_path)
    ref = Ref.of(await store.apply(a_world(reads="public")))
    await store.patch_status(ref, {"history": "0" * 32})
    labelled = a_world(reads="public")
    labelled["metadata"]["labels"] = {"a": "b"}
    assert (await store.apply(labelled))["metadata"]["generation"] == 1
    changed = await store.apply(a_world(reads="scoped"))
    assert changed["metadata"]["generation"] == 2
    assert changed["status"] == {"history": "0" * 32}


async def test_uid_and_creation_time_stay(tmp_path: Path) -> None:
    store = await a_store(tmp_path)
    first = await store.apply(a_world(reads="public"))
    second = await store.apply(a_world(reads="scoped"))
    for key in ("uid", "creationTimestamp"):
        assert second["metadata"][key] == first["metadata"][key]
    assert first["metadata"]["creationTimestamp"] == "2026-11-30T09:00:00Z"
    assert int(second["metadata"]["resourceVersion"]) > int(first["metadata"]["resourceVersion"])


async def test_status_is_written_by_its_own_call_only(tmp_path: Path) -> None:
    store = await a_store(tmp_path)
    first = await store.apply({**a_world(), "status": {"forged": True}})
    assert "status" not in first
    patched = await store.patch(Ref.of(first), {"status": {"forged": True}}, first["metadata"]["resourceVersion"])
    assert "status" not in patched
    await store.patch_status(Ref.of(first), {"a": {"b": 1, "c": 2}})
    assert (await store.patch_status(Ref.of(first), {"a": {"b": None}}))["status"] == {"a": {"c": 2}}


async def test_stale_writers_are_told(tmp_path: Path) -> None:
    store = await a_store(tmp_path)
    first = await store.apply(a_config_map(a="1"))
    second = await store.apply(a_config_map(a="2"))
    stale = first["metadata"]["resourceVersion"]
    with pytest.raises(Conflict):
        await store.patch(Ref.of(first), {"data": {"a": "3"}}, stale)
    guarded = a_config_map(a="3")
    guarded["metadata"]["resourceVersion"] = stale
    with pytest.raises(Conflict):
        await store.apply(guarded)
    replaced = a_config_map(a="3")
    replaced["metadata"]["uid"] = "another"
    with pytest.raises(Conflict):
        await store.apply(replaced)
    with pytest.raises(Conflict):
        await store.delete(Ref.of(first), uid="another")
    assert (await store.get(Ref.of(first)))["data"] == second["data"]


async def test_listing_selects_by_namespace_and_labels(tmp_path: Path) -> None:
    store = await a_store(tmp_path)
    elsewhere = a_config_map("b")
    elsewhere["metadata"]["namespace"] = "elsewhere"
    plain = a_config_map("c")
    del plain["metadata"]["labels"]
    for manifest in (a_config_map("a"), elsewhere, plain):
        await store.create(manifest)

    async def names(**selection: Any) -> list[str]:
        return [found["metadata"]["name"] for found in await store.list("v1", "ConfigMap", **selection)]

    assert await names() == ["a", "c", "b"]
    assert await names(namespace="default") == ["a", "c"]
    assert await names(labels={"app": "x"}) == ["a", "b"]
    assert await names(labels={"app": "y"}) == []
    assert await store.list("v1", "Secret") == []


async def test_children_go_with_their_owner_and_the_rest_stays(tmp_path: Path) -> None:
    seen: list[tuple[Ref, bool]] = []
    store = await a_store(tmp_path, seen=seen)
    world = await store.apply(a_world())
    child = await store.apply(a_config_map("child", owner=world))
    grandchild = await store.apply(a_config_map("grandchild", owner=child))
    retained = await store.apply(a_config_map("retained"))
    await store.delete(Ref.of(world))
    await store.delete(Ref.of(world))  # an absent one is fine
    assert seen[-3:] == [(Ref.of(world), True), (Ref.of(child), True), (Ref.of(grandchild), True)]
    left = await store.list("v1", "ConfigMap")
    assert [Ref.of(manifest) for manifest in left] == [Ref.of(retained)]
    assert not [name for name in written(tmp_path) if grandchild["metadata"]["name"] in name]


async def test_a_deletion_that_was_interrupted_is_finished_at_the_next_start(tmp_path: Path) -> None:
    store = await a_store(tmp_path)
    world = await store.apply(a_world())
    await store.apply(a_config_map("child", owner=world))
    (tmp_path / "World.demarkus.io" / "default" / "tea.json").unlink()
    again = await a_store(tmp_path)
    assert await again.list("v1", "ConfigMap") == []


async def test_everything_is_there_at_the_next_start(tmp_path: Path) -> None:
    store = await a_store(tmp_path)
    world = await store.apply(a_world(reads="public"))
    world = await store.patch_status(Ref.of(world), {"history": "0" * 32})
    await store.apply(a_config_map(mine="1"))
    (tmp_path / "ConfigMap" / "default" / ".settings.json.0a0b").write_text("{half a wri")
    again = await a_store(tmp_path)
    assert await again.get(Ref.of(world)) == world
    assert int((await again.create(a_config_map("new")))["metadata"]["resourceVersion"]) > 3
    assert leftovers(tmp_path) == []


async def test_files_are_closed_to_others(tmp_path: Path) -> None:
    folder = tmp_path / "objects"
    store = await a_store(folder)
    secret = {**a_config_map("keys"), "kind": "Secret", "data": {"key": "c2VjcmV0"}}
    await store.create(secret)
    file = folder / "Secret" / "default" / "keys.json"
    assert stat.S_IMODE(file.stat().st_mode) == 0o600
    for parent in (folder, file.parent.parent, file.parent):
        assert stat.S_IMODE(parent.stat().st_mode) == 0o700


async def test_a_damaged_file_is_named(tmp_path: Path) -> None:
    store = await a_store(tmp_path)
    await store.create(a_config_map())
    file = tmp_path / "ConfigMap" / "default" / "settings.json"
    file.write_text('{"metadata": {}}')
    with pytest.raises(StateDamaged, match=r"settings\.json"):
        await a_store(tmp_path)


@pytest.mark.parametrize("name", ["../escape", ".hidden", "a/b", ""])
async def test_a_name_is_never_a_way_out_of_the_folder(tmp_path: Path, name: str) -> None:
    store = await a_store(tmp_path / "objects")
    with pytest.raises(Invalid):
        await store.create(a_config_map(name))
    assert written(tmp_path) == {}


async def test_concurrent_writers_of_one_object_are_serialised(tmp_path: Path) -> None:
    store = await a_store(tmp_path)
    made = await asyncio.gather(*(store.create(a_config_map()) for _ in range(8)), return_exceptions=True)
    assert sum(isinstance(result, AlreadyExists) for result in made) == 7
    content = json.loads((tmp_path / "ConfigMap" / "default" / "settings.json").read_bytes())
    assert content["metadata"]["resourceVersion"] == "1"
