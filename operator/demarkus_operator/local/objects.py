"""A cluster's objects in memory: the port of `cluster/port.py` over a dictionary, with a hook for whoever keeps them.

What the API server would do is done here as far as the reconcilers can tell the difference: uid, creationTimestamp,
resourceVersion and generation are kept; `create` refuses what exists; status has its own call; deleting an owner takes
the children that name no other living owner along. There is one writer, so every field of an object belongs to it:
`apply` makes the object what the manifest says, and there is no record of managed fields. Schemas and rules are not
enforced here: manifests are judged before they come in.
"""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping, Sequence
from datetime import UTC, datetime
from typing import Any, Protocol

from demarkus_operator.cluster.port import AlreadyExists, Conflict, Invalid, NotFound
from demarkus_operator.plan.objects import Manifest, Ref

_OWN_METADATA = frozenset({"uid", "creationTimestamp", "resourceVersion", "generation", "managedFields"})
"""What the other side of the port decides; such keys of a written manifest are not taken over."""


class Changed(Protocol):
    """Called on the event loop after a write that changed an object, with the object as it is or, if `gone`, was."""

    def __call__(self, manifest: Manifest, *, gone: bool) -> None: ...


Keep = Callable[[Ref, Manifest | None], Awaitable[None]]
"""Called before a write counts: keeps an object, or (None) removes what was kept of it."""


async def keep_nothing(ref: Ref, manifest: Manifest | None) -> None:
    """For objects that live no longer than the process."""


class Objects:
    """The port over a dictionary. All calls belong to one event loop."""

    def __init__(
        self,
        objects: dict[Ref, Manifest],
        *,
        now: Callable[[], datetime],
        new_uid: Callable[[], str],
        changed: Changed,
        keep: Keep = keep_nothing,
    ) -> None:
        self._objects = objects
        self._now = now
        self._new_uid = new_uid
        self._changed = changed
        self._keep = keep
        self._version = max((int(found["metadata"]["resourceVersion"]) for found in objects.values()), default=0)
        self._writing = asyncio.Lock()

    async def get(self, ref: Ref) -> Manifest:
        return self._existing(ref)

    async def list(
        self, api_version: str, kind: str, *, namespace: str | None = None, labels: Mapping[str, str] | None = None
    ) -> Sequence[Manifest]:
        wanted = (labels or {}).items()
        return [
            found
            for ref, found in sorted(self._objects.items())
            if (ref.api_version, ref.kind) == (api_version, kind)
            and namespace in (None, ref.namespace)
            and wanted <= found["metadata"].get("labels", {}).items()
        ]

    async def pages(
        self, api_version: str, kind: str, *, namespace: str | None = None, labels: Mapping[str, str] | None = None
    ) -> AsyncIterator[Sequence[Manifest]]:
        yield await self.list(api_version, kind, namespace=namespace, labels=labels)

    async def create(self, manifest: Manifest) -> Manifest:
        ref, wanted = _readable(manifest)
        async with self._writing:
            if ref in self._objects:
                raise AlreadyExists(f"create {ref}: it exists")
            return await self._write(ref, None, wanted)

    async def apply(self, manifest: Manifest) -> Manifest:
        ref, wanted = _readable(manifest)
        async with self._writing:
            before = self._objects.get(ref)
            for guard in ("uid", "resourceVersion"):
                expected = manifest["metadata"].get(guard)
                if expected is not None and (before is None or before["metadata"][guard] != expected):
                    raise Conflict(f"apply {ref}: its {guard} is not {expected}")
            return await self._write(ref, before, wanted)

    async def patch(self, ref: Ref, patch: Mapping[str, Any], resource_version: str) -> Manifest:
        async with self._writing:
            before = self._existing(ref)
            if before["metadata"]["resourceVersion"] != resource_version:
                raise Conflict(f"patch {ref}: it is no longer at resourceVersion {resource_version}")
            wanted = {key: value for key, value in patch.items() if key != "status"}
            return await self._write(ref, before, _merge_patch(before, wanted))

    async def patch_status(self, ref: Ref, status: Mapping[str, Any]) -> Manifest:
        async with self._writing:
            before = self._existing(ref)
            return await self._write(ref, before, before, status=_merge_patch(before.get("status"), status))

    async def delete(self, ref: Ref, *, uid: str | None = None) -> None:
        async with self._writing:
            found = self._objects.get(ref)
            if found is None:
                return
            if uid is not None and found["metadata"]["uid"] != uid:
                raise Conflict(f"delete {ref}: its uid is not {uid}")
            await self._remove(ref)
            await self._collect()

    def _existing(self, ref: Ref) -> Manifest:
        found = self._objects.get(ref)
        if found is None:
            raise NotFound(f"{ref} does not exist")
        return found

    async def _write(
        self, ref: Ref, before: Manifest | None, wanted: Mapping[str, Any], *, status: Mapping[str, Any] | None = None
    ) -> Manifest:
        """Keep `wanted` under this name, with the status there was unless there is a new one."""
        result = {key: value for key, value in wanted.items() if key != "status"}
        metadata = {key: value for key, value in wanted["metadata"].items() if key not in _OWN_METADATA}
        generation = 1
        if before is None:
            metadata["uid"] = self._new_uid()
            metadata["creationTimestamp"] = self._now().astimezone(UTC).strftime("%Y-%m-%dT%H:%M:%SZ")
        else:
            metadata |= {key: before["metadata"][key] for key in ("uid", "creationTimestamp", "resourceVersion")}
            generation = before["metadata"].get("generation", 1) + (result.get("spec") != before.get("spec"))
            status = before.get("status") if status is None else status
        if "spec" in result:
            metadata["generation"] = generation
        if status:
            result["status"] = status
        result["metadata"] = metadata
        if before is not None and before == _plain(result):
            return before
        self._version += 1
        metadata["resourceVersion"] = str(self._version)
        kept = _plain(result)
        await self._keep(ref, kept)
        self._objects[ref] = kept
        self._changed(kept, gone=False)
        return kept

    async def _remove(self, ref: Ref) -> None:
        await self._keep(ref, None)
        self._changed(self._objects.pop(ref), gone=True)

    async def _collect(self) -> None:
        while orphans := self._orphans():
            for orphan in orphans:
                await self._remove(orphan)

    def _orphans(self) -> tuple[Ref, ...]:
        alive = {found["metadata"]["uid"] for found in self._objects.values()}
        return tuple(
            ref
            for ref, found in self._objects.items()
            if (owners := found["metadata"].get("ownerReferences"))
            and not any(owner["uid"] in alive for owner in owners)
        )


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
