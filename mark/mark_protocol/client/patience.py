"""A client for works of many requests: what a server is too busy for is asked again, later and later.

`rate-limited` says that nothing was done (Mark protocol 5), so any request may be sent again.
"""

from __future__ import annotations

import asyncio
import math
from collections.abc import Callable

from mark_protocol.client.client import Auth, MarkClient
from mark_protocol.client.pool import Pool
from mark_protocol.request import Request
from mark_protocol.response import Response
from mark_protocol.status import Status

RETRY_AFTER = "retry-after"
"""A key in which a server may say for how many seconds it would rather not be asked."""

SHORTEST, LONGEST = 0.2, 5.0
"""Seconds before the second attempt; each further pause is twice the one before, up to the longest."""

PATIENCE = 60.0
"""Seconds of pauses after which one request is given up."""


class PatientClient(MarkClient):
    """See `MarkClient`. `waiting` is told of each pause, in seconds, before it begins."""

    def __init__(
        self,
        pool: Pool,
        *,
        auth: Auth | None = None,
        timeout: float = 10.0,
        patience: float = PATIENCE,
        waiting: Callable[[float], None] = lambda seconds: None,
    ) -> None:
        super().__init__(pool, auth=auth, timeout=timeout)
        self._patience = patience
        self._waiting = waiting

    async def request(self, request: Request) -> Response:
        """See `MarkClient.request`. A response that is still `rate-limited` is one that patience did not help with."""
        left, pause = self._patience, SHORTEST
        while True:
            response = await super().request(request)
            wait = max(pause, _asked_for(response))
            if response.status != Status.RATE_LIMITED or wait > left:
                return response
            self._waiting(wait)
            await asyncio.sleep(wait)
            left, pause = left - wait, min(pause * 2, LONGEST)


def _asked_for(response: Response) -> float:
    """The seconds that a server asks to be left alone for; 0 where it says nothing that can be understood."""
    try:
        seconds = float(response.metadata.get(RETRY_AFTER, ""))
    except ValueError:
        return 0.0
    return seconds if math.isfinite(seconds) and seconds > 0 else 0.0
