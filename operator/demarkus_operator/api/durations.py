"""Durations as people write them: a whole number and a unit, `500ms`, `10s`, `12h`, `90d`."""

from __future__ import annotations

import re
from datetime import timedelta

from demarkus_operator.api.rules import Rule, whole

SPAN = r"^((0|[1-9][0-9]{0,4})[smh]|(0|[1-9][0-9]{0,3})d)$"
"""Anything up to 27 years."""
DAYS = r"^([1-9][0-9]{0,3}d|(2[4-9]|[3-9][0-9]|[1-9][0-9]{2,4})h)$"
"""A day or more."""

_UNITS = {"ms": "milliseconds", "s": "seconds", "m": "minutes", "h": "hours", "d": "days"}
_PARTS = re.compile(r"([0-9]+)(ms|s|m|h|d)")


def duration(text: str) -> timedelta:
    """The time that a text of these patterns stands for. Raises ValueError."""
    match = _PARTS.fullmatch(text)
    if match is None:
        raise ValueError(f"{text!r} is not a whole number with one of the units {' '.join(_UNITS)}")
    return timedelta(**{_UNITS[match[2]]: int(match[1])})


def duration_rule(name: str, field: str, pattern: str, message: str) -> Rule:
    """The rule on an optional field that holds a duration."""
    fits = whole(pattern)
    return Rule(
        name=name,
        field=field,
        expression=f"!has(self.{field}) || self.{field}.matches(r'{pattern}')",
        message=message,
        holds=lambda self, _: field not in self or fits(self[field]),
    )
