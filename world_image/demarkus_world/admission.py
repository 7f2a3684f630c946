"""Who is served now, who waits, who is refused: the rate of each caller and the number of requests under way.

A caller is its valid credential; only without one it is its address. So a gateway's many people are told apart, and
nobody can spend another one's share by sending a broken token from the same address. A caller over its rate waits if
its turn comes within the request timeout and is refused at once if not: the wait is bounded, and so is the number of
those who wait, which also bounds the memory their requests hold.
"""

from __future__ import annotations

import asyncio
import ipaddress
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass

from cachetools import LRUCache

from demarkus_world.authority import Credential

CALLERS = 10_000
"""Callers whose rate is remembered; the one seen longest ago is forgotten first, and starts anew."""

UNDER_WAY = 1024
"""Requests that may wait or be worked on at once."""

WORKING = 64
"""Requests of which so many are worked on at once; the others wait for a slot."""


class Refusal(Exception):
    """The request is not served: `rate-limited`. The text says which bound was met."""


@dataclass(slots=True)
class _Bucket:
    tokens: float
    seen: float


class RateLimiter:
    """Token buckets. `per_second` of 0 lifts the limit. Times are seconds of one monotonic clock."""

    def __init__(self, *, per_second: float, burst: int) -> None:
        self._per_second = per_second
        self._burst = burst
        self._buckets: LRUCache[str, _Bucket] = LRUCache(CALLERS)

    def reserve(self, caller: str, *, now: float, patience: float) -> float:
        """Takes a turn and returns the seconds until it comes. Refusal if that is more than `patience`."""
        if self._per_second == 0:
            return 0.0
        bucket = self._buckets.get(caller)
        if bucket is None:
            bucket = self._buckets[caller] = _Bucket(self._burst, now)
        tokens = min(self._burst, bucket.tokens + (now - bucket.seen) * self._per_second)
        wait = max(0.0, (1 - tokens) / self._per_second)
        bucket.seen = now
        if wait > patience:
            bucket.tokens = tokens
            raise Refusal("rate of requests")
        bucket.tokens = tokens - 1
        return wait

    def set_rate(self, *, per_second: float, burst: int) -> None:
        """Changes the rate for the turns that are taken from now on."""
        self._per_second = per_second
        self._burst = burst


class Admission:
    """The gate that every whole request passes. One event loop; times come from its clock.

    A request enters, gets a slot to be worked on unless it can be answered at once, and leaves.
    """

    def __init__(self, limiter: RateLimiter) -> None:
        self._limiter = limiter
        self._slots = asyncio.Semaphore(WORKING)
        self._under_way = 0

    @property
    def under_way(self) -> int:
        """Requests that wait or are worked on."""
        return self._under_way

    def enter(self, caller: str, *, patience: float) -> float:
        """Takes the caller's turn and returns the seconds until it comes. Whoever enters has to leave.

        Raises Refusal, and then nobody has entered.
        """
        if self._under_way >= UNDER_WAY:
            raise Refusal("requests under way")
        wait = self._limiter.reserve(caller, now=asyncio.get_running_loop().time(), patience=patience)
        self._under_way += 1
        return wait

    def leave(self) -> None:
        """Says that a request that entered is answered."""
        self._under_way -= 1

    @asynccontextmanager
    async def slot(self, wait: float, *, patience: float) -> AsyncIterator[None]:
        """Waits for the turn that comes in `wait` seconds, then for a free slot, `patience` seconds at most in all.

        The turn comes before the slot: who is over its rate must not keep a slot from others while it waits. Raises
        Refusal.
        """
        deadline = asyncio.get_running_loop().time() + patience
        if wait > 0:
            await asyncio.sleep(wait)
        try:
            async with asyncio.timeout_at(deadline):
                await self._slots.acquire()
        except TimeoutError:
            raise Refusal("requests worked on at once") from None
        try:
            yield
        finally:
            self._slots.release()


def caller_of(credential: Credential | None, host: str) -> str:
    """The name under which a rate is counted. An IPv6 client has a whole /64 to send from, so that counts as one."""
    if credential is not None:
        return f"{credential.kind}:{credential.label}"
    address = ipaddress.ip_address(host.partition("%")[0])
    if isinstance(address, ipaddress.IPv6Address) and address.ipv4_mapped is None:
        return f"address:{ipaddress.IPv6Network((int(address) >> 64 << 64, 64))}"
    return f"address:{address}"
