"""The port over what a cluster has, on which every write stays a thought.

An object is read from the cluster when it is first asked for; from then on its copy counts. Without a cluster there is
nothing at the start.
"""

from __future__ import annotations

import itertools
from collections.abc import Mapping, Sequence
from datetime import datetime
from typing import Any

from demarkus_operator.cluster.apply import difference
from demarkus_operator.cluster.port import NotFound, Port
from demarkus_operator.local.objects import Objects
from demarkus_operator.plan.objects import Manifest, Ref


class Stage(Objects):
    """The port.

    `before` holds what the cluster has of each object that was looked at, None for what is absent; `said` what was last
    applied to an object. `now` is the time, in UTC.
    """

    def __init__(self, cluster: Port | None, *, now: datetime) -> None:
        uids = itertools.count(1)
        super().__init__(
            {},
            now=lambda: now,
            new_uid=lambda: f"00000000-0000-0000-0000-{next(uids):012d}",
            changed=self._note,
        )
        self.before: dict[Ref, Manifest | None] = {}
        self.said: dict[Ref, Manifest] = {}
        self._cluster = cluster
        self._writes = 0

    @property
    def writes(self) -> int:
        """How many writes changed something so far."""
        return self._writes

    def now(self, ref: Ref) -> Manifest | None:
        """What the object is by now."""
        return self._objects.get(ref)

    async def get(self, ref: Ref) -> Manifest:
        await self._fetch(ref)
        return await super().get(ref)

    async def list(
        self, api_version: str, kind: str, *, namespace: str | None = None, labels: Mapping[str, str] | None = None
    ) -> Sequence[Manifest]:
        if self._cluster is not None:
            for found in await self._cluster.list(api_version, kind, namespace=namespace, labels=labels):
                self._take_over(Ref.of(found), found)
        return await super().list(api_version, kind, namespace=namespace, labels=labels)

    async def create(self, manifest: Manifest) -> Manifest:
        await self._fetch(Ref.of(manifest))
        return await super().create(manifest)

    async def apply(self, manifest: Manifest) -> Manifest:
        ref = Ref.of(manifest)
        await self._fetch(ref)
        live = self._objects.get(ref)
        if live is None:
            return await super().apply(manifest)
        if difference(live, manifest) is None:
            return live
        self.said[ref] = manifest
        return await super().apply(_laid_over(live, manifest))

    async def patch(self, ref: Ref, patch: Mapping[str, Any], resource_version: str) -> Manifest:
        await self._fetch(ref)
        return await super().patch(ref, patch, resource_version)

    async def patch_status(self, ref: Ref, status: Mapping[str, Any]) -> Manifest:
        await self._fetch(ref)
        return await super().patch_status(ref, status)

    async def delete(self, ref: Ref, *, uid: str | None = None) -> None:
        await self._fetch(ref)
        await super().delete(ref, uid=uid)

    async def _fetch(self, ref: Ref) -> None:
        if ref in self.before:
            return
        found: Manifest | None = None
        if self._cluster is not None:
            try:
                found = await self._cluster.get(ref)
            except NotFound:
                found = None
        self._take_over(ref, found)

    def _take_over(self, ref: Ref, found: Manifest | None) -> None:
        if ref not in self.before:
            self.before[ref] = found
            if found is not None:
                self._objects[ref] = found

    def _orphans(self) -> tuple[Ref, ...]:
        return ()  # not every owner is on the stage

    def _note(self, manifest: Manifest, *, gone: bool) -> None:
        self._writes += 1


def _laid_over(live: Manifest, manifest: Manifest) -> dict[str, Any]:
    """The object with what the manifest says; what others said of it stays."""
    result = dict(live)
    for key, value in manifest.items():
        old = result.get(key)
        result[key] = _laid_over(old, value) if isinstance(value, Mapping) and isinstance(old, Mapping) else value
    return result
