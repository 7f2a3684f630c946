"""A circuit breaker: a world that does not answer is left alone for a while instead of costing every caller a timeout.

Pure: time comes in as a parameter (seconds of any steady clock). After some failures in a row the circuit is open; when
its pause is over one request may try (half-open), and what becomes of it closes the circuit or doubles the pause.
"""

from __future__ import annotations

FAILURES = 3
"""Failures in a row that open the circuit."""
FIRST_PAUSE = 1.0
"""Seconds that the circuit stays open at first."""
LONGEST_PAUSE = 30.0


class Breaker:
    """The circuit to one world."""

    def __init__(self) -> None:
        self._failures = 0
        self._pause = 0.0
        self._opened_until: float | None = None
        self._trying = False

    @property
    def open(self) -> bool:
        """Whether requests are being turned away (or one is just trying)."""
        return self._opened_until is not None

    def wait(self, now: float) -> float:
        """Seconds a request has to wait, 0 if it may go. With 0 on an open circuit the request is the one that tries:
        its caller has to report `succeeded`, `failed` or `abandoned`."""
        if self._opened_until is None:
            return 0.0
        if now < self._opened_until:
            return self._opened_until - now
        if self._trying:
            return FIRST_PAUSE
        self._trying = True
        return 0.0

    def succeeded(self) -> None:
        """The world has answered."""
        self._failures = 0
        self._pause = 0.0
        self._opened_until = None
        self._trying = False

    def failed(self, now: float) -> None:
        """The world could not be reached, or did not answer in time."""
        self._failures += 1
        if self._failures >= FAILURES:
            self._pause = min(LONGEST_PAUSE, self._pause * 2 or FIRST_PAUSE)
            self._opened_until = now + self._pause
        self._trying = False

    def abandoned(self) -> None:
        """The request ended for a reason of its own (its caller went away): nothing was learnt."""
        self._trying = False
