"""Builders of Worlds and Universes, and a cluster in a dictionary that carries plans out."""

from __future__ import annotations

import itertools
import random
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest

from demarkus_operator.api import conditions
from demarkus_operator.api.common import API_VERSION
from demarkus_operator.cluster.port import NotFound
from demarkus_operator.material import make
from demarkus_operator.plan.bucket_facts import BucketFacts
from demarkus_operator.plan.objects import Change, Manifest, Plan, Ref
from demarkus_operator.plan.reports import Report
from demarkus_operator.plan.site import Site
from demarkus_operator.plan.universe import later_reads as later_reads_of_universe
from demarkus_operator.plan.universe import plan_universe, universe_reads
from demarkus_operator.plan.witness import Testimony
from demarkus_operator.plan.world import later_reads, plan_world, world_reads
from demarkus_operator.reconcile.status import with_denials

NOW = datetime(2026, 12, 1, 9, 0, tzinfo=UTC)
SITE = Site(operator_namespace="demarkus-system", version="0.1.0")


def world(name: str = "tea", namespace: str = "acme", **spec: Any) -> dict[str, Any]:
    """A World of the Universe acme/acme; `universeRef=None` for one without."""
    defaults: dict[str, Any] = {
        "universeRef": {"name": "acme", "namespace": "acme"},
        "store": {"volume": {"size": "1Gi"}},
    }
    content = {key: value for key, value in {**defaults, **spec}.items() if value is not None}
    return {
        "apiVersion": API_VERSION,
        "kind": "World",
        "metadata": {"name": name, "namespace": namespace},
        "spec": content,
    }


def universe(name: str = "acme", namespace: str = "acme", **spec: Any) -> dict[str, Any]:
    """A Universe that takes Worlds of its own namespace."""
    return {
        "apiVersion": API_VERSION,
        "kind": "Universe",
        "metadata": {"name": name, "namespace": namespace},
        "spec": {"publicURL": "https://mark.example.com", **spec},
    }


