"""Worlds and Universes on a cluster in memory, and the operator's loop over them without its process."""

from __future__ import annotations

import json
import random
import re
from collections.abc import Iterable
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from typing import Any

from demarkus_operator.api.common import API_VERSION
from demarkus_operator.cluster.kinds import UNIVERSE, WORLD
from demarkus_operator.cluster.port import PortError
from demarkus_operator.plan.objects import Manifest, Ref
from demarkus_operator.plan.site import Site
from demarkus_operator.reconcile.concern import concern_of
from demarkus_operator.reconcile.loop import Edge, Outcome, reconcile
from tests.reconcile.memory import MemoryPort

PASSES = 12


def a_world(name: str = "handbook", namespace: str = "acme", universe: str | None = "acme", **spec: Any) -> Manifest:
    """A World that wants little."""
    home = {"universeRef": {"name": universe, "namespace": "acme"}} if universe else {}
    content = {"store": {"volume": {"size": "1Gi"}}, **home, **spec}
    return {
        "apiVersion": API_VERSION,
        "kind": "World",
        "metadata": {"name": name, "namespace": namespace},
        "spec": content,
    }


def a_universe(name: str = "acme", namespace: str = "acme", **spec: Any) -> Manifest:
    """A Universe that takes the Worlds of its own namespace."""
    content = {"publicURL": "https://mark.acme.example", **spec}
    metadata = {"name": name, "namespace": namespace}
    return {"apiVersion": API_VERSION, "kind": "Universe", "metadata": metadata, "spec": content}


@dataclass
class Acme:
    """A cluster with a namespace, and an operator that goes over everything until nothing is left to do."""

    port: MemoryPort = field(default_factory=MemoryPort)
    seed: int = 0
    seconds: int = 0

    def __post_init__(self) -> None:
        self.port.namespace("acme")
        self.port.namespace("demarkus-system")

    @property
    def edge(self) -> Edge:
        """As a process that was just started has it: other random bytes than the one before."""
        self.seed += 1
        return Edge(
            port=self.port,
            site=Site(operator_namespace="demarkus-system", version="0.1.0"),
            now=self.now,
            random=random.Random(self.seed).randbytes,
        )

    def now(self) -> datetime:
        """A clock that moves with every look."""
        self.seconds += 1
        return datetime(2026, 12, 1, tzinfo=UTC) + timedelta(seconds=self.seconds)

    async def reconcile(self, ref: Ref, *, attempt: int = 1) -> Outcome:
        """One reconcile of one object."""
        done, edge = Outcome(), self.edge
        await reconcile(edge, ref, concern_of(edge, ref), outcome=done, attempt=attempt)
        return done

    async def one_pass(self) -> list[str]:
        """A reconcile of everything, and what was written; one that fails is left for the next pass."""
        written: list[str] = []
        for ref in [ref for kind in (UNIVERSE, WORLD) for ref in sorted(self.port.objects) if ref.kind == kind.kind]:
            try:
                written += (await self.reconcile(ref)).written
            except PortError as error:
                written.append(f"failed: {error}")
        return written

    async def converge(self) -> None:
        """Passes until one writes nothing."""
        for _ in range(PASSES):
            written = await self.one_pass()
            if not written:
                return
        raise AssertionError(f"not settled after {PASSES} passes; the last wrote: {written}")

    def condition(self, ref: Ref, type_: str = "Ready") -> dict[str, Any]:
        """A condition of an object."""
        return next(c for c in self.port.objects[ref]["status"]["conditions"] if c["type"] == type_)

    def children(self, owner: str) -> set[str]:
        """Names of the objects that belong to a World or Universe, as `Kind/name`."""
        return {
            f"{ref.kind}/{ref.name}"
            for ref in self.port.objects
            if ref.name.startswith(f"{owner}-") or ref.name == owner
        }


TOKENS = [{"name": "importer", "operations": ["read", "publish"], "paths": ["/**"]}]


def an_example() -> list[Manifest]:
    """A Universe of two Worlds, one of them with a token."""
    return [a_universe(), a_world(), a_world("packages", tokens=TOKENS)]


async def a_settled(acme: Acme, objects: Iterable[Manifest] | None = None) -> Acme:
    """The example, or these, realised."""
    for manifest in objects if objects is not None else an_example():
        acme.port.put(manifest)
    await acme.converge()
    return acme


def shape(acme: Acme) -> dict[Ref, str]:
    """Every object without what depends on chance, or on when and in which order it was written."""
    return {ref: _shape(found) for ref, found in acme.port.objects.items()}


def _shape(found: dict[str, Any]) -> str:
    metadata = {k: v for k, v in found["metadata"].items() if k in ("name", "labels", "annotations")}
    content = {"metadata": metadata, "spec": found.get("spec"), "data": sorted(found.get("data") or ())}
    varies = r"[0-9a-f]{16,64}|(?<=-)[\w-]{11}(?=\.pem)|\d{4}(-\d\d){2}T\d\d(:\d\d){2}Z"
    return re.sub(varies, "*", json.dumps(content, sort_keys=True))
