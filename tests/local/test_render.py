"""`demarkus render`: every object, the same every time, and nothing in it that anybody could use."""

from __future__ import annotations

import base64
import json
from pathlib import Path
from typing import Any

import pytest
import yaml
from click.testing import CliRunner

from demarkus_operator.cli.main import demarkus

EXAMPLE = Path(__file__).parents[2] / "examples" / "universe"
WORLD = """\
apiVersion: demarkus.io/v1alpha1
kind: World
metadata: {name: notes}
spec:
  store: {volume: {size: 1Gi}}
  tokens: [{name: editor, operations: [publish], paths: ["/**"]}]
"""


def rendered(*arguments: str) -> list[dict[str, Any]]:
    result = CliRunner().invoke(demarkus, ["render", *arguments])
    assert result.exit_code == 0, result.output
    return list(yaml.safe_load_all(result.stdout))


@pytest.fixture
def world(tmp_path: Path) -> Path:
    file = tmp_path / "world.yaml"
    file.write_text(WORLD)
    return file


def test_two_renderings_are_equal() -> None:
    assert rendered("-f", str(EXAMPLE)) == rendered("-f", str(EXAMPLE))


def test_json_is_a_list_of_the_same_objects() -> None:
    result = CliRunner().invoke(demarkus, ["render", "-f", str(EXAMPLE), "--json"])
    listed = json.loads(result.stdout)
    assert (listed["apiVersion"], listed["kind"]) == ("v1", "List")
    assert listed["items"] == rendered("-f", str(EXAMPLE))


def test_everything_of_a_world_and_its_namespace_is_there(world: Path) -> None:
    found = {(one["kind"], one["metadata"]["name"]) for one in rendered("-f", str(world), "-n", "team-a")}
    assert {
        ("StatefulSet", "notes-world"),
        ("PersistentVolumeClaim", "notes-data"),
        ("Secret", "notes-identity"),
        ("Secret", "notes-token-editor"),
        ("ConfigMap", "notes-world-config"),
        ("NetworkPolicy", "notes-world"),
        ("Service", "notes"),
    } <= found
    assert all(
        one["metadata"]["namespace"] in ("team-a", "demarkus-system")
        for one in rendered("-f", str(world), "-n", "team-a")
    )


def test_secrets_are_empty_and_settings_hold_words_for_what_is_generated(world: Path) -> None:
    objects = rendered("-f", str(world))
    for one in objects:
        if one["kind"] == "Secret":
            assert set(one["data"].values()) == {""}
    text = yaml.safe_dump_all(objects)
    assert "(history of default/notes)" in text
    assert "BEGIN" not in text


def test_nothing_generated_is_left_anywhere(world: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    made: list[bytes] = []
    from demarkus_operator import material

    make = material.make

    def watched(*arguments: Any, **others: Any) -> dict[str, bytes]:
        data = make(*arguments, **others)
        made.extend(data.values())
        return data

    monkeypatch.setattr(material, "make", watched)
    text = yaml.safe_dump_all(rendered("-f", str(world), "-f", str(EXAMPLE)), width=10**6)
    assert made
    for value in made:
        assert value.decode() not in text
        assert base64.b64encode(value).decode() not in text


def test_a_mistake_names_file_line_and_field(tmp_path: Path) -> None:
    file = tmp_path / "world.yaml"
    file.write_text(WORLD.replace("size", "sise"))
    result = CliRunner().invoke(demarkus, ["render", "-f", str(file)])
    assert result.exit_code == 2
    assert f"{file}:5: spec.store.volume.sise: unknown field" in result.stderr


def test_what_can_not_be_realised_is_said(tmp_path: Path) -> None:
    file = tmp_path / "world.yaml"
    file.write_text(WORLD + "  universeRef: {name: nowhere}\n")
    result = CliRunner().invoke(demarkus, ["render", "-f", str(file)])
    assert result.exit_code == 2
    assert "WaitingForUniverse: Universe default/nowhere does not exist" in result.stderr


def test_images_and_version_are_those_that_are_asked_for(world: Path) -> None:
    objects = rendered("-f", str(world), "--world-image", "registry.example/world", "--version", "9.9.9")
    (stateful_set,) = (one for one in objects if one["kind"] == "StatefulSet")
    (container,) = stateful_set["spec"]["template"]["spec"]["containers"]
    assert container["image"] == "registry.example/world:9.9.9"