@dataclass
class Cluster:
    """Objects by name, and the reconcile loop in its plainest form. Randomness comes from a seed."""

    site: Site = SITE
    now: datetime = NOW
    reports: dict[str, Sequence[Report]] = field(default_factory=dict)
    testimony: dict[str, Testimony] = field(default_factory=dict)
    buckets: dict[str, BucketFacts] = field(default_factory=dict)
    lacking: set[str] = field(default_factory=set)  # kinds that it does not know
    objects: dict[Ref, Manifest] = field(default_factory=dict)
    writes: list[Ref] = field(default_factory=list)
    _random: random.Random = field(default_factory=lambda: random.Random(7))
    _uids: Any = field(default_factory=lambda: itertools.count(1))

    def put(self, manifest: Manifest) -> Ref:
        """Creates or replaces an object, as somebody else would."""
        ref = Ref.of(manifest)
        before: Manifest = self.objects.get(ref, {"metadata": {}})
        number = next(self._uids)
        created = (NOW + timedelta(seconds=number)).strftime("%Y-%m-%dT%H:%M:%SZ")
        metadata = {
            "uid": f"uid-{number}",
            "creationTimestamp": created,
            **{key: before["metadata"][key] for key in ("uid", "creationTimestamp") if key in before["metadata"]},
            **manifest["metadata"],
            "resourceVersion": str(number),
        }
        if ref.kind in ("World", "Universe"):
            metadata["generation"] = 1  # what is put is never seen half
        kept = {"status": before["status"]} if "status" in before else {}
        self.objects[ref] = {**kept, **manifest, "metadata": metadata}
        return ref

    def get(self, kind: str, name: str, namespace: str = "acme") -> Manifest:
        """The object of that kind and name."""
        return next(
            manifest
            for ref, manifest in self.objects.items()
            if (ref.kind, ref.namespace, ref.name) == (kind, namespace, name)
        )

    def has(self, kind: str, name: str, namespace: str = "acme") -> bool:
        """Whether there is such an object."""
        return any((ref.kind, ref.namespace, ref.name) == (kind, namespace, name) for ref in self.objects)

    def drop(self, kind: str, name: str, namespace: str = "acme") -> None:
        """Deletes an object and what it owns, as garbage collection does."""
        gone = self.get(kind, name, namespace)
        self.objects = {
            ref: manifest
            for ref, manifest in self.objects.items()
            if manifest is not gone
            and all(
                owner["uid"] != gone["metadata"]["uid"] for owner in manifest["metadata"].get("ownerReferences", ())
            )
        }

    def set_status(self, kind: str, name: str, status: Mapping[str, Any], namespace: str = "acme") -> None:
        """Writes a status, as a controller of the cluster would."""
        manifest = self.get(kind, name, namespace)
        self.objects[Ref.of(manifest)] = {**manifest, "status": dict(status)}

    def plan(self, kind: str, name: str, namespace: str = "acme") -> Plan:
        """One round of planning, nothing carried out."""
        manifest = self.get(kind, name, namespace)
        if kind == "World":
            observed = {ref: self.objects.get(ref) for ref in world_reads(manifest, self.site)}
            observed |= {ref: self.objects.get(ref) for ref in later_reads(manifest, observed, self.site)}
            reports, testimony = self.reports.get(name, ()), self.testimony.get(name)
            bucket = self.buckets.get(name)
            return plan_world(manifest, observed, self.site, self.now, reports, testimony, bucket)
        observed = {ref: self.objects.get(ref) for ref in universe_reads(manifest, self.site)}
        observed |= {ref: self.objects.get(ref) for ref in later_reads_of_universe(manifest, observed, self.site)}
        worlds = [other for ref, other in self.objects.items() if ref.kind == "World"]
        namespaces = {ref.name: other for ref, other in self.objects.items() if ref.kind == "Namespace"}
        return plan_universe(manifest, observed, worlds, namespaces, self.site, self.now, self.reports.get(name, ()))

    def reconcile(self, kind: str, name: str, namespace: str = "acme") -> Plan:
        """Plans until nothing is to be made, then carries the plan out. Only differences are written."""
        for _ in range(8):
            plan = self.plan(kind, name, namespace)
            if not plan.generate and not plan.change:
                break
            for change in plan.change:
                self._change(change)
            for generate in plan.generate:
                assert Ref.of(generate.manifest) not in self.objects
                data = make(generate.recipe, random=self._random.randbytes, now=self.now)
                self._write(generate.filled(data))
        assert not plan.generate, "something is generated again and again"
        assert not plan.change, "something is changed again and again"
        unknown = [attempt for attempt in plan.attempts if attempt.manifest["kind"] in self.lacking]
        plan = with_denials(plan, [(attempt, NotFound("404 page not found")) for attempt in unknown])
        attempts = [attempt.manifest for attempt in plan.attempts if attempt not in unknown]
        for manifest in [*plan.apply, *attempts]:
            there = self.objects.get(Ref.of(manifest))
            if there is None or not covers(there, manifest) or there.get("data") != manifest.get("data"):
                self._write(manifest)
        for remove in plan.remove:
            assert self.objects[remove.ref]["metadata"]["uid"] == remove.uid
            del self.objects[remove.ref]
            self.writes.append(remove.ref)
        manifest = self.get(kind, name, namespace)
        before = manifest.get("status") or {}
        merged = conditions.merged(before.get("conditions") or [], plan.conditions, generation=1, now=self.now)
        status = {**plan.status, "conditions": merged, "observedGeneration": 1}
        if status != before:
            self.objects[Ref.of(manifest)] = {**manifest, "status": status}
            self.writes.append(Ref.of(manifest))
        return plan

    def settle(self) -> None:
        """Reconciles everything until nothing is written any more."""
        for _ in range(10):
            before = len(self.writes)
            for ref in sorted(ref for ref in self.objects if ref.kind in ("World", "Universe")):
                self.reconcile(ref.kind, ref.name, ref.namespace)
            if len(self.writes) == before:
                return
        raise AssertionError(f"it never settles; last writes: {self.writes[-10:]}")

    def condition(self, kind: str, name: str, type_: str = "Ready", namespace: str = "acme") -> tuple[str, str, str]:
        """Status, reason and message of a condition."""
        found = {entry["type"]: entry for entry in self.get(kind, name, namespace)["status"]["conditions"]}[type_]
        return found["status"], found["reason"], found["message"]

    def _change(self, change: Change) -> None:
        there = self.objects[change.ref]
        assert there["metadata"]["resourceVersion"] == change.resource_version
        made = make(change.recipe, random=self._random.randbytes, now=self.now) if change.recipe else {}
        self._write(merged(there, change.filled(made)))

    def _write(self, manifest: Manifest) -> None:
        self.put(manifest)
        self.writes.append(Ref.of(manifest))


def merged(there: Any, patch: Any) -> Any:
    """RFC 7396."""
    if not isinstance(patch, Mapping):
        return patch
    result = dict(there) if isinstance(there, Mapping) else {}
    for key, value in patch.items():
        result[key] = merged(result.get(key), value)
    return {key: value for key, value in result.items() if value is not None}


def covers(there: Any, wanted: Any) -> bool:
    """Whether all that is wanted is there. Lists are compared whole."""
    if isinstance(wanted, Mapping):
        return isinstance(there, Mapping) and all(
            key in there and covers(there[key], value) for key, value in wanted.items()
        )
    return bool(there == wanted)


@pytest.fixture
def a_world() -> Callable[..., dict[str, Any]]:
    """Builds a World."""
    return world


@pytest.fixture
def a_universe() -> Callable[..., dict[str, Any]]:
    """Builds a Universe."""
    return universe


@pytest.fixture
def a_cluster() -> Callable[..., Cluster]:
    """Builds an empty cluster."""
    return Cluster


@pytest.fixture
def cluster() -> Cluster:
    """An empty cluster."""
    return Cluster()


@pytest.fixture
def settled(cluster: Cluster) -> Cluster:
    """A cluster with Universe acme and World tea, both reconciled until quiet; no pod is ready."""
    cluster.put(universe())
    cluster.put(world())
    cluster.settle()
    return cluster
