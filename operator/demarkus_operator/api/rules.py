"""Validation rules: each one declared once, as a CEL expression, as a predicate, and with one message for both.

The API server evaluates the expression (`crd.py` writes it into the CRD); `broken` evaluates the predicate, for
`demarkus up`, where there is no API server, and for the reconcile, which trusts nobody. A test holds the two together.

A rule belongs to a model, and looks at one mapping in the shape it has in YAML: with the fields that are there and no
others. Predicates are only asked about values that already have the right types and sizes.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any

Value = Mapping[str, Any]
Path = tuple[str | int, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class Rule:
    """One rule.

    Attributes:
        name: what tests call it.
        expression: CEL over `self` (and `oldSelf`, which makes it a rule about changes).
        message: what to do, for whoever wrote the object.
        field: the field that the message is about, such as `size` or `metadata.name`; empty for the mapping itself.
        holds: the same as `expression`; gets the mapping and, for a rule about changes, the one before.
    """

    name: str
    expression: str
    message: str
    field: str = ""
    holds: Callable[[Value, Value], bool]

    @property
    def about_change(self) -> bool:
        """Whether the rule compares with the object before; it is not asked at creation."""
        return "oldSelf" in self.expression


def broken(rules: tuple[Rule, ...], value: Value, old: Value | None, path: Path) -> Iterator[tuple[Path, str]]:
    """The field and message of every rule that does not hold for the mapping at `path`."""
    for rule in rules:
        if rule.about_change and old is None:
            continue
        if not rule.holds(value, old or {}):
            steps = rule.field.split(".")
            yield (*path, *steps) if steps[0] in value else path, rule.message


def whole(pattern: str) -> Callable[[str], bool]:
    """A test for the whole of a text: `pattern` begins with ^ and ends with $, as CEL's `matches` wants it.

    Python's `$` would let a final line feed through.
    """
    compiled = re.compile(pattern.removeprefix("^").removesuffix("$"))
    return lambda text: compiled.fullmatch(text) is not None
