"""Stories in a universe's life, and what must hold when the operator dies after any of its writes.

A story is told once without a death, then again for every write of that telling: the process dies right after the n-th
write, another one takes over, and the story goes on. Each time the end has to be the same: the same objects with the
same content, no orphan, and no generated value exchanged on the way.
"""

from __future__ import annotations

import copy
from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from demarkus_operator.cluster.kinds import SECRET
from demarkus_operator.plan.objects import Manifest, Ref
from tests.reconcile.acme import Acme, shape
from tests.reconcile.memory import READS, Crash

Data = Mapping[str, str]


@dataclass(frozen=True, slots=True)
class Put:
    """Somebody creates or replaces these objects."""

    manifests: tuple[Manifest, ...]

    def __init__(self, *manifests: Manifest) -> None:
        object.__setattr__(self, "manifests", manifests)


@dataclass(frozen=True, slots=True)
class Delete:
    """Somebody deletes an object."""

    ref: Ref


Act = Callable[[Acme], Awaitable[None] | None]
"""Anything else that happens: time passes, a pod gets ready, a volume has grown."""
Step = Put | Delete | Act


def made_once(secret: Ref, before: Data, after: Data) -> bool:
    """What was generated is never exchanged and never lost; tokens, and the hashes of them, go when the spec says so.

    `after` is empty when the Secret is gone.
    """
    gone = not after and "-token-" in secret.name
    return gone or secret.name.endswith("-tokens") or before == after


@dataclass(frozen=True, slots=True, kw_only=True)
class Story:
    """What happens.

    Attributes:
        name: of the row in the matrix.
        before: what has happened already; nobody dies while the operator carries that out.
        steps: what happens then; after each the operator goes on until nothing is left to do.
        allowed: whether a Secret may go from one content to another by one write.
    """

    name: str
    steps: Sequence[Step]
    before: Sequence[Step] = ()
    allowed: Callable[[Ref, Data, Data], bool] = made_once

    def __str__(self) -> str:
        return self.name


@dataclass(slots=True)
class Death:
    """Counts writes and ends the process after the n-th; on the way it looks at every Secret."""

    acme: Acme
    allowed: Callable[[Ref, Data, Data], bool]
    after: int = 0
    writes: int = 0
    _seen: dict[Ref, Data] = field(default_factory=dict)

    def __call__(self, verb: str, ref: Ref | None) -> None:
        if verb in READS:
            return
        self.check()
        self.writes += 1
        if self.writes == self.after:
            raise Crash

    def check(self) -> None:
        """Raises if a Secret became what it may not become since the last look."""
        there = self.acme.port.secrets()
        for ref, before in self._seen.items():
            after = there.get(ref, {})
            assert self.allowed(ref, before, after), f"{ref} was {'exchanged' if after else 'lost'}"
        self._seen = there


async def told(story: Story, *, dies_after: int = 0) -> tuple[Acme, int]:
    """The cluster after a story, and how many writes it took; with one death, if `dies_after` says when."""
    acme = Acme()
    for step in story.before:
        await take(step, acme)
        await acme.converge()
    death = Death(acme, story.allowed, after=dies_after)
    death.check()
    acme.port.after = death
    for step in story.steps:
        await take(step, acme)
        try:
            await acme.converge()
        except Crash:
            await acme.converge()
    return acme, death.writes


async def take(step: Step, acme: Acme) -> None:
    """Lets one thing happen."""
    match step:
        case Put():
            for manifest in step.manifests:
                acme.port.put(copy.deepcopy(dict(manifest)))
        case Delete():
            acme.port.remove(step.ref)
        case _:
            waiting: Any = step(acme)
            if waiting is not None:
                await waiting


async def survives(story: Story) -> int:
    """Tells a story with a death after every single write; the number of deaths."""
    reference, total = await told(story)
    assert total, f"{story}: the operator wrote nothing"
    wanted = shape(reference)
    for n in range(1, total + 1):
        acme, writes = await told(story, dies_after=n)
        assert writes >= n, f"{story}: only {writes} writes where {total} were expected"
        end = shape(acme)
        differing = sorted(str(ref) for ref in wanted.keys() | end.keys() if wanted.get(ref) != end.get(ref))
        assert not differing, f"{story}: death after write {n} of {total} leads to another end: {differing}"
        assert {ref for ref in end if ref.kind == SECRET.kind} == {ref for ref in wanted if ref.kind == SECRET.kind}
    return total
