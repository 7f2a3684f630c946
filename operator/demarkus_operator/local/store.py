"""A cluster's objects in a folder: the port of `cluster/port.py` over files.

What the API server would do is done here as far as the reconcilers can tell the difference: uid, creationTimestamp,
resourceVersion and generation are kept; `create` refuses what exists; `apply` replaces what an earlier `apply` set and
leaves the rest; status has its own call; deleting an owner takes the children that name no other living owner along.
There is one field manager and one process (the state folder's lock), so nothing here resolves conflicts between
writers. Schemas and rules are not enforced here: manifests are judged before they come in.

One object is one file, `objects/<kind>.<group>/<namespace>/<name>.json`, replaced durably. A file holds the object and
what was last applied to it; the latter stands in for the API server's record of managed fields.
"""

from __future__ import annotations

import asyncio
import json
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from demarkus_operator.cluster.port import AlreadyExists, Conflict, Invalid, NotFound
from demarkus_operator.local.state import make_folder, sync_folder, write_durably
from demarkus_operator.plan.objects import Manifest, Ref

_OWN_METADATA = frozenset({"uid", "creationTimestamp", "resourceVersion", "generation", "managedFields"})
"""What the other side of the port decides; such keys of a written manifest are not taken over."""


class StateDamaged(Exception):
    """A file in the state folder is not what this program wrote; the message names it."""


@dataclass(frozen=True, slots=True)
class _Stored:
    """An object, and the fields the last `apply` set, as the file has them."""

    object: dict[str, Any]
    applied: dict[str, Any]


