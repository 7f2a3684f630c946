"""A look at everything, from time to time and whenever events may have been missed: nothing else would tell.

Whoever is found is put in line a few at a time, so that what is heard meanwhile does not have to wait behind them all.
"""

from __future__ import annotations

import asyncio
import logging
import random
from collections.abc import Callable, Iterable
from typing import Protocol

from demarkus_operator.cluster.kinds import UNIVERSE, WORLD
from demarkus_operator.cluster.port import Port, PortError
from demarkus_operator.plan.objects import Manifest, Ref
from demarkus_operator.reconcile.survey import Survey, survey

EVERY = 600.0
AFTER_FAILURE = 30.0
BREAK = 5.0
"""Seconds between two looks, at least: several watches that begin anew do so together."""
IN_LINE = 8
"""How many wait in line at most when the next is added."""

logger = logging.getLogger(__name__)


async def listing(port: Port, namespaces: tuple[str, ...]) -> list[Manifest]:
    """All Worlds and Universes of these namespaces; of all, when none is named. Raises `PortError`."""
    return [
        subject
        for kind in (UNIVERSE, WORLD)
        for namespace in namespaces or (None,)
        async for page in port.pages(kind.api_version, kind.kind, namespace=namespace)
        for subject in page
    ]


class Line(Protocol):
    """The part of the queue that a resync needs."""

    def add(self, key: Ref) -> bool:
        """Has it worked on."""

    async def shorter_than(self, length: int) -> None:
        """Waits until fewer are in line."""


async def resync(
    port: Port,
    namespaces: tuple[str, ...],
    *,
    line: Line,
    surveyed: Callable[[Survey], Iterable[Ref]],
    begins: Callable[[Survey], None] = lambda _: None,
    missed: asyncio.Event | None = None,
    chance: Callable[[], float] = random.random,
) -> None:
    """Looks at everything and adds everybody, again and again, for ever; sooner once `missed` is set.

    `surveyed` is told what was found, and says who is to be worked on; `begins` is told of a look that begins.
    """
    missed = missed or asyncio.Event()
    while True:
        missed.clear()
        found = Survey()
        begins(found)
        try:
            await survey(port, namespaces, into=found)
        except PortError as error:
            logger.warning("resync", extra={"fields": {"error": str(error)}})
            await asyncio.sleep(AFTER_FAILURE)
            continue
        logger.info("resync", extra={"fields": {"objects": len(found.subjects), "children": len(found.versions)}})
        waiting = list(surveyed(found))
        del found
        for ref in waiting:
            await line.shorter_than(IN_LINE)
            line.add(ref)
        await asyncio.sleep(BREAK)
        try:
            # Operators that were started together drift apart.
            async with asyncio.timeout(EVERY * (0.9 + chance() / 5)):
                await missed.wait()
        except TimeoutError:
            continue
