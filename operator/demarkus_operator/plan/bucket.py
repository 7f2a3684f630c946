"""The bucket of a World: found as it is, made where there is none, and what it takes until a World may use it.

A bucket is ours if its labels say so: made for this history. Only of such a one settings and members are changed, and
only such a one is ever emptied. A bucket that somebody else made is adopted as it is, and what it lacks is told. What
another history or another program has put there is never touched.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from demarkus_operator.api.check import problems
from demarkus_operator.api.conditions import Reason
from demarkus_operator.api.store import Bucket as BucketSpec
from demarkus_operator.api.world import WorldSpec
from demarkus_operator.plan import labels
from demarkus_operator.plan.bucket_facts import Admit, BucketFacts, BucketQuestion, Change, Make, Step
from demarkus_operator.plan.objects import Manifest
from demarkus_operator.plan.workload import Finding

MANAGED_BY, HISTORY = "managed-by", "demarkus-history"
"""Labels of buckets; their names have no dots and slashes there."""

ROLE = "roles/storage.objectUser"
"""Reads, lists, makes and deletes objects; says nothing over the bucket itself."""

SOFT_DELETE_SECONDS = 7 * 24 * 3600

SETTINGS: Mapping[str, Any] = {
    "iamConfiguration": {"uniformBucketLevelAccess": {"enabled": True}, "publicAccessPrevention": "enforced"},
    "softDeletePolicy": {"retentionDurationSeconds": str(SOFT_DELETE_SECONDS)},
}
"""Of every bucket of ours: rights are the bucket's alone, nothing is public, and what is deleted can be had back."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Bucket:
    """What follows from how a bucket is.

    Attributes:
        steps: what is to be done to it now, before anything else.
        findings: what is to be told.
        foreign: why it can't be used: it is somebody else's.
        missing: what to say if a known history was in it and it is gone.
    """

    steps: tuple[Step, ...] = ()
    findings: tuple[Finding, ...] = ()
    foreign: str | None = None
    missing: str | None = None


def bucket_in(world: Manifest) -> BucketQuestion | None:
    """The bucket of a World, if it is in one and can be understood."""
    if problems(world):
        return None
    spec = WorldSpec.model_validate(world["spec"]).store.bucket
    return None if spec is None else BucketQuestion.of(spec)


def bucket_of(spec: BucketSpec, facts: BucketFacts | None, history: str, *, known: bool) -> Bucket:
    """What follows. `known`: something was witnessed of the history; then no bucket is made for it."""
    where = BucketQuestion.of(spec)
    if facts is None:
        return Bucket()
    if facts.problem:
        return Bucket(findings=((Reason.BUCKET_UNSEEN, f"{where.url}: {facts.problem}"),))
    if not facts.there:
        if known or spec.history_id is not None:
            return Bucket(missing=f"bucket {where.url} is gone")
        return Bucket(steps=(Make(bucket=where.name, settings=_settings(history)),))
    if (foreign := _foreign(where, facts, history)) is not None:
        return Bucket(foreign=foreign)
    if facts.marker is None and (known or spec.history_id is not None):
        return Bucket(missing=f"nothing is in bucket {where.url}")
    if is_ours(facts, history):
        return Bucket(steps=tuple(_steps(spec, where, facts)))
    return Bucket(findings=tuple(_lacks(spec, where, facts)))


def is_ours(facts: BucketFacts, history: str) -> bool:
    """Whether a bucket was made for this history."""
    found = facts.resource.get("labels") or {}
    return (found.get(MANAGED_BY), found.get(HISTORY)) == (labels.MANAGER, history)


def may_empty(facts: BucketFacts, history: str) -> bool:
    """Whether what is in the bucket may be deleted: it was made for this history, and nobody else's is in it."""
    return facts.there and is_ours(facts, history) and facts.marker in (None, history)


def _settings(history: str) -> dict[str, Any]:
    return {**SETTINGS, "labels": {MANAGED_BY: labels.MANAGER, HISTORY: history}}


def _foreign(where: BucketQuestion, facts: BucketFacts, history: str) -> str | None:
    if facts.marker == history or (facts.marker is None and facts.empty):
        return None
    if facts.marker is None:
        return f"{where.url} holds objects that no World has made; name a bucket or a prefix with nothing in it"
    if not facts.marker:
        return f"{where.url} holds a store that can't be read; it is not touched"
    return (
        f"{where.url} holds history {facts.marker}, and this World's is {history}; name another bucket or prefix, or "
        f"make a World that takes it over: store.bucket.historyID: {facts.marker}"
    )


def _steps(spec: BucketSpec, where: BucketQuestion, facts: BucketFacts) -> Iterator[Step]:
    """What brings a bucket of ours to what it should be."""
    change = _difference(facts.resource, SETTINGS)
    if change:
        yield Change(bucket=where.name, metageneration=str(facts.resource.get("metageneration", "")), settings=change)
    if (member := _member(spec)) is not None and facts.policy is not None and not _has(facts.policy, member):
        bindings = [*(facts.policy.get("bindings") or ()), {"role": ROLE, "members": [member]}]
        yield Admit(bucket=where.name, policy={**facts.policy, "bindings": bindings})


def _lacks(spec: BucketSpec, where: BucketQuestion, facts: BucketFacts) -> Iterator[Finding]:
    """What a bucket that somebody else made does not have."""
    access = (facts.resource.get("iamConfiguration") or {}).get("uniformBucketLevelAccess") or {}
    versioning = (facts.resource.get("versioning") or {}).get("enabled")
    soft = int((facts.resource.get("softDeletePolicy") or {}).get("retentionDurationSeconds") or 0)
    lacks = []
    if not access.get("enabled"):
        lacks.append("uniform bucket-level access")
    if not versioning and not soft:
        lacks.append("soft delete or object versioning")
    if (member := _member(spec)) is not None and facts.policy is not None and not _has(facts.policy, member):
        lacks.append(f"a binding of {ROLE} to {member}")
    if lacks:
        yield Reason.BUCKET_INCOMPLETE, f"{where.url} was not made by us and lacks {', '.join(lacks)}; give it these"


def _member(spec: BucketSpec) -> str | None:
    """Whom the World acts as; unknown where the pods' own identity counts."""
    return None if spec.service_account is None else f"serviceAccount:{spec.service_account}"


def _has(policy: Mapping[str, Any], member: str) -> bool:
    roles = (ROLE, "roles/storage.objectAdmin", "roles/storage.admin")
    return any(
        binding.get("role") in roles and member in (binding.get("members") or ()) and not binding.get("condition")
        for binding in policy.get("bindings") or ()
    )


def _difference(there: Mapping[str, Any], wanted: Mapping[str, Any]) -> dict[str, Any]:
    """The part of `wanted` that is not there."""
    found: dict[str, Any] = {}
    for key, value in wanted.items():
        before = there.get(key)
        if isinstance(value, Mapping):
            if inner := _difference(before if isinstance(before, Mapping) else {}, value):
                found[key] = inner
        elif before != value:
            found[key] = value
    return found
