"""The CRDs: generated from the models, structural, bounded, and explained."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import yaml

from demarkus_operator.api.crd import definitions, rendered

CRDS = Path(__file__).parents[2] / "crds"


def _nodes(schema: dict[str, Any], path: str) -> Iterator[tuple[str, dict[str, Any]]]:
    yield path, schema
    for name, child in schema.get("properties", {}).items():
        yield from _nodes(child, f"{path}.{name}")
    for key in ("items", "additionalProperties"):
        if key in schema:
            yield from _nodes(schema[key], f"{path}.{key}")


def _all_nodes() -> list[tuple[str, dict[str, Any]]]:
    return [
        node
        for definition in definitions().values()
        for node in _nodes(
            definition["spec"]["versions"][0]["schema"]["openAPIV3Schema"], definition["spec"]["names"]["kind"]
        )
    ]


NODES = _all_nodes()


def test_checked_in_files_are_what_the_models_say() -> None:
    checked_in = {file.name: file.read_text() for file in CRDS.glob("*.yaml")}
    assert checked_in == rendered(), "run `make crds`"


def test_files_are_plain_yaml() -> None:
    for text in rendered().values():
        assert yaml.safe_load(text)["kind"] == "CustomResourceDefinition"


def test_every_field_has_a_description() -> None:
    fields = [
        (f"{path}.{name}", child)
        for path, schema in NODES
        for name, child in schema.get("properties", {}).items()
        if "." in path or name != "metadata"
    ]
    assert len(fields) > 50
    assert [path for path, child in fields if not child.get("description", "").endswith(".")] == []


def test_every_text_list_and_map_has_a_bound() -> None:
    unbounded = []
    for path, schema in NODES:
        if path.split(".")[1:] in (["apiVersion"], ["kind"]):
            continue
        needed = {"string": "maxLength", "array": "maxItems"}.get(schema["type"])
        if "additionalProperties" in schema:
            needed = "maxProperties"
        if needed and needed not in schema and "enum" not in schema:
            unbounded.append(path)
    assert unbounded == []


def test_schema_is_structural_and_has_no_defaults() -> None:
    for path, schema in NODES:
        assert schema["type"] in ("object", "array", "string", "integer", "boolean"), path
        assert not {"$ref", "anyOf", "oneOf", "allOf", "not", "default", "nullable", "title"} & set(schema), path
        assert not ("properties" in schema and "additionalProperties" in schema), path


def test_lists_of_named_things_are_merged_by_name() -> None:
    maps = {path: schema for path, schema in NODES if schema.get("x-kubernetes-list-type") == "map"}
    assert set(maps) == {
        "Universe.spec.broker.template.imagePullSecrets",
        "Universe.spec.broker.webClients",
        "Universe.spec.worlds.defaults.template.imagePullSecrets",
        "World.spec.template.imagePullSecrets",
        "World.spec.seed",
        "World.spec.tokens",
        "World.status.tokens",
        "World.status.conditions",
        "Universe.status.conditions",
    }
    for schema in maps.values():
        assert set(schema["x-kubernetes-list-map-keys"]) <= set(schema["items"]["required"])


@pytest.mark.parametrize("definition", definitions().values(), ids=definitions())
def test_kubectl_shows_readiness_reason_and_age(definition: dict[str, Any]) -> None:
    (version,) = definition["spec"]["versions"]
    shown = [column["name"] for column in version["additionalPrinterColumns"] if not column.get("priority")]
    assert shown[:3] == ["Ready", "Reason", "Version"]
    assert shown[-1] == "Age"
    assert definition["spec"]["names"]["shortNames"]
    assert version["subresources"] == {"status": {}}
    assert definition["spec"]["names"]["categories"] == ["demarkus"]
    assert definition["spec"]["scope"] == "Namespaced"


def test_rules_point_at_fields_that_exist() -> None:
    for path, schema in NODES:
        for rule in schema.get("x-kubernetes-validations", ()):
            assert rule["message"], path
            assert rule.get("fieldPath", "").removeprefix(".") in ("", *schema["properties"]), path