class FileStore:
    """The port over a folder. All calls belong to one event loop; file work runs in threads."""

    def __init__(
        self,
        folder: Path,
        stored: dict[Ref, _Stored],
        *,
        now: Callable[[], datetime],
        new_uid: Callable[[], str],
        changed: Callable[[Ref], None],
    ) -> None:
        self._folder = folder
        self._stored = stored
        self._now = now
        self._new_uid = new_uid
        self._changed = changed
        self._version = max((int(s.object["metadata"]["resourceVersion"]) for s in stored.values()), default=0)
        self._writing = asyncio.Lock()

    @classmethod
    async def open(
        cls,
        folder: Path,
        *,
        now: Callable[[], datetime],
        new_uid: Callable[[], str],
        changed: Callable[[Ref], None] = lambda ref: None,
    ) -> FileStore:
        """The objects in this folder, created if absent; `changed` is called after every write that changed one.

        Raises StateDamaged.
        """
        store = cls(folder, await asyncio.to_thread(_load, folder), now=now, new_uid=new_uid, changed=changed)
        async with store._writing:
            await store._collect()  # a process killed in the middle of a deletion left the rest to us
        return store

    async def get(self, ref: Ref) -> Manifest:
        return self._existing(ref).object

    async def list(
        self, api_version: str, kind: str, *, namespace: str | None = None, labels: Mapping[str, str] | None = None
    ) -> Sequence[Manifest]:
        wanted = (labels or {}).items()
        found = [
            (ref, stored.object)
            for ref, stored in self._stored.items()
            if (ref.api_version, ref.kind) == (api_version, kind)
            and namespace in (None, ref.namespace)
            and wanted <= stored.object["metadata"].get("labels", {}).items()
        ]
        return [manifest for _, manifest in sorted(found, key=lambda item: (item[0].namespace, item[0].name))]

    async def create(self, manifest: Manifest) -> Manifest:
        ref, wanted = _readable(manifest)
        async with self._writing:
            if ref in self._stored:
                raise AlreadyExists(f"create {ref}: it exists")
            return await self._write(ref, None, wanted, applied={})

    async def apply(self, manifest: Manifest) -> Manifest:
        ref, wanted = _readable(manifest)
        async with self._writing:
            before = self._stored.get(ref)
            guard = manifest["metadata"].get("uid")
            if guard is not None and (before is None or before.object["metadata"]["uid"] != guard):
                raise Conflict(f"apply {ref}: it has another uid than {guard}")
            version = manifest["metadata"].get("resourceVersion")
            if version is not None and (before is None or before.object["metadata"]["resourceVersion"] != version):
                raise Conflict(f"apply {ref}: it is no longer at resourceVersion {version}")
            if before is None:
                return await self._write(ref, None, wanted, applied=wanted)
            kept = _without(before.object, before.applied, wanted)
            return await self._write(ref, before, _merged(kept, wanted), applied=wanted)

    async def patch(self, ref: Ref, patch: Mapping[str, Any], resource_version: str) -> Manifest:
        async with self._writing:
            before = self._existing(ref)
            if before.object["metadata"]["resourceVersion"] != resource_version:
                raise Conflict(f"patch {ref}: it is no longer at resourceVersion {resource_version}")
            wanted = {key: value for key, value in patch.items() if key != "status"}
            return await self._write(ref, before, _merge_patch(before.object, wanted), applied=before.applied)

    async def patch_status(self, ref: Ref, status: Mapping[str, Any]) -> Manifest:
        async with self._writing:
            before = self._existing(ref)
            merged = _merge_patch(before.object.get("status", {}), status)
            return await self._write(ref, before, before.object, applied=before.applied, status=merged)

    async def delete(self, ref: Ref, *, uid: str | None = None) -> None:
        async with self._writing:
            stored = self._stored.get(ref)
            if stored is None:
                return
            if uid is not None and stored.object["metadata"]["uid"] != uid:
                raise Conflict(f"delete {ref}: it has another uid than {uid}")
            await self._remove(ref)
            await self._collect()

    def _existing(self, ref: Ref) -> _Stored:
        stored = self._stored.get(ref)
        if stored is None:
            raise NotFound(f"{ref} does not exist")
        return stored

    async def _write(
        self,
        ref: Ref,
        before: _Stored | None,
        wanted: Mapping[str, Any],
        *,
        applied: dict[str, Any],
        status: Mapping[str, Any] | None = None,
    ) -> Manifest:
        result = {key: value for key, value in wanted.items() if key != "status"}
        metadata = {key: value for key, value in wanted["metadata"].items() if key not in _OWN_METADATA}
        if before is None:
            metadata["uid"] = self._new_uid()
            metadata["creationTimestamp"] = self._now().astimezone(UTC).strftime("%Y-%m-%dT%H:%M:%SZ")
            generation = 1
        else:
            old = before.object
            metadata["uid"] = old["metadata"]["uid"]
            metadata["creationTimestamp"] = old["metadata"]["creationTimestamp"]
            generation = old["metadata"].get("generation", 1) + (result.get("spec") != old.get("spec"))
            kept_status = status if status is not None else old.get("status")
            if kept_status:
                result["status"] = kept_status
        if "spec" in result:
            metadata["generation"] = generation
        result["metadata"] = metadata
        if before is not None and _same(before.object, result):
            if before.applied != applied:
                await self._keep(ref, _Stored(before.object, applied))
            return before.object
        self._version += 1
        metadata["resourceVersion"] = str(self._version)
        await self._keep(ref, _Stored(_plain(result), applied))
        self._changed(ref)
        return self._stored[ref].object

    async def _keep(self, ref: Ref, stored: _Stored) -> None:
        data = json.dumps({"object": stored.object, "applied": stored.applied}, indent=1, sort_keys=True).encode()
        await asyncio.to_thread(write_durably, self._file(ref), data)
        self._stored[ref] = stored

    async def _remove(self, ref: Ref) -> None:
        file = self._file(ref)

        def unlink() -> None:
            file.unlink(missing_ok=True)
            sync_folder(file.parent)

        await asyncio.to_thread(unlink)
        del self._stored[ref]
        self._changed(ref)

    async def _collect(self) -> None:
        while orphans := self._orphans():
            for orphan in orphans:
                await self._remove(orphan)

    def _orphans(self) -> tuple[Ref, ...]:
        alive = {stored.object["metadata"]["uid"] for stored in self._stored.values()}
        return tuple(
            ref
            for ref, stored in self._stored.items()
            if (owners := stored.object["metadata"].get("ownerReferences"))
            and not any(owner["uid"] in alive for owner in owners)
        )

    def _file(self, ref: Ref) -> Path:
        group = ref.api_version.rpartition("/")[0]
        kind = f"{ref.kind}.{group}" if group else ref.kind
        return self._folder / kind / (ref.namespace or "_") / f"{ref.name}.json"


