"""What a plan is made of: references, objects to create once, to change under guard, to apply, to remove.

A plan is a value. It says what should be true; the reconcile loop (or the local runner) makes it true, in this order:
create what is to be generated and make guarded changes, read and plan again until there are none; then apply in the
given order; then attempt; then remove; then write the status. Whoever carries a plan out needs no knowledge of worlds.
"""

from __future__ import annotations

import base64
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Self

from demarkus_operator.api.conditions import Condition, Reason
from demarkus_operator.plan.bucket_facts import Step
from demarkus_operator.plan.recipes import Recipe

Manifest = Mapping[str, Any]
"""A Kubernetes object as the API gives and takes it. Never changed in place."""

Observed = Mapping["Ref", Manifest | None]
"""What was read, by name: every reference of `world_reads` or `universe_reads`, with None for what is not there."""


@dataclass(frozen=True, slots=True, order=True)
class Ref:
    """The name of an object. `namespace` is empty for what lives in none."""

    api_version: str
    kind: str
    namespace: str
    name: str

    @classmethod
    def of(cls, manifest: Manifest) -> Self:
        """The name of this object."""
        metadata = manifest["metadata"]
        return cls(manifest["apiVersion"], manifest["kind"], metadata.get("namespace", ""), metadata["name"])

    def __str__(self) -> str:
        return f"{self.kind} {self.namespace}/{self.name}" if self.namespace else f"{self.kind} {self.name}"


@dataclass(frozen=True, slots=True, kw_only=True)
class Generate:
    """An object with random content, written only by `create`; if it is there already, that one counts.

    `manifest` is the Secret without its data, `recipe` says what the data is made of (`material.make`).
    """

    manifest: Manifest
    recipe: Recipe

    def filled(self, data: Mapping[str, bytes]) -> Manifest:
        """The whole object to create."""
        return {**self.manifest, "data": {key: base64.b64encode(value).decode() for key, value in data.items()}}


@dataclass(frozen=True, slots=True, kw_only=True)
class Change:
    """A change of one object as it was looked at; if somebody wrote it in between, nothing is changed.

    For what an apply must never own: generated material, annotations on objects of others (a pod).

    Attributes:
        ref: the object.
        resource_version: the version that was looked at.
        patch: a merge patch (RFC 7396).
        recipe: what to make for the object's `data`, on top of the patch.
        drop: keys that leave `data`.
        why: a word for the log.
    """

    ref: Ref
    resource_version: str
    why: str
    patch: Mapping[str, Any] = field(default_factory=dict)
    recipe: Recipe | None = None
    drop: tuple[str, ...] = ()

    def filled(self, made: Mapping[str, bytes]) -> dict[str, Any]:
        """The whole merge patch; `made` is what the recipe made, empty without one."""
        data: dict[str, str | None] = {**(self.patch.get("data") or {}), **dict.fromkeys(self.drop)}
        data |= {key: base64.b64encode(value).decode() for key, value in made.items()}
        return {**self.patch, "data": data} if data else dict(self.patch)


@dataclass(frozen=True, slots=True, kw_only=True)
class Attempt:
    """An object to apply if the cluster lets us. A refusal is not a failure of the plan: `Degraded` tells of it, with
    this `reason`, and with `help` before what the cluster said.
    """

    manifest: Manifest
    reason: Reason
    help: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Remove:
    """An object of ours that should not be there any more. `uid` guards against one that came in its place."""

    ref: Ref
    uid: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Plan:
    """What should be true for one World or Universe.

    Attributes:
        generate: objects to create if absent. While there are any, the rest of the plan is provisional: create them,
            read again, plan again.
        change: guarded changes; as provisional as `generate`.
        outside: what is to be done outside the cluster, to a bucket; as provisional as `generate`.
        apply: objects to apply, in this order. An object that is not named here is left as it is. Where
            `metadata.resourceVersion` is given, the object is only valid on top of that version.
        attempts: what to apply after that, as far as the cluster lets us.
        remove: objects to remove, after the apply. Only what was seen, and seen to be ours, is ever named.
        conditions: `Ready` and `Reconciled`, without times (`conditions.merged` adds those).
        status: the status, without `conditions` and `observedGeneration`.
        requeue: seconds after which to look again even if nothing is heard, or None.
        holds: whether the object may only go once what is outside the cluster was let go of (a finalizer).
    """

    generate: tuple[Generate, ...] = ()
    change: tuple[Change, ...] = ()
    outside: tuple[Step, ...] = ()
    apply: tuple[Manifest, ...] = ()
    attempts: tuple[Attempt, ...] = ()
    remove: tuple[Remove, ...] = ()
    conditions: tuple[Condition, ...] = ()
    status: Mapping[str, Any] = field(default_factory=dict)
    requeue: float | None = None
    holds: bool = False
