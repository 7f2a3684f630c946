"""Processes that are asked where one injected function says they are."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass

from demarkus_operator.plan.objects import Ref
from demarkus_operator.plan.reports import Report
from demarkus_operator.processes.readyz import TIMEOUT, facts_of, report_of

AT_ONCE = 16


@dataclass(frozen=True, slots=True, kw_only=True)
class Place:
    """Where a process is.

    Attributes:
        pod: the name of its pod.
        address: its health port as host:port; None while it has none.
        management: its management port, if it has one; of worlds only.
        ready: whether it is given requests, as the cluster sees it.
        resource_version: of the pod, if there is one to be changed.
        synced: what the pod was last told to have loaded.
    """

    pod: str
    address: str | None
    management: str | None = None
    ready: bool = True
    resource_version: str = ""
    synced: str = ""


Places = Callable[[Ref], Awaitable[Sequence[Place]]]
"""Where the processes of a World or Universe are; may raise `PortError`."""


class Asked:
    """`Processes` that answer on their health ports."""

    def __init__(self, places: Places, *, timeout: float = TIMEOUT) -> None:
        """`timeout`: seconds for one answer."""
        self._places = places
        self._timeout = timeout
        self._gate = asyncio.Semaphore(AT_ONCE)

    async def reports(self, ref: Ref) -> Sequence[Report]:
        """See `Processes.reports`."""
        places = sorted(await self._places(ref), key=lambda place: place.pod)
        return await asyncio.gather(*(self._report(place) for place in places))

    async def _report(self, place: Place) -> Report:
        facts = None
        if place.address is not None:
            async with self._gate:
                facts = await facts_of(place.address, timeout=self._timeout)
        if facts is None:
            return Report(
                pod=place.pod,
                reached=False,
                ready=place.ready,
                resource_version=place.resource_version,
                synced=place.synced,
            )
        return report_of(place.pod, facts, resource_version=place.resource_version, synced=place.synced)
