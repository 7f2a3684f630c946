"""Looking at what a World or Universe consists of: by label-selected lists, and by name what can't be listed.

Secrets are read by name, and so is whatever belongs to somebody else. A list finds children by their labels; one whose
labels somebody edited is not in it, nor is an object of somebody else that bears a child's name. So before a missing
child is made, its name is asked for.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Iterable, Mapping, MutableMapping
from dataclasses import dataclass
from typing import TypeVar

from demarkus_operator.cluster.kinds import Kind
from demarkus_operator.cluster.port import Forbidden, NotFound, Port
from demarkus_operator.plan.objects import Manifest, Observed, Ref

READS_AT_ONCE = 8

Item = TypeVar("Item")

Shared = MutableMapping[Ref, Manifest | None]
"""What was read by name for several Worlds at once."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Family:
    """How the children of one World or Universe are found: what kinds, in which namespace, with which labels.

    `others` are objects that it looks at and that are not its own.
    """

    namespace: str
    labels: Mapping[str, str]
    kinds: tuple[Kind, ...]
    others: frozenset[Ref] = frozenset()

    def has(self, ref: Ref) -> bool:
        """Whether a list would find it, if it is there and ours."""
        return (
            ref not in self.others
            and ref.namespace == self.namespace
            and any((ref.api_version, ref.kind) == (kind.api_version, kind.kind) for kind in self.kinds)
        )


async def listed(port: Port, family: Family) -> dict[Ref, Manifest]:
    """The children that are there. Raises `PortError`."""
    found: dict[Ref, Manifest] = {}

    async def list_one(kind: Kind) -> None:
        try:
            children = await port.list(kind.api_version, kind.kind, namespace=family.namespace, labels=family.labels)
        except NotFound:
            if not kind.optional:
                raise
        else:
            found.update((Ref.of(child), child) for child in children)

    await _all_of(list_one, family.kinds)
    return found


async def named(port: Port, refs: Iterable[Ref], *, cluster_wide: bool = True) -> dict[Ref, Manifest | None]:
    """What is there of these, with None for what is not. Raises `PortError`.

    Without rights on the whole cluster (`cluster_wide` is False) what lives in no namespace counts as not there.
    """
    found: dict[Ref, Manifest | None] = {}

    async def read_one(ref: Ref) -> None:
        try:
            found[ref] = await port.get(ref)
        except NotFound:
            found[ref] = None
        except Forbidden:
            if cluster_wide or ref.namespace:
                raise
            found[ref] = None

    await _all_of(read_one, refs)
    return found


async def observe(
    port: Port,
    refs: Iterable[Ref],
    family: Family,
    *,
    cluster_wide: bool = True,
    children: Mapping[Ref, Manifest] | None = None,
    shared: Shared | None = None,
) -> Observed:
    """Everything that a plan looks at: all children there are, and every one of `refs`. Raises `PortError`.

    `children` were listed already. What several plans look at is read once and kept in `shared`.
    """
    wanted = list(refs)
    there = await listed(port, family) if children is None else children
    by_name = [ref for ref in wanted if not family.has(ref)]
    known = {ref: shared[ref] for ref in by_name if ref in shared} if shared is not None else {}
    read = await named(port, [ref for ref in by_name if ref not in known], cluster_wide=cluster_wide)
    if shared is not None:
        shared.update((ref, found) for ref, found in read.items() if ref in family.others)
    return {**dict.fromkeys(wanted), **there, **known, **read}


async def _all_of(work: Callable[[Item], Awaitable[None]], items: Iterable[Item]) -> None:
    """Does them all, a few at a time; raises the first failure."""
    gate = asyncio.Semaphore(READS_AT_ONCE)

    async def one(item: Item) -> None:
        async with gate:
            await work(item)

    try:
        async with asyncio.TaskGroup() as group:
            for item in items:
                group.create_task(one(item))
    except* Exception as failures:
        raise failures.exceptions[0] from None