def _load(folder: Path) -> dict[Ref, _Stored]:
    make_folder(folder)
    stored: dict[Ref, _Stored] = {}
    for file in sorted(folder.glob("*/*/*")):
        if file.name.startswith("."):
            file.unlink()  # what a killed write left; nothing else begins with a dot
            continue
        try:
            content = json.loads(file.read_bytes())
            one = _Stored(content["object"], content["applied"])
            int(one.object["metadata"]["resourceVersion"])
            stored[Ref.of(one.object)] = one
        except (OSError, ValueError, KeyError, TypeError) as error:
            raise StateDamaged(
                f"{file} is damaged ({type(error).__name__}): restore it or use another state folder"
            ) from error
    return stored


def _readable(manifest: Manifest) -> tuple[Ref, dict[str, Any]]:
    """The manifest as data of our own, and its name; raises Invalid for what could not be a file."""
    ref = Ref.of(manifest)
    for part in (ref.kind, ref.namespace, ref.name):
        if part and ("/" in part or part.startswith(".") or "\0" in part):
            raise Invalid(f"{ref}: {part!r} is not a name")
    if not ref.name:
        raise Invalid(f"{ref.kind}: metadata.name is missing")
    return ref, _plain({key: value for key, value in manifest.items() if key != "status"})


def _plain(manifest: Mapping[str, Any]) -> dict[str, Any]:
    plain = json.loads(json.dumps(manifest))
    assert isinstance(plain, dict)
    return plain


def _same(before: Mapping[str, Any], after: Mapping[str, Any]) -> bool:
    def comparable(manifest: Mapping[str, Any]) -> dict[str, Any]:
        metadata = {key: value for key, value in manifest["metadata"].items() if key != "resourceVersion"}
        return {**manifest, "metadata": metadata}

    return _plain(comparable(before)) == _plain(comparable(after))


def _without(current: Mapping[str, Any], applied: Mapping[str, Any], wanted: Mapping[str, Any]) -> dict[str, Any]:
    """`current` less the fields that were applied and are not wanted any more."""
    kept: dict[str, Any] = {}
    for key, value in current.items():
        if key in applied and key not in wanted:
            if isinstance(value, dict) and isinstance(applied[key], dict):
                rest = _without(value, applied[key], {})
                if rest:
                    kept[key] = rest
        elif isinstance(value, dict) and isinstance(applied.get(key), dict) and isinstance(wanted.get(key), dict):
            kept[key] = _without(value, applied[key], wanted[key])
        else:
            kept[key] = value
    return kept


def _merged(current: Mapping[str, Any], wanted: Mapping[str, Any]) -> dict[str, Any]:
    result = dict(current)
    for key, value in wanted.items():
        old = result.get(key)
        result[key] = _merged(old, value) if isinstance(value, dict) and isinstance(old, dict) else value
    return result


def _merge_patch(current: Any, patch: Any) -> Any:
    """RFC 7396."""
    if not isinstance(patch, Mapping):
        return patch
    result = dict(current) if isinstance(current, Mapping) else {}
    for key, value in patch.items():
        if value is None:
            result.pop(key, None)
        else:
            result[key] = _merge_patch(result.get(key), value)
    return result
