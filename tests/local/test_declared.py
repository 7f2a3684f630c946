"""What is declared is judged as a whole, as an API server would, with the place of every mistake."""

from __future__ import annotations

from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest
import yaml

from demarkus_operator.local.declared import bring_in, judged, subjects
from demarkus_operator.local.manifests import ManifestError, read
from demarkus_operator.local.store import FileStore
from demarkus_operator.plan.objects import Manifest, Ref

API = "demarkus.io/v1alpha1"


def a_world(name: str = "tea", *, namespace: str | None = None, **spec: Any) -> dict[str, Any]:
    metadata = {"name": name} if namespace is None else {"name": name, "namespace": namespace}
    return {
        "apiVersion": API,
        "kind": "World",
        "metadata": metadata,
        "spec": {"store": {"volume": {"size": "1Gi"}}, **spec},
    }


def a_universe(name: str = "acme") -> dict[str, Any]:
    spec = {"publicURL": "https://mark.example.com"}
    return {"apiVersion": API, "kind": "Universe", "metadata": {"name": name}, "spec": spec}


def declared(folder: Path, *manifests: dict[str, Any], before: dict[Ref, Manifest] | None = None) -> list[Any]:
    file = folder / "all.yaml"
    file.write_text(yaml.safe_dump_all(manifests, sort_keys=False))
    return judged(read([file]), before=before or {})


def problems(folder: Path, *manifests: dict[str, Any], before: dict[Ref, Manifest] | None = None) -> list[str]:
    with pytest.raises(ManifestError) as caught:
        declared(folder, *manifests, before=before)
    return [str(problem).removeprefix(f"{folder}/") for problem in caught.value.problems]


async def a_store(folder: Path) -> FileStore:
    return await FileStore.open(
        folder / "objects",
        now=lambda: datetime(2026, 11, 30, tzinfo=UTC),
        new_uid=lambda: "uid",
        changed=lambda manifest, *, gone: None,
    )


def test_a_namespace_is_filled_in_and_what_only_a_server_says_is_left_out(tmp_path: Path) -> None:
    exported = a_world(namespace="team")
    exported["metadata"] |= {"uid": "1", "resourceVersion": "7", "labels": {"a": "b"}, "creationTimestamp": "x"}
    exported["status"] = {"history": "forged"}
    first, second = declared(tmp_path, a_world(), exported | {"metadata": exported["metadata"] | {"name": "milk"}})
    assert first["metadata"] == {"name": "tea", "namespace": "default"}
    assert second["metadata"] == {"name": "milk", "namespace": "team", "labels": {"a": "b"}}
    assert "status" not in second


def test_every_problem_of_every_document_is_told_with_its_place(tmp_path: Path) -> None:
    assert problems(tmp_path, a_world(reads="x"), a_universe(), a_world(unknown=1) | {"apiVersion": "v1"}) == [
        "all.yaml:9: spec.reads: Input should be 'public', 'universe' or 'scoped'",
        "all.yaml:18: apiVersion: expected demarkus.io/v1alpha1",
    ]


def test_a_rule_is_told_at_the_field_it_is_about(tmp_path: Path) -> None:
    (told,) = problems(tmp_path, a_world(store={"volume": {"size": "1Mi"}}))
    assert told.startswith("all.yaml:8: spec.store.volume.size: a volume has at least")


def test_a_change_that_is_not_allowed_is_told_at_its_field(tmp_path: Path) -> None:
    (before,) = declared(tmp_path, a_world())
    (told,) = problems(tmp_path, a_world(history="compatible"), before={Ref.of(before): before})
    assert told.startswith("all.yaml:9: spec.history: how a World treats its history can't change")


@pytest.mark.parametrize(
    ("manifests", "told"),
    [
        ([{"kind": "Deployment", "apiVersion": "apps/v1"}], "all.yaml:1: kind: expected one of World, Universe"),
        ([{"metadata": {}}], "all.yaml:1: kind: expected one of World, Universe, Namespace"),
        ([{"apiVersion": "v1", "kind": "Namespace"}], "all.yaml:1: metadata.name: is missing"),
        ([a_world(), a_world()], "all.yaml:13: metadata.name: World default/tea is declared in"),
        ([a_universe(), a_universe("other")], "all.yaml:9: kind: a second Universe, besides the one in"),
    ],
    ids=["kind", "nothing", "namespace", "twice", "universes"],
)
def test_what_one_machine_can_not_realise_is_named(tmp_path: Path, manifests: list[dict[str, Any]], told: str) -> None:
    (problem,) = problems(tmp_path, *manifests)
    assert problem.startswith(told)


@pytest.mark.parametrize(
    ("metadata", "told"),
    [
        ({"namespace": "../x"}, "all.yaml:5: metadata.namespace: a namespace has at most 63"),
        ({"namespace": 7}, "all.yaml:5: metadata.namespace: a namespace has at most 63"),
        ({"labels": {"a": 1}}, "all.yaml:5: metadata.labels: expected a mapping of text to text"),
        ({"annotations": ["a"]}, "all.yaml:5: metadata.annotations: expected a mapping of text to text"),
    ],
)
def test_metadata_that_no_api_server_takes_is_named(tmp_path: Path, metadata: dict[str, Any], told: str) -> None:
    world = a_world()
    world["metadata"] |= metadata
    (problem,) = problems(tmp_path, world)
    assert problem.startswith(told)


async def test_namespaces_come_into_being_with_the_label_of_their_name(tmp_path: Path) -> None:
    store = await a_store(tmp_path)
    team = {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": "team", "labels": {"a": "b"}}}
    await bring_in(store, declared(tmp_path, team, a_world(namespace="team"), a_world("milk")))
    found = {one["metadata"]["name"]: one["metadata"]["labels"] for one in await store.list("v1", "Namespace")}
    assert found == {
        "team": {"a": "b", "kubernetes.io/metadata.name": "team"},
        "default": {"kubernetes.io/metadata.name": "default"},
    }


async def test_what_is_not_declared_any_more_is_deleted_and_told(tmp_path: Path) -> None:
    store = await a_store(tmp_path)
    assert await bring_in(store, declared(tmp_path, a_world(), a_world("milk"))) == []
    gone = await bring_in(store, declared(tmp_path, a_world()))
    assert [ref.name for ref in gone] == ["milk"]
    assert [ref.name for ref in await subjects(store)] == ["tea"]
