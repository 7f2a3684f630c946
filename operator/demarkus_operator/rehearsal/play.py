"""Lets the reconcilers play on a stage until they have nothing left to do."""

from __future__ import annotations

import hashlib
from collections.abc import Sequence
from datetime import datetime

from demarkus_operator.cluster.kinds import UNIVERSE
from demarkus_operator.plan.objects import Ref
from demarkus_operator.plan.site import Site
from demarkus_operator.reconcile.concern import concern_of
from demarkus_operator.reconcile.loop import Edge, NotSettled, Outcome, reconcile
from demarkus_operator.rehearsal.stage import Stage

ROUNDS = 20


async def play(stage: Stage, subjects: Sequence[Ref], *, site: Site, now: datetime) -> None:
    """Reconciles Universes and Worlds by turns. Raises `PortError` from reading the cluster, NotSettled."""
    edge = Edge(port=stage, site=site, now=lambda: now, random=_Stream())
    ordered = sorted(subjects, key=lambda ref: (ref.kind != UNIVERSE.kind, ref))
    for _ in range(ROUNDS):
        before = stage.writes
        for ref in ordered:
            await reconcile(edge, ref, concern_of(edge, ref), outcome=Outcome())
        if stage.writes == before:
            return
    raise NotSettled(f"after {ROUNDS} rounds there is still something to write")


class _Stream:
    """Bytes that are the same every time, so that two rehearsals are alike. Nothing made of them may be used."""

    def __init__(self) -> None:
        self._count = 0

    def __call__(self, size: int) -> bytes:
        data = b""
        while len(data) < size:
            data += hashlib.sha256(b"rehearsal %d" % self._count).digest()
            self._count += 1
        return data[:size]
