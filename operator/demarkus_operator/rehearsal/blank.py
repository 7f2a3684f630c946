"""Generated material, taken out of what is shown.

A rehearsal makes keys and identifiers as a reconcile does, only that everybody can guess them. Whoever applied a
rendering that held them would have a world that everybody can write to; so the rendering holds none.
"""

from __future__ import annotations

import base64
from collections.abc import Iterable, Iterator, Mapping
from typing import Any

from demarkus_operator.cluster.kinds import CONFIG_MAP, SECRET
from demarkus_operator.plan.children.broker_config import CONFIG_FILE as BROKER_FILE
from demarkus_operator.plan.children.world_config import CONFIG_FILE as WORLD_FILE
from demarkus_operator.plan.objects import Manifest

MADE = "(made by the operator)"
_SETTINGS = (WORLD_FILE, BROKER_FILE)
_IDENTIFIERS = ("history", "incarnation")
_OF_THE_SERVER = frozenset({"uid", "resourceVersion", "generation", "creationTimestamp", "managedFields"})


def blanked(objects: Iterable[Manifest]) -> list[dict[str, Any]]:
    """The objects without generated material: no data in Secrets, a word in place of keys and identifiers."""
    shown = [_shown(one) for one in objects]
    words = dict(_words(shown))
    return [_blank(one, words) for one in shown]


def _shown(one: Manifest) -> dict[str, Any]:
    metadata = {key: value for key, value in one["metadata"].items() if key not in _OF_THE_SERVER}
    body = {key: value for key, value in one.items() if key not in ("apiVersion", "kind", "metadata", "status")}
    return {"apiVersion": one["apiVersion"], "kind": one["kind"], "metadata": metadata, **body}


def _words(objects: Iterable[Manifest]) -> Iterator[tuple[str, str]]:
    """What stands in the objects and is made up, and what to write for it."""
    for one in objects:
        metadata, data = one["metadata"], one.get("data") or {}
        for owner in metadata.get("ownerReferences", ()):
            yield owner["uid"], f"(uid of {owner['kind']} {owner['name']})"
        for name in _IDENTIFIERS:
            if one["kind"] == SECRET.kind and name in data:
                world = f"{metadata['namespace']}/{metadata['name'].removesuffix('-identity')}"
                yield base64.b64decode(data[name]).decode(), f"({name} of {world})"


def _blank(one: dict[str, Any], words: Mapping[str, str]) -> dict[str, Any]:
    data = one.get("data") or {}
    if one["kind"] == SECRET.kind:
        return {**_replaced(one, words), "data": dict.fromkeys(data, "")}
    if one["kind"] == CONFIG_MAP.kind:
        ours = {name for name, text in data.items() if name in _SETTINGS or any(word in text for word in words)}
        one = {**one, "data": {name: text if name in ours else MADE for name, text in data.items()}}
    return dict(_replaced(one, words))


def _replaced(value: Any, words: Mapping[str, str]) -> Any:
    if isinstance(value, str):
        for word, shown in words.items():
            value = value.replace(word, shown)
        return value
    if isinstance(value, Mapping):
        return {key: _replaced(inner, words) for key, inner in value.items()}
    if isinstance(value, list):
        return [_replaced(inner, words) for inner in value]
    return value
