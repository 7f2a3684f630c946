"""The worlds as the gateway sees them: directory, grants and pool put together.

`ask` is the one way to a world. It attaches the caller's grant; if the world refuses that grant (its `grantsNotBefore`
was raised before the broker's configuration followed), it signs another one and asks once more, which is safe for
writes too, because a refused credential is a definite no.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import replace

from demarkus_broker.identity import Person
from demarkus_broker.keys import Keys
from demarkus_broker.metrics import Metrics
from demarkus_broker.settings import BrokerSettings
from demarkus_broker.worlds.directory import Directory, Entry
from demarkus_broker.worlds.errors import GrantRefused
from demarkus_broker.worlds.grants import Grants
from demarkus_broker.worlds.pool import WorldPool
from mark_protocol.metadata import AUTH
from mark_protocol.request import Request
from mark_protocol.response import Response
from mark_protocol.status import Status


class Universe:
    """All worlds of the configuration in force. `keys` gives the keys that are in force now."""

    def __init__(
        self,
        *,
        keys: Callable[[], Keys],
        pool: WorldPool,
        metrics: Metrics,
        now: Callable[[], float] = time.time,
    ) -> None:
        self._keys = keys
        self._pool = pool
        self._metrics = metrics
        self._now = now
        self._grants = Grants(now=now)
        self._issuer = ""
        self._directory = Directory((), generation=0)

    def adopt(self, settings: BrokerSettings, roots: bytes) -> None:
        """Take over a configuration and the CA certificates (PEM) that worlds are verified against."""
        self._issuer = settings.public_url
        self._directory = Directory(settings.worlds, generation=settings.generation)
        self._pool.adopt(settings.worlds, roots)

    def label(self, person: Person) -> str:
        """The label under which worlds and logs know a person."""
        return self._keys().label(person.issuer, person.subject)

    def find(self, name: str, person: Person) -> Entry | None:
        """The world of this name as the person sees it, None if it does not exist for them."""
        return self._directory.find(name, person)

    def readable(self, person: Person) -> list[Entry]:
        """Every world that exists for the person, by name."""
        return self._directory.readable(person)

    async def ask(self, person: Person, entry: Entry, request: Request) -> Response:
        """Send a request on behalf of a person.

        Raises:
            ValueError: the request breaks a limit of the protocol.
            Unavailable: nothing was done.
            AnswerLost: a write may or may not have been made.
            GrantRefused: the world does not take our grants at present.
        """
        keys = self._keys()
        for _ in range(2):
            signed = self._grants.signed
            grant = self._grants.grant(person, entry, keys=keys, issuer=self._issuer)
            self._metrics.grants_signed.inc(self._grants.signed - signed)
            self._metrics.grants_kept.set(len(self._grants))
            authorised = replace(request, metadata={**request.metadata, AUTH: grant.text})
            response = await self._pool.ask(entry.world, authorised)
            if response.status != Status.UNAUTHORIZED:
                return response
            self._grants.forget(person, entry, grant, keys=keys)
            if grant.issued_at >= int(self._now()):
                break  # another one would be the same
        raise GrantRefused(entry.name, "it refuses the broker's grants")
