"""The reference page of the API, made from the models: `python -m demarkus_operator.api.reference > docs/api.md`."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from demarkus_operator.api.common import API_VERSION
from demarkus_operator.api.conditions import MEANINGS, TYPES
from demarkus_operator.api.crd import definitions

_HEAD = f"""# API reference

Group and version: `{API_VERSION}`. `kubectl explain world.spec` shows the same. There are no defaults in the
schema; a field that is absent stays absent, and its description says what that means.
"""

_CONDITIONS = """
## Conditions

Types and reasons are part of the API. A condition that says nothing of an object is not there.

| Condition | What it means that it is true |
|---|---|
{types}
| Reason | Meaning | What to do |
|---|---|---|
"""


def rendered() -> str:
    """The page as Markdown."""
    types = "".join(f"| `{type_}` | {meaning} |\n" for type_, meaning in TYPES.items())
    kinds = "".join(_kind(definition) for definition in definitions().values())
    return _HEAD + kinds + _CONDITIONS.format(types=types) + _reasons()


def _kind(definition: dict[str, Any]) -> str:
    (version,) = definition["spec"]["versions"]
    schema = version["schema"]["openAPIV3Schema"]
    parts = [f"\n## {definition['spec']['names']['kind']}\n\n{schema['description']}\n"]
    for part in ("spec", "status"):
        parts.append(
            f"\n### {definition['spec']['names']['kind']} {part}\n\n| Field | Type | Description |\n|---|---|---|\n"
        )
        parts += [
            f"| `{path}` | {_type(field)} | {_cell(field['description'])} |\n"
            for path, field in _fields(schema["properties"][part], part)
        ]
    rules = [rule["message"] for _, node in _nodes(schema, "") for rule in node.get("x-kubernetes-validations", ())]
    parts.append("\nRules:\n\n" + "".join(f"- {rule}\n" for rule in dict.fromkeys(rules)))
    return "".join(parts)


def _reasons() -> str:
    return "".join(f"| `{reason}` | {meaning} | {help_} |\n" for reason, (meaning, help_) in MEANINGS.items())


def _fields(schema: dict[str, Any], path: str) -> Iterator[tuple[str, dict[str, Any]]]:
    """All fields below a mapping, by path: `[]` stands for the items of a list."""
    return (
        (found, node)
        for found, node in _nodes(schema, path)
        if found != path and "description" in node and not found.endswith("[]")
    )


def _nodes(schema: dict[str, Any], path: str) -> Iterator[tuple[str, dict[str, Any]]]:
    yield path, schema
    for name, child in schema.get("properties", {}).items():
        yield from _nodes(child, f"{path}.{name}")
    if "items" in schema:
        yield from _nodes(schema["items"], f"{path}[]")


def _type(schema: dict[str, Any]) -> str:
    if "enum" in schema:
        return " or ".join(f"`{value}`" for value in schema["enum"])
    if schema["type"] == "array":
        return f"list of {_type(schema['items'])}"
    if "additionalProperties" in schema:
        return f"map of {_type(schema['additionalProperties'])}"
    return str(schema["type"])


def _cell(text: str) -> str:
    return text.replace("|", "\\|")


if __name__ == "__main__":
    print(rendered(), end="")
