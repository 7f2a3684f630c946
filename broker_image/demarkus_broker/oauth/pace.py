"""How often a device asks (RFC 8628, 3.5): not before its interval is over, which grows by 5 seconds with each haste.

It is kept by each replica for itself: it spares work and decides nothing. Pure but for what it remembers.
"""

from __future__ import annotations

from cachetools import LRUCache

INTERVAL = 5
"""Seconds between two questions of a device, and what is added after one that came too soon."""
LONGEST = 60
"""Seconds to which an interval grows, at most."""
TOLERANCE = 0.5
"""Seconds by which a question may be early: clocks and networks."""
MOST = 10_000


class Pace:
    """The intervals of the devices that ask."""

    def __init__(self) -> None:
        self._devices: LRUCache[str, tuple[float, int]] = LRUCache(MOST)

    def may_ask(self, device: str, *, now: float) -> bool:
        """Note a question; False if it comes too soon."""
        last, interval = self._devices.get(device, (float("-inf"), INTERVAL))
        in_time = now - last >= interval - TOLERANCE
        self._devices[device] = now, interval if in_time else min(interval + INTERVAL, LONGEST)
        return in_time
