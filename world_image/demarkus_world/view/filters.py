"""The filter of a LOOKUP (Mark protocol 8.3) as conditions on the catalog."""

import json
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import UTC, datetime

from mark_protocol.times import parse_rfc3339


class FilterError(ValueError):
    """A filter that can't be read; its text is that of the `bad-request`."""


@dataclass(frozen=True, slots=True)
class Condition:
    """SQL over `c`, a row of the catalog, and the value that it takes."""

    sql: str
    value: str | float


def conditions(text: str) -> Sequence[Condition]:
    """What every row must fulfil. Raises FilterError."""
    return [_condition(clause) for part in text.split(",") if (clause := part.strip())]


def _condition(clause: str) -> Condition:
    key, separator, value = (part.strip() for part in clause.partition("="))
    if not separator or not key:
        raise FilterError(f'malformed filter clause "{clause}"')
    if key == "tag":
        return Condition("instr(c.tags, ?) > 0", f"\n{value.lower()}\n")
    if key in ("modified-after", "modified-before"):
        return Condition(f"c.modified {'>' if key == 'modified-after' else '<'} ?", _seconds(key, value))
    # Metadata is one JSON text without spaces, and a quote inside it is escaped: the pair is found as a whole only.
    pair = json.dumps({key: value}, separators=(",", ":"))[1:-1]
    return Condition("instr((SELECT metadata FROM document WHERE id = c.document), ?) > 0", pair)


def _seconds(key: str, value: str) -> float:
    try:
        day = datetime.strptime(value, "%Y-%m-%d").replace(tzinfo=UTC) if len(value) == 10 else None
    except ValueError:
        day = None
    moment = day or parse_rfc3339(value)
    if moment is None:
        raise FilterError(f'filter {key}: invalid date "{value}" (want RFC 3339 or YYYY-MM-DD)')
    return moment.timestamp()
