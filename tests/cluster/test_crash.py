"""The operator dies after its n-th write on the real API server, for every n, and another one takes over."""

from __future__ import annotations

import json
import os
import re
from collections.abc import AsyncIterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any

from demarkus_operator.cluster.kinds import POD, SECRET
from demarkus_operator.cluster.kubernetes import Kubernetes
from demarkus_operator.plan.objects import Manifest, Ref
from demarkus_operator.plan.site import Site
from demarkus_operator.reconcile.concern import concern_of
from demarkus_operator.reconcile.loop import Edge, Outcome, reconcile
from tests.cluster.home import OPERATOR_NAMESPACE, Home

PASSES = 12


class Death(BaseException):
    """The process is gone; nothing catches it."""


@dataclass(slots=True)
class Mortal:
    """The port over the API server of a process that dies after so many writes; 0 for one that lives."""

    api: Kubernetes
    dies_after: int = 0
    writes: int = 0

    async def get(self, ref: Ref) -> Manifest:
        return await self.api.get(ref)

    async def list(
        self, api_version: str, kind: str, *, namespace: str | None = None, labels: Mapping[str, str] | None = None
    ) -> Sequence[Manifest]:
        return await self.api.list(api_version, kind, namespace=namespace, labels=labels)

    async def pages(
        self, api_version: str, kind: str, *, namespace: str | None = None, labels: Mapping[str, str] | None = None
    ) -> AsyncIterator[Sequence[Manifest]]:
        async for page in self.api.pages(api_version, kind, namespace=namespace, labels=labels):
            yield page

    async def create(self, manifest: Manifest) -> Manifest:
        return self._wrote(await self.api.create(manifest))

    async def apply(self, manifest: Manifest) -> Manifest:
        return self._wrote(await self.api.apply(manifest))

    async def patch(self, ref: Ref, patch: Mapping[str, Any], resource_version: str) -> Manifest:
        return self._wrote(await self.api.patch(ref, patch, resource_version))

    async def patch_status(self, ref: Ref, status: Mapping[str, Any]) -> Manifest:
        return self._wrote(await self.api.patch_status(ref, status))

    async def delete(self, ref: Ref, *, uid: str | None = None) -> None:
        await self.api.delete(ref, uid=uid)
        self._wrote({})

    def _wrote(self, written: Manifest) -> Manifest:
        self.writes += 1
        if self.writes == self.dies_after:
            raise Death
        return written


async def converge(home: Home, port: Mortal, subjects: Sequence[Ref]) -> None:
    """Reconciles everything until nothing is left to do."""
    edge = Edge(
        port=port,
        site=Site(operator_namespace=OPERATOR_NAMESPACE, version="0.1.0"),
        now=lambda: datetime.now(UTC),
        random=os.urandom,
        namespaces=(home.namespace,),
    )
    for _ in range(PASSES):
        before = port.writes
        for ref in subjects:
            await reconcile(edge, ref, concern_of(edge, ref), outcome=Outcome())
        if port.writes == before:
            return
    raise AssertionError(f"not settled after {PASSES} passes")


def objects(name: str) -> list[dict[str, Any]]:
    """A Universe and its World with a token, under names of their own."""
    token = {"name": "robot", "operations": ["read"], "paths": ["/**"]}
    spec = {"store": {"volume": {"size": "1Gi"}}, "universeRef": {"name": f"u-{name}"}, "tokens": [token]}
    kind = {"apiVersion": "demarkus.io/v1alpha1"}
    return [
        {**kind, "kind": "Universe", "metadata": {"name": f"u-{name}"}, "spec": {"publicURL": "https://m.example"}},
        {**kind, "kind": "World", "metadata": {"name": f"w-{name}"}, "spec": spec},
    ]


def shape(found: Mapping[Ref, Manifest], name: str) -> dict[str, str]:
    """The objects of one telling without what depends on chance or time."""
    ours = {
        ref: one
        for ref, one in found.items()
        if ref.kind != POD.kind and re.search(rf"\b[uw]-{name}\b", ref.name)  # pods are made by Kubernetes
    }
    return {f"{ref.kind}/{ref.name.replace(f'-{name}', '-*')}": _shape(one, name) for ref, one in ours.items()}


def _shape(one: Manifest, name: str) -> str:
    metadata = {key: one["metadata"].get(key) for key in ("labels", "annotations", "finalizers")}
    content = {"metadata": metadata, "spec": one.get("spec"), "data": sorted(one.get("data") or ())}
    text = json.dumps(content, sort_keys=True).replace(f"-{name}", "-*")
    text = re.sub(r'"(clusterIPs?|volumeName|kubectl[^"]*)": ("[^"]*"|\[[^]]*\])', "", text)
    return re.sub(r"[0-9a-f]{16,64}|\d{4}-\d\d-\d\dT[\d:]+Z|(?<=-)[\w-]{11}(?=\.pem)", "?", text)


async def told(home: Home, name: str, *, dies_after: int = 0) -> bool:
    """Makes a Universe and a World; whether the operator died on the way. No Secret may change after that."""
    home.apply({"apiVersion": "v1", "kind": "List", "items": objects(name)})
    subjects = [home.universe(f"u-{name}"), home.world(f"w-{name}")]
    port = Mortal(home.api, dies_after=dies_after)
    try:
        await converge(home, port, subjects)
    except Death:
        kept = {ref: data for ref, data in (await home.secrets()).items() if not ref.name.endswith("-tokens")}
        await converge(home, port, subjects)
        after = await home.secrets()
        assert {ref: after[ref] for ref in kept} == kept, f"a Secret was exchanged after death {dies_after}"
        return True
    return False


async def test_a_death_after_any_write_leads_to_the_same_end(home: Home) -> None:
    """Until there is no n-th write to die after."""
    await told(home, "whole")
    deaths = 0
    while await told(home, f"n{deaths + 1}", dies_after=deaths + 1):
        deaths += 1
    assert deaths > 20
    found = await home.objects()
    wanted = shape(found, "whole")
    assert len([name for name in wanted if name.startswith(SECRET.kind)]) >= 5
    for n in range(1, deaths + 1):
        end = shape(found, f"n{n}")
        differing = sorted(key for key in wanted.keys() | end.keys() if wanted.get(key) != end.get(key))
        assert not differing, f"death after write {n}: {[(wanted.get(key), end.get(key)) for key in differing[:1]]}"
    print(f"{deaths} deaths")
