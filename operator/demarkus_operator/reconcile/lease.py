"""Which of several operators acts: a Lease (coordination.k8s.io/v1) that one of them holds and renews.

Every write is guarded by the resourceVersion that was read, so two can't take it at once. Clocks of machines are not
compared: a Lease counts as abandoned when *we* saw it unchanged for as long as it says it lasts. A holder that can't
renew gives up before others may take over, and giving up ends the process: a fresh start knows nothing stale.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable, Callable
from datetime import UTC, datetime
from typing import Any

from demarkus_operator.cluster.kinds import LEASE
from demarkus_operator.cluster.port import AlreadyExists, Conflict, NotFound, Port, PortError
from demarkus_operator.plan.objects import Manifest, Ref

DURATION = 15.0
"""Seconds after which others may take over."""
GIVE_UP = 10.0
"""Seconds without a renewal after which the holder stops."""
RETRY = 2.0
"""Seconds between two tries to take or renew it."""

logger = logging.getLogger(__name__)


class LeaseLost(Exception):
    """We are not the one that acts any more; whatever is under way must end."""


class Lease:
    """One operator's part in the election; `identity` is its name in it, unique to the process."""

    def __init__(
        self,
        port: Port,
        *,
        namespace: str,
        name: str,
        identity: str,
        clock: Callable[[], float],
        now: Callable[[], datetime] = lambda: datetime.now(UTC),
        sleep: Callable[[float], Awaitable[None]] = asyncio.sleep,
    ) -> None:
        self._port = port
        self._ref = Ref(LEASE.api_version, LEASE.kind, namespace, name)
        self._identity = identity
        self._clock = clock
        self._now = now
        self._sleep = sleep
        self._seen = ""  # the resourceVersion that was seen last, and since when
        self._seen_since = 0.0

    async def acquire(self) -> None:
        """Returns once we hold the Lease."""
        while True:
            try:
                current = await self._read()
                free = self._holder(current) in ("", self._identity) or self._abandoned(current)
                if free and await self._write(current):
                    return
            except PortError as error:
                logger.warning("can't take the lease yet", extra={"fields": {"error": str(error)}})
            await self._sleep(RETRY)

    async def keep(self) -> None:
        """Renews for ever. Raises `LeaseLost`."""
        renewed = self._clock()
        while True:
            await self._sleep(RETRY)
            left = renewed + GIVE_UP - self._clock()
            if left <= 0:
                raise LeaseLost(f"{self._ref} could not be renewed for {GIVE_UP:.0f} s")
            try:
                async with asyncio.timeout(left):
                    current = await self._read()
                    if self._holder(current) != self._identity:
                        raise LeaseLost(f"{self._ref} is held by {self._holder(current) or 'nobody'}")
                    if await self._write(current):
                        renewed = self._clock()
            except (PortError, TimeoutError) as error:
                logger.warning("can't renew the lease", extra={"fields": {"error": str(error)}})

    async def release(self) -> None:
        """Lets others take over at once, if we hold it and the API server can be reached."""
        try:
            current = await self._read()
            if current is not None and self._holder(current) == self._identity:
                empty = {"spec": {"holderIdentity": "", "leaseDurationSeconds": 1}}
                await self._port.patch(self._ref, empty, current["metadata"]["resourceVersion"])
        except PortError as error:
            logger.warning("can't release the lease", extra={"fields": {"error": str(error)}})

    async def _read(self) -> Manifest | None:
        try:
            current = await self._port.get(self._ref)
        except NotFound:
            return None
        version = current["metadata"]["resourceVersion"]
        if version != self._seen:
            self._seen, self._seen_since = version, self._clock()
        return current

    async def _write(self, current: Manifest | None) -> bool:
        """Writes us into the Lease as it was read; False when somebody else wrote in between."""
        spec = {"spec": self._spec(current)}
        try:
            if current is None:
                metadata = {"name": self._ref.name, "namespace": self._ref.namespace}
                identity = {"apiVersion": self._ref.api_version, "kind": self._ref.kind, "metadata": metadata}
                await self._port.create({**identity, **spec})
            else:
                await self._port.patch(self._ref, spec, current["metadata"]["resourceVersion"])
        except (AlreadyExists, Conflict, NotFound):
            return False
        return True

    def _abandoned(self, lease: Manifest | None) -> bool:
        lasts = float((lease or {}).get("spec", {}).get("leaseDurationSeconds") or DURATION)
        return self._clock() - self._seen_since >= lasts

    def _spec(self, current: Manifest | None) -> dict[str, Any]:
        now = self._now().astimezone(UTC).strftime("%Y-%m-%dT%H:%M:%S.%fZ")
        spec = {"holderIdentity": self._identity, "leaseDurationSeconds": int(DURATION), "renewTime": now}
        if self._holder(current) == self._identity:
            return spec
        changes = int((current or {}).get("spec", {}).get("leaseTransitions") or 0) + 1
        return {**spec, "acquireTime": now, "leaseTransitions": changes}

    @staticmethod
    def _holder(lease: Manifest | None) -> str:
        return str((lease or {}).get("spec", {}).get("holderIdentity") or "")
