"""What becomes of generated Secrets when their owner is deleted: they stay, or (`deletionPolicy: Delete`) go with it.

Whatever is applied says so itself; generated Secrets are never applied, and are changed under guard.
"""

from __future__ import annotations

from collections.abc import Iterable

from demarkus_operator.plan.objects import Change, Observed, Ref
from demarkus_operator.plan.owner import Owner


def changes(owner: Owner, refs: Iterable[Ref], observed: Observed) -> Iterable[Change]:
    """The changes after which exactly those Secrets name the owner that should go with it."""
    for ref in refs:
        seen = observed.get(ref)
        if seen is None or ref.namespace != owner.namespace:
            continue  # an owner of another namespace would count as gone
        there = list(seen["metadata"].get("ownerReferences") or ())
        others = [reference for reference in there if reference.get("uid") != owner.uid]
        ours = [reference for reference in there if reference.get("uid") == owner.uid]
        if bool(ours) == owner.takes_all_along:
            continue
        wanted = [*others, *([owner.reference] if owner.takes_all_along else [])]
        yield Change(
            ref=ref,
            resource_version=seen["metadata"].get("resourceVersion", ""),
            patch={"metadata": {"ownerReferences": wanted or None}},
            why="goes with its owner" if owner.takes_all_along else "outlives its owner",
        )
