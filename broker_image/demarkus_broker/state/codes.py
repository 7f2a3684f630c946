"""Authorization codes: issued once, looked at, used once."""

from __future__ import annotations

import secrets
from collections.abc import Callable, Mapping
from typing import Any

from demarkus_broker.state import names
from demarkus_broker.state.facts import Facts


class Codes:
    """The authorization codes of a gateway. A grant is what a code stands for."""

    def __init__(self, facts: Facts, *, entropy: Callable[[int], bytes] = secrets.token_bytes) -> None:
        self._facts = facts
        self._entropy = entropy

    async def issue(self, grant: Mapping[str, Any], *, expires: int) -> str:
        """A new code for a grant, good until `expires` (seconds since 1970)."""
        code = names.text(expires, self._entropy(names.ENTROPY))
        await self._facts.tell(f"codes/{names.name_of(code)}/issued", grant)
        return code

    async def grant(self, code: str, *, now: float) -> Mapping[str, Any] | None:
        """What a code stands for, used or not; None if it is none of ours or has expired."""
        name = names.name_of(code)
        if name is None or int(name[:10]) <= now:
            return None
        return await self._facts.read(f"codes/{name}/issued")

    async def use(self, code: str, *, login: str) -> str | None:
        """Use a code for a login. None if that was the first use, else the login that the first use led to."""
        key = f"codes/{names.name_of(code)}/used"
        if await self._facts.tell(key, {"login": login}):
            return None
        first = await self._facts.read(key) or {}
        return str(first.get("login", ""))
