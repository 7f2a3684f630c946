"""How much one person, and one address that is not signed in, may ask: token buckets in bounded maps.

Pure but for what the buckets remember; time comes in. Each replica counts for itself.
"""

from __future__ import annotations

import ipaddress
import math
from collections.abc import Sequence

from cachetools import LRUCache

from demarkus_broker.settings import RateSettings

MOST = 20_000
"""Buckets that are kept; the one that was not used for longest goes first, and would be full again soon anyway."""


class Buckets:
    """The buckets of one kind of asker. `per_second` (0 = no bound) and `burst` hold where the settings say nothing."""

    def __init__(self, *, per_second: int, burst: int) -> None:
        self._per_second = per_second
        self._burst = burst
        self._kept: LRUCache[str, tuple[float, float]] = LRUCache(MOST)

    def wait(self, asker: str, settings: RateSettings, *, now: float) -> int | None:
        """Take one; None if there was one, else the seconds after which there will be."""
        rate = self._per_second if settings.per_second is None else settings.per_second
        if rate == 0:
            return None
        burst = self._burst if settings.burst is None else settings.burst
        level, at = self._kept.get(asker, (float(burst), now))
        level = min(burst, level + max(0.0, now - at) * rate)
        if level < 1:
            self._kept[asker] = level, now
            return max(1, math.ceil((1 - level) / rate))
        self._kept[asker] = level - 1, now
        return None


def address_of(peer: str, forwarded: Sequence[str], *, trusted_proxies: int) -> str:
    """Who asks, as a key of buckets: an IPv4 address, or the /64 of an IPv6 one.

    `peer` is who connected, `forwarded` the values of `X-Forwarded-For`. Each of the trusted proxies adds at the end
    whom it saw, so what was there before the first of them wrote is not looked at.
    """
    seen = [part.strip() for value in forwarded for part in value.split(",")] if trusted_proxies else []
    address = seen[-trusted_proxies] if len(seen) >= trusted_proxies > 0 else peer
    try:
        ip = ipaddress.ip_address(address.removeprefix("[").partition("]")[0].partition("%")[0])
    except ValueError:
        return peer
    if isinstance(ip, ipaddress.IPv6Address):
        if ip.ipv4_mapped is None:
            return str(ipaddress.ip_network((ip, 64), strict=False))
        return str(ip.ipv4_mapped)
    return str(ip)
