"""Whether an object already is what a manifest says, so that nothing need be written.

The answer rests on `metadata.managedFields`, the API server's record of who set what (Kubernetes documentation,
"Server-Side Apply"): every field of the manifest must be ours and have that value, and no other field may be ours.
Then an apply would change nothing. Fields of others, and defaults that the API server filled in, do not count.

An object without that record belongs to one writer: every field of it is ours. That is how stores that know no field
managers look.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from demarkus_operator.plan.objects import Manifest

MANAGER = "demarkus-operator"
"""The field manager of everything we apply."""

Fields = Mapping[str, Any]
"""A part of the record: `f:<field>`, `k:<keys of an item>` or `v:<value>` to what is below it."""

_NAMES = frozenset({"apiVersion", "kind"})
_GUARDS = frozenset({"name", "namespace", "uid", "resourceVersion"})
_FILLED_IN = frozenset({"creationTimestamp", "generation", "managedFields", "selfLink", "deletionTimestamp"})
_KEY_DEFAULTS = {"protocol": "TCP"}
"""Keys of associative lists that a manifest may leave out (`ports`), and what they count as then."""


def difference(live: Manifest, desired: Manifest) -> str | None:
    """Where an apply of `desired` would change `live`, as the path of the first place; None when it would not."""
    body = {k: v for k, v in desired.items() if k not in _NAMES}
    body["metadata"] = {k: v for k, v in desired["metadata"].items() if k not in _GUARDS}
    fields = _owned(live)
    if fields is None:
        fields = _everything(live, body)
    elif not fields:
        return "nothing of it is ours"
    if not body["metadata"] and "f:metadata" not in fields:
        del body["metadata"]
    return next(_walk(body, fields, live, ""), None)


def _owned(live: Manifest) -> Fields | None:
    """Our entry in the record of managed fields; empty when we applied nothing, None when there is no record."""
    entries = live["metadata"].get("managedFields")
    if entries is None:
        return None
    for entry in entries:
        if (entry.get("manager"), entry.get("operation"), entry.get("subresource", "")) == (MANAGER, "Apply", ""):
            fields: Fields = entry["fieldsV1"]
            return fields
    return {}


def _everything(live: Manifest, body: Mapping[str, Any]) -> Fields:
    """The record of an object that is all ours, but for its status."""

    def fields(value: Any) -> Fields:
        return {f"f:{k}": fields(v) for k, v in value.items()} if isinstance(value, Mapping) else {}

    ours = {k: v for k, v in live.items() if k not in _NAMES and (k != "status" or k in body)}
    ours["metadata"] = {k: v for k, v in live["metadata"].items() if k not in _GUARDS | _FILLED_IN}
    if not ours["metadata"]:
        del ours["metadata"]
    return fields(ours)


def _walk(desired: Any, fields: Fields, live: Any, path: str) -> Iterator[str]:
    """Paths below which the three disagree. `fields` is the part of the record for this place."""
    inner = [name for name in fields if name != "."]
    if not inner:  # a leaf of the record: a scalar, or something that is only ever set as a whole
        if not _covers(desired, live):
            yield path
    elif isinstance(desired, Mapping) and isinstance(live, Mapping):
        yield from _walk_map(desired, fields, live, path)
    elif isinstance(desired, Sequence) and isinstance(live, Sequence):
        yield from _walk_list(desired, fields, inner, live, path)
    else:
        yield path


def _walk_map(desired: Mapping[str, Any], fields: Fields, live: Mapping[str, Any], path: str) -> Iterator[str]:
    for key, value in desired.items():
        here = f"{path}.{key}".removeprefix(".")
        if f"f:{key}" in fields:
            yield from _walk(value, fields[f"f:{key}"], live.get(key), here)
        elif not (_empty(value) and _empty(live.get(key))):
            yield here
    for name in fields:
        if name.startswith("f:") and name[2:] not in desired:
            yield f"{path}.{name[2:]}".removeprefix(".")


def _walk_list(
    desired: Sequence[Any], fields: Fields, inner: Sequence[str], live: Sequence[Any], path: str
) -> Iterator[str]:
    if inner[0].startswith("v:"):  # a set
        ours = [json.loads(name[2:]) for name in inner]
        if sorted(map(str, ours)) != sorted(map(str, desired)) or not all(item in live for item in ours):
            yield path
        return
    keys = {name: json.loads(name[2:]) for name in inner}
    positions: list[int] = []
    for item in desired:
        name = next((name for name, key in keys.items() if _has_key(item, key)), None)
        position = next((i for i, other in enumerate(live) if name and _has_key(other, keys[name])), None)
        if name is None or position is None:
            yield path
            return
        positions.append(position)
        yield from _walk(item, fields[name], live[position], f"{path}[{position}]")
    if len(keys) != len(desired) or positions != sorted(positions):
        yield path


def _has_key(item: Any, key: Mapping[str, Any]) -> bool:
    return isinstance(item, Mapping) and all(item.get(k, _KEY_DEFAULTS.get(k)) == v for k, v in key.items())


def _covers(desired: Any, live: Any) -> bool:
    """Whether a value that is set as a whole is there, but for defaults that were filled in."""
    if isinstance(desired, Mapping):
        there = live if isinstance(live, Mapping) else {}
        return (_empty(desired) and _empty(live)) or (
            isinstance(live, Mapping) and all(_covers(value, there.get(key)) for key, value in desired.items())
        )
    if isinstance(desired, Sequence) and not isinstance(desired, str):
        if _empty(desired) and _empty(live):
            return True
        return (
            isinstance(live, Sequence)
            and len(desired) == len(live)
            and all(_covers(d, other) for d, other in zip(desired, live, strict=True))
        )
    return bool(desired == live)


def _empty(value: Any) -> bool:
    """The API server keeps empty maps and lists, or drops them, as the type pleases."""
    return value is None or value == {} or value == []
