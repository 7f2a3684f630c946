"""What the reconcilers need of buckets."""

from __future__ import annotations

from typing import Protocol

from demarkus_operator.plan.bucket_facts import BucketFacts, BucketQuestion, Step


class Buckets(Protocol):
    """The buckets of a cloud."""

    async def look(self, question: BucketQuestion, *, anew: bool = False) -> BucketFacts | None:
        """How a bucket is; None if nobody here knows buckets. Only with `anew` every call asks. Ends within a few
        seconds and raises nothing.
        """

    async def carry_out(self, step: Step) -> None:
        """Makes or changes a bucket. Raises `PortError`: `Conflict` for one that is not as it was seen."""

    async def empty(self, question: BucketQuestion, *, remove: bool) -> bool:
        """Deletes objects below the prefix, for some seconds; with `remove` then also the bucket. True when it is done.

        Raises `PortError`.
        """


class NoBuckets:
    """Nothing is known of buckets; a World uses its bucket as it is."""

    async def look(self, question: BucketQuestion, *, anew: bool = False) -> BucketFacts | None:
        """Nothing."""
        return None

    async def carry_out(self, step: Step) -> None:
        """Never asked for: a plan without facts has no steps."""

    async def empty(self, question: BucketQuestion, *, remove: bool) -> bool:
        """Nothing is deleted where nothing is known."""
        return True
