"""Clients that registered themselves (RFC 7591). A client's identifier carries its expiry."""

from __future__ import annotations

import re
import secrets
from collections.abc import Callable, Mapping
from typing import Any

from demarkus_broker.state import names
from demarkus_broker.state.facts import Facts

_CLIENT_ID = re.compile(r"d-([0-9]{10})-[0-9a-f]{32}")


class Registrations:
    """The registered clients of a gateway."""

    def __init__(self, facts: Facts, *, entropy: Callable[[int], bytes] = secrets.token_bytes) -> None:
        self._facts = facts
        self._entropy = entropy

    async def add(self, metadata: Mapping[str, Any], *, expires: int) -> str:
        """Register a client until `expires` (seconds since 1970); gives its identifier."""
        client_id = f"d-{names.text(expires, self._entropy(names.ENTROPY))}"
        await self._facts.tell(f"registrations/{client_id}", metadata)
        return client_id

    async def find(self, client_id: str, *, now: float) -> Mapping[str, Any] | None:
        """A registered client's metadata; None if there is none, or no more."""
        found = _CLIENT_ID.fullmatch(client_id)
        if found is None or int(found[1]) <= now:
            return None
        return await self._facts.read(f"registrations/{client_id}")
