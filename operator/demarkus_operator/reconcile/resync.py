"""A look at everything from time to time: events can be missed, and then nothing else would tell."""

from __future__ import annotations

import asyncio
import logging
import random
from collections.abc import Awaitable, Callable

from demarkus_operator.cluster.kinds import UNIVERSE, WORLD
from demarkus_operator.cluster.port import Port, PortError
from demarkus_operator.plan.objects import Manifest, Ref

EVERY = 600.0
AFTER_FAILURE = 30.0

logger = logging.getLogger(__name__)


async def listing(port: Port, namespaces: tuple[str, ...]) -> list[Manifest]:
    """All Worlds and Universes of these namespaces; of all, when none is named. Raises `PortError`."""
    return [
        subject
        for kind in (UNIVERSE, WORLD)
        for namespace in namespaces or (None,)
        for subject in await port.list(kind.api_version, kind.kind, namespace=namespace)
    ]


async def resync(
    port: Port,
    namespaces: tuple[str, ...],
    *,
    listed: Callable[[list[Manifest]], list[Ref]],
    add: Callable[[Ref], object],
    sleep: Callable[[float], Awaitable[None]] = asyncio.sleep,
    chance: Callable[[], float] = random.random,
) -> None:
    """Lists and adds everything, again and again, for ever."""
    while True:
        try:
            subjects = await listing(port, namespaces)
        except PortError as error:
            logger.warning("resync", extra={"fields": {"error": str(error)}})
            await sleep(AFTER_FAILURE)
            continue
        for ref in listed(subjects):
            add(ref)
        logger.info("resync", extra={"fields": {"objects": len(subjects)}})
        await sleep(EVERY * (0.9 + chance() / 5))  # operators that were started together drift apart
