"""Which key is worked on next, and when: the rules of the work queue, without tasks or clocks.

A key is in one of four places: waiting in line, waiting for a time, being worked on, or nowhere. It is never twice in
line and never worked on twice at once. What is heard of a key while it is worked on puts it in line again afterwards,
because the work may have read its object before the change.
"""

from __future__ import annotations

import heapq
from collections import deque
from collections.abc import Callable
from typing import Generic, TypeVar

Key = TypeVar("Key")

FIRST_RETRY = 1.0
LONGEST_RETRY = 300.0
MAX_KEYS = 100_000


def retry_delay(failures: int, chance: float, *, first: float = FIRST_RETRY, longest: float = LONGEST_RETRY) -> float:
    """Seconds until a key that failed so many times in a row is tried again: doubled each time, and up to half more.

    `chance` in [0, 1) spreads keys that failed together.
    """
    base: float = first * 2 ** min(failures - 1, 20)
    return min(longest, base * (1 + chance / 2))


class Schedule(Generic[Key]):
    """The line, the times and the failures of all keys. Times are seconds of any clock that never goes back."""

    def __init__(self, *, chance: Callable[[], float], limit: int = MAX_KEYS, first_retry: float = FIRST_RETRY) -> None:
        self._chance = chance
        self._first_retry = first_retry
        self._limit = limit
        self._line: deque[Key] = deque()
        self._since: dict[Key, float] = {}  # the keys in line, and when they came
        self._at: dict[Key, float] = {}  # the keys that wait for a time
        self._times: list[tuple[float, int, Key]] = []  # a heap over `_at`; entries that disagree with it are void
        self._count = 0
        self._running: set[Key] = set()
        self._again: set[Key] = set()  # heard of while running
        self._failures: dict[Key, int] = {}

    def add(self, key: Key, now: float) -> bool:
        """Puts a key in line, or marks it for another turn if it is being worked on.

        False when there is no room: a later resync has to find the key again.
        """
        if key in self._running:
            self._again.add(key)
        elif key not in self._since:
            if len(self._since) >= self._limit:
                return False
            self._line.append(key)
            self._since[key] = now
        return True

    def add_at(self, key: Key, time: float) -> bool:
        """Puts a key in line at a time; of several times the earliest counts. False when there is no room."""
        if key not in self._at and len(self._at) >= self._limit:
            return False
        if time < self._at.get(key, float("inf")):
            self._at[key] = time
            self._count += 1
            heapq.heappush(self._times, (time, self._count, key))
            self._tidy()
        return True

    def take(self, now: float) -> Key | None:
        """The key to work on now, or None. What it waited for besides is void: the work looks at everything anew."""
        self._wake(now)
        if not self._line:
            return None
        key = self._line.popleft()
        del self._since[key]
        if self._at.pop(key, None) is not None:
            self._tidy()
        self._running.add(key)
        return key

    def succeeded(self, key: Key, now: float, *, again_in: float | None = None) -> None:
        """The work on a key is done; `again_in` seconds from now it wants to be looked at again."""
        self._failures.pop(key, None)
        self._ended(key, now, again_in)

    def failed(self, key: Key, now: float, *, not_before: float = 0.0, got_further: bool = False) -> float:
        """The work on a key failed; it is tried again after the returned seconds, at the earliest `not_before`.

        One that got further than before does not count as one more in a row.
        """
        self._failures[key] = max(1, self.failures(key) + (not got_further))
        delay = max(retry_delay(self._failures[key], self._chance(), first=self._first_retry), not_before)
        self._ended(key, now, delay)
        return delay

    def failures(self, key: Key) -> int:
        """How many times in a row a key failed."""
        return self._failures.get(key, 0)

    def next_time(self) -> float | None:
        """When the next key comes in line by itself."""
        return self._times[0][0] if self._times else None

    @property
    def waiting(self) -> int:
        """How many keys are in line."""
        return len(self._line)

    @property
    def running(self) -> int:
        """How many keys are being worked on."""
        return len(self._running)

    def oldest(self, now: float) -> float:
        """For how many seconds the first key in line has waited."""
        return now - self._since[self._line[0]] if self._line else 0.0

    def _ended(self, key: Key, now: float, delay: float | None) -> None:
        self._running.remove(key)
        if delay is not None:
            self.add_at(key, now + delay)
        if key in self._again:
            self._again.remove(key)
            self.add(key, now)

    def _wake(self, now: float) -> None:
        while self._times and self._times[0][0] <= now:
            _, _, key = heapq.heappop(self._times)
            del self._at[key]
            self._tidy()
            self.add(key, now)

    def _tidy(self) -> None:
        """Drops void entries from the top of the heap, so that its top is the next time."""
        while self._times and self._at.get(self._times[0][2]) != self._times[0][0]:
            heapq.heappop(self._times)
