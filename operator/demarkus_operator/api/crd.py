"""CustomResourceDefinitions, made from the models. `crds/` holds the result; a test keeps the two equal.

The schema is structural: no references, no `anyOf` for optional fields, no defaults. A default in a schema would
show up as a difference in everybody's GitOps tool; ours are in the planner and in the descriptions.
"""

from __future__ import annotations

import inspect
from collections.abc import Mapping
from typing import Any

import yaml

from demarkus_operator.api import universe, world
from demarkus_operator.api.common import GROUP, VERSION, Model, model_of
from demarkus_operator.api.rules import Rule

Schema = dict[str, Any]

_COPIED = (
    "type",
    "format",
    "enum",
    "pattern",
    "minLength",
    "maxLength",
    "minimum",
    "maximum",
    "minItems",
    "maxItems",
    "minProperties",
    "maxProperties",
    "x-kubernetes-list-type",
    "x-kubernetes-list-map-keys",
)


def definitions() -> dict[str, Schema]:
    """The CRDs by the name of their file in `crds/`."""
    return {
        f"{GROUP}_{world.PLURAL}.yaml": _definition(
            world.World,
            kind=world.KIND,
            plural=world.PLURAL,
            short_names=("wld",),
            columns=(
                _condition_column("Ready", "status"),
                _condition_column("Reason", "reason"),
                _column("Version", ".status.version"),
                _column("Store", ".status.store"),
                _column("Backup", ".status.backup"),
                _column("Universe", ".spec.universeRef.name", priority=1),
                _column("Endpoint", ".status.endpoint", priority=1),
                _condition_column("Message", "message", priority=1),
                _column("Age", ".metadata.creationTimestamp", type_="date"),
            ),
        ),
        f"{GROUP}_{universe.PLURAL}.yaml": _definition(
            universe.Universe,
            kind=universe.KIND,
            plural=universe.PLURAL,
            short_names=("uni",),
            columns=(
                _condition_column("Ready", "status"),
                _condition_column("Reason", "reason"),
                _column("Version", ".status.version"),
                _column("Worlds", ".status.worlds", type_="integer"),
                _column("URL", ".spec.publicURL"),
                _condition_column("Message", "message", priority=1),
                _column("Age", ".metadata.creationTimestamp", type_="date"),
            ),
        ),
    }


def rendered() -> dict[str, str]:
    """The text of each file in `crds/`."""
    return {
        name: yaml.safe_dump(definition, sort_keys=False, width=120, allow_unicode=True)
        for name, definition in definitions().items()
    }


def _definition(
    model: type[Model], *, kind: str, plural: str, short_names: tuple[str, ...], columns: tuple[Schema, ...]
) -> Schema:
    names: Schema = {"categories": ["demarkus"], "kind": kind, "listKind": f"{kind}List", "plural": plural}
    if short_names:
        names["shortNames"] = list(short_names)
    names["singular"] = kind.lower()
    return {
        "apiVersion": "apiextensions.k8s.io/v1",
        "kind": "CustomResourceDefinition",
        "metadata": {"name": f"{plural}.{GROUP}"},
        "spec": {
            "group": GROUP,
            "names": names,
            "scope": "Namespaced",
            "versions": [
                {
                    "name": VERSION,
                    "served": True,
                    "storage": True,
                    "additionalPrinterColumns": list(columns),
                    "schema": {"openAPIV3Schema": _root(model)},
                    "subresources": {"status": {}},
                }
            ],
        },
    }


def _column(name: str, path: str, *, type_: str = "string", priority: int = 0) -> Schema:
    column: Schema = {"name": name, "type": type_, "jsonPath": path}
    return {**column, "priority": priority} if priority else column


def _condition_column(name: str, field: str, *, priority: int = 0) -> Schema:
    return _column(name, f'.status.conditions[?(@.type=="Ready")].{field}', priority=priority)


def _root(model: type[Model]) -> Schema:
    """The schema of the whole object. Its metadata is the API server's business."""
    schema = schema_of(model)
    properties = schema["properties"]
    properties["apiVersion"] = {"type": "string", "description": f"`{GROUP}/{VERSION}`."}
    properties["kind"] = {"type": "string", "description": f"`{model.__name__}`."}
    properties["metadata"] = {"type": "object"}
    schema["required"] = ["spec"]
    return schema


def schema_of(model: type[Model]) -> Schema:
    """The structural schema of a model, with its rules."""
    generated = model.model_json_schema(by_alias=True)
    return _structural(generated, generated.get("$defs", {}), model)


def _structural(node: Mapping[str, Any], shared: Mapping[str, Any], model: type[Model] | None) -> Schema:
    """The node without what a structural schema does not know; `model` is the one somewhere inside it, if any."""
    description = node.get("description")
    node = _resolved(node, shared)
    schema: Schema = {"type": node.get("type")}
    if description := description or node.get("description"):
        schema["description"] = " ".join(inspect.cleandoc(description).split())
    schema |= {key: node[key] for key in _COPIED if key in node}
    if "const" in node:
        schema["enum"] = [node["const"]]
    if "items" in node:
        schema["items"] = _structural(node["items"], shared, model)
    if isinstance(node.get("additionalProperties"), Mapping):
        schema["additionalProperties"] = _structural(node["additionalProperties"], shared, model)
    if "properties" in node and model is not None:
        inner = {info.alias or name: model_of(info.annotation) for name, info in model.model_fields.items()}
        schema["properties"] = {
            name: _structural(child, shared, inner[name]) for name, child in node["properties"].items()
        }
        if node.get("required"):
            schema["required"] = sorted(node["required"])
        if model.RULES:
            schema["x-kubernetes-validations"] = [_validation(rule) for rule in model.RULES]
    return schema


def _resolved(node: Mapping[str, Any], shared: Mapping[str, Any]) -> Mapping[str, Any]:
    """The node with its reference followed, or with the one alternative that is not null."""
    if "$ref" in node:
        return _resolved(shared[node["$ref"].rpartition("/")[2]], shared)
    if "anyOf" in node:
        (alternative,) = (each for each in node["anyOf"] if each.get("type") != "null")
        return _resolved(alternative, shared)
    return node


def _validation(rule: Rule) -> Schema:
    validation: Schema = {"rule": rule.expression, "message": rule.message}
    if rule.field and "." not in rule.field:  # of metadata, a schema knows no fields that could be pointed at
        validation["fieldPath"] = f".{rule.field}"
    return validation
