"""What all models share: the group, strictness, bounded field types, and the check of a whole object.

Models say what a field means, how large it may be and which rules it obeys; `crd.py` turns them into CRDs. Every
string, list and map has a bound, because the API server estimates the cost of rules from the bounds.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Annotated, Any, ClassVar, get_args

from pydantic import BaseModel, ConfigDict, Field, ValidationError
from pydantic.alias_generators import to_camel
from pydantic.fields import FieldInfo

from demarkus_operator.api.rules import Path, Rule, Value, broken, whole

GROUP = "demarkus.io"
VERSION = "v1alpha1"
API_VERSION = f"{GROUP}/{VERSION}"

MAX_NAME = 40
"""Longest name of a World or Universe: their children's names and labels have to fit the limits of Kubernetes."""

_NAME = r"^[a-z]([-a-z0-9]*[a-z0-9])?$"


class Model(BaseModel):
    """A mapping in a spec or status: camel-case fields, nothing unknown, no conversion of types."""

    model_config = ConfigDict(
        alias_generator=to_camel,
        extra="forbid",
        frozen=True,
        populate_by_name=True,
        strict=True,
        use_attribute_docstrings=True,
    )
    RULES: ClassVar[tuple[Rule, ...]] = ()


def name_rule(kind: str) -> Rule:
    """The rule on `metadata.name` of a kind."""
    fits = whole(_NAME)
    return Rule(
        name=f"{kind.lower()}-name",
        field="metadata.name",
        expression=f"self.metadata.name.size() <= {MAX_NAME} && self.metadata.name.matches(r'{_NAME}')",
        message=f"a {kind}'s name has at most {MAX_NAME} characters, begins with a letter and has only lower-case "
        "letters, digits and '-'; choose another metadata.name",
        holds=lambda self, _: len(self["metadata"]["name"]) <= MAX_NAME and fits(self["metadata"]["name"]),
    )


Label = Annotated[str, Field(min_length=1, max_length=63, pattern=r"^[a-z0-9]([-a-z0-9]*[a-z0-9])?$")]
"""A DNS label (RFC 1123): the name of a namespace."""

ImageTag = Annotated[str, Field(min_length=1, max_length=128, pattern=r"^[A-Za-z0-9_][A-Za-z0-9_.-]*$")]
"""A version as an image tag."""


@dataclass(frozen=True, slots=True)
class Problem:
    """One thing wrong with an object: the path of the field and a sentence for its author."""

    field: Path
    message: str

    def __str__(self) -> str:
        place = ""
        for step in self.field:
            place += f"[{step}]" if isinstance(step, int) else f".{step}"
        return f"{place.removeprefix('.')}: {self.message}" if place else self.message


def problems_of(model: type[Model], value: Value, old: Value | None, path: Path) -> tuple[Problem, ...]:
    """Everything wrong with a mapping that should be a `model`; rules about changes compare with `old` if given.

    Rules are asked only when types and sizes are right.
    """
    try:
        model.model_validate(value)
    except ValidationError as error:
        return tuple(Problem((*path, *entry["loc"]), _sentence(entry)) for entry in error.errors(include_url=False))
    return tuple(Problem(field, message) for field, message in _broken_rules(model, value, old, path))


def without_nulls(value: Any) -> Any:
    """The same without fields that are null: those are not set, as for the API server."""
    if isinstance(value, Mapping):
        return {key: without_nulls(item) for key, item in value.items() if item is not None}
    if isinstance(value, list):
        return [without_nulls(item) for item in value]
    return value


def model_of(annotation: Any) -> type[Model] | None:
    """The model inside a field's type (`X | None`, `list[X]`), if there is one."""
    if isinstance(annotation, type) and issubclass(annotation, Model):
        return annotation
    return next((found for argument in get_args(annotation) if (found := model_of(argument)) is not None), None)


def _broken_rules(model: type[Model], value: Value, old: Value | None, path: Path) -> Iterator[tuple[Path, str]]:
    yield from broken(model.RULES, value, old, path)
    for name, info in model.model_fields.items():
        key = _yaml_name(name, info)
        inner = model_of(info.annotation)
        if inner is None or key not in value:
            continue
        if isinstance(value[key], list):
            for index, item in enumerate(value[key]):
                yield from _broken_rules(inner, item, None, (*path, key, index))
        else:
            yield from _broken_rules(inner, value[key], (old or {}).get(key), (*path, key))


def _yaml_name(name: str, info: FieldInfo) -> str:
    return info.alias or name


def _sentence(entry: Mapping[str, Any]) -> str:
    """One pydantic error as a sentence, without the rejected value: it may be a secret put astray."""
    match entry["type"]:
        case "extra_forbidden":
            return "unknown field; remove it or correct its spelling"
        case "missing":
            return "is missing"
        case "string_pattern_mismatch":
            return f"has to match {entry['ctx']['pattern']}"
        case _:
            return str(entry["msg"]).removeprefix("Value error, ")
