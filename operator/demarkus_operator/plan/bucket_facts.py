"""What was seen of a bucket, and what can be done to one: values between the planner and whoever calls the cloud."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from demarkus_operator.api.store import Bucket as BucketSpec


@dataclass(frozen=True, slots=True, kw_only=True)
class BucketQuestion:
    """Which bucket is looked at, and below which prefix the store is; that is empty or ends with a slash."""

    name: str
    prefix: str = ""

    @classmethod
    def of(cls, spec: BucketSpec) -> BucketQuestion:
        """The bucket of a spec."""
        name, _, prefix = spec.url.removeprefix("gs://").partition("/")
        return cls(name=name, prefix=f"{prefix}/" if prefix else "")

    @property
    def url(self) -> str:
        """For people."""
        return f"gs://{self.name}/{self.prefix}".removesuffix("/")


@dataclass(frozen=True, slots=True, kw_only=True)
class BucketFacts:
    """What was seen of a bucket.

    Attributes:
        problem: why nothing of it could be seen; else empty.
        there: whether it exists.
        resource: its settings, as the service tells them.
        policy: its policy: who may what; None if we may not see it.
        marker: the history that the store below the prefix says it is; empty if it can't be read, None without marker.
        empty: whether there is nothing below the prefix.
    """

    problem: str = ""
    there: bool = False
    resource: Mapping[str, Any] = field(default_factory=dict)
    policy: Mapping[str, Any] | None = None
    marker: str | None = None
    empty: bool = True


@dataclass(frozen=True, slots=True, kw_only=True)
class Make:
    """Make the bucket; one that is there by then counts."""

    bucket: str
    settings: Mapping[str, Any]


@dataclass(frozen=True, slots=True, kw_only=True)
class Change:
    """Change settings of the bucket as it was seen."""

    bucket: str
    metageneration: str
    settings: Mapping[str, Any]


@dataclass(frozen=True, slots=True, kw_only=True)
class Admit:
    """Replace the bucket's policy as it was seen."""

    bucket: str
    policy: Mapping[str, Any]


Step = Make | Change | Admit
