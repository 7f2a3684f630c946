"""Log lines about unwanted traffic: the first of a kind in a minute; counters tell the rest."""

from __future__ import annotations

import logging
import math
from collections.abc import Callable

from mark_protocol.transport.port import Address

logger = logging.getLogger(__name__)

QUIET = 60.0
"""Seconds between two lines of a kind."""


class Notices:
    """What a listener says of strangers. `clock` tells seconds of any kind."""

    def __init__(self, clock: Callable[[], float]) -> None:
        self._clock = clock
        self._last: dict[str, float] = {}

    def say(self, kind: str, message: str, *args: object, peer: Address, bug: Exception | None = None) -> None:
        """One line, unless one of this kind was written lately; with a `bug` it is an error with its traceback."""
        now = self._clock()
        if now - self._last.get(kind, -math.inf) >= QUIET:
            self._last[kind] = now
            level = logging.INFO if bug is None else logging.ERROR
            logger.log(level, message + " (from %s; more of the kind is counted only)", *args, peer.host, exc_info=bug)
