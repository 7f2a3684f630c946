"""What somebody changed is put back, whatever field it was."""

from __future__ import annotations

import asyncio
import json
import time
from collections.abc import Iterator
from typing import Any

from demarkus_operator.cluster.kinds import SECRET
from demarkus_operator.cluster.port import PortError
from demarkus_operator.plan.names import UniverseNames
from demarkus_operator.plan.objects import Manifest, Ref
from tests.cluster.home import EXAMPLE, Home, eventually

Keys = tuple[tuple[str, Any], ...]
"""What tells an item of a list from the others."""
Path = tuple[str | Keys, ...]


def leaves(fields: dict[str, Any], live: Any, path: Path = ()) -> Iterator[Path]:
    """The paths of all fields in a record of managed fields."""
    for name, inner in fields.items():
        kind, _, rest = name.partition(":")
        if kind == "f":
            step: str | Keys = rest
        elif kind == "k":
            step = tuple(json.loads(rest).items())
        else:
            continue  # the object itself, or an item of a set
        below = list(leaves(inner, at(live, (step,)), (*path, step)))
        yield from below or [(*path, step)]


def owned(child: Manifest) -> list[Path]:
    """The fields of a child that are ours."""
    for entry in child["metadata"].get("managedFields", ()):
        if (entry["manager"], entry["operation"]) == ("demarkus-operator", "Apply") and "subresource" not in entry:
            return list(leaves(entry["fieldsV1"], child))
    return []


def at(value: Any, path: Path) -> Any:
    """The value there, or None."""
    for step in path:
        if isinstance(step, tuple):
            items = value if isinstance(value, list) else []
            value = next((item for item in items if item_of(item, step)), None)
        else:
            value = value.get(step) if isinstance(value, dict) else None
    return value


def item_of(item: Any, keys: Keys) -> bool:
    """Whether an item of a list is the one with these keys."""
    return all(item.get(key) == value for key, value in keys)


def other(value: Any) -> Any:
    """Something else of the same type."""
    match value:
        case bool():
            return not value
        case int():
            return value + 1
        case str():
            return f"{value}-edited"
        case list():
            return value[:-1]
        case _:
            return None


def merge_patch(child: Any, path: Path, value: Any) -> Any:
    """The patch that sets a field (None removes it); a list is replaced whole."""
    if not path:
        return value
    head, *rest = path
    inner = merge_patch(at(child, (head,)), tuple(rest), value)
    if isinstance(head, tuple):
        return [merged(item, inner) if item_of(item, head) else item for item in child]
    return {head: inner}


def merged(item: Any, patch: Any) -> Any:
    """RFC 7396, but for lists of lists."""
    if not isinstance(patch, dict) or not isinstance(item, dict):
        return patch
    left = {key: value for key, value in item.items() if key not in patch}
    return left | {key: merged(item.get(key), value) for key, value in patch.items() if value is not None}


async def test_every_owned_field_of_every_child_is_put_back(home: Home) -> None:
    """Each is changed, and if that is not allowed removed; what the API server lets nobody change needs no repair.

    Secrets are kept out, and what the Universe's record says: it is written down nowhere else.
    """
    await home.operator()
    home.apply_files(sorted(EXAMPLE.iterdir()))
    await home.settled()
    children = {
        ref: one
        for ref, one in (await home.objects()).items()
        if ref.kind not in (SECRET.kind, "World", "Universe", "Pod", "Event") and owned(one)
    }
    assert {ref.kind for ref in children} >= {"ConfigMap", "Deployment", "NetworkPolicy", "Service", "StatefulSet"}
    record = UniverseNames(home.namespace, "acme").record
    fields = {
        ref: [path for path in owned(one) if ref != record or not {"data", "annotations"} & set(path)]
        for ref, one in children.items()
    }
    left: dict[str, Path] = {}
    edited, slowest = 0, 0.0
    for path_number in range(max(map(len, fields.values()))):
        # One field of each child at a time: all of them are edited, then all have to come back.
        changed: dict[Ref, tuple[Path, Any]] = {}
        for ref, child in children.items():
            paths = fields[ref]
            if path_number < len(paths) and await edit(home, ref, child, paths[path_number]):
                changed[ref] = paths[path_number], at(child, paths[path_number])
        started = time.monotonic()

        async def restored(changed: dict[Ref, tuple[Path, Any]] = changed) -> bool:
            now = await asyncio.gather(*(home.find(ref) for ref in changed))
            left.clear()
            left.update(
                {
                    str(ref): path
                    for one, (ref, (path, value)) in zip(now, changed.items(), strict=True)
                    if at(one, path) != value
                }
            )
            return not left

        try:
            await eventually("everything put back", restored)
        except AssertionError as late:
            raise AssertionError(f"{late}; not put back: {left}") from None
        slowest = max(slowest, time.monotonic() - started)
        edited += len(changed)
    print(f"{edited} fields of {len(children)} children put back, the slowest round after {slowest:.1f} s")
    assert edited > 3 * len(children)


async def edit(home: Home, ref: Ref, child: Manifest, path: Path) -> bool:
    """Changes a field, or removes it; whether it is another now."""
    for value in (other(at(child, path)), None):
        now = await home.api.get(ref)
        try:
            edited = await home.api.patch(ref, merge_patch(now, path, value), now["metadata"]["resourceVersion"])
        except PortError:
            continue  # nobody may, or somebody wrote in between
        if at(edited, path) != at(child, path):
            return True
    return False
