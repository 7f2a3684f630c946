"""Logins: begun, carried on by refresh tokens, ended once and for all."""

from __future__ import annotations

import asyncio
import secrets
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

from demarkus_broker.state import names, rotation
from demarkus_broker.state.facts import Facts

MOST = 20
"""Logins of one person; one more ends the one that expires first."""
CLAIM = 30
"""Seconds for which somebody who claimed to ask the provider has to do it."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Login:
    """A login that is alive, as a refresh token led to it."""

    token: rotation.Token
    facts: Mapping[str, Any]


class ReusedError(Exception):
    """A refresh token was used again after its time; the login is ended. The text is the login's name."""


class Logins:
    """The logins of a gateway."""

    def __init__(self, facts: Facts, *, entropy: Callable[[int], bytes] = secrets.token_bytes) -> None:
        self._facts = facts
        self._entropy = entropy

    def new_name(self, expires: int) -> str:
        """A name for a login that lasts until `expires` (seconds since 1970)."""
        return names.text(expires, self._entropy(names.ENTROPY))

    async def begin(self, name: str, facts: Mapping[str, Any], *, person: str, now: float) -> str:
        """Begin a login of a person, given by label; gives its first refresh token."""
        token = rotation.make(name, 1, rotation.FIRST_LANE, self._entropy(names.ENTROPY))
        await asyncio.gather(
            self._facts.tell(f"people/{person}/{name}", {}),
            self._facts.tell(f"logins/{name}/began", {**facts, "person": person}),
            self._facts.tell(token.key, {"hash": names.digest(token.secret), "at": int(now)}),
        )
        mine = [key.rpartition("/")[2] for key in await self._facts.keys(f"people/{person}/")]
        live = [other for other in mine if int(other[:10]) > now]
        for other in live[: max(0, len(live) - MOST)]:
            await self.end(other, why="too many logins")
        return token.secret

    async def find(self, presented: str, *, now: float) -> Login | None:
        """The living login of a refresh token, used or not; None if there is none."""
        token = rotation.parse(presented)
        if token is None or int(token.login[:10]) <= now:
            return None
        began, kept, ended = await asyncio.gather(
            self._facts.read(f"logins/{token.login}/began"), self._facts.read(token.key), self.ended(token.login)
        )
        if began is None or ended or not rotation.is_genuine(token, kept):
            return None
        return Login(token=token, facts=began)

    async def rotate(self, login: Login, *, now: float) -> str:
        """Use the token of a login; gives its successor or a sibling of that. Raises ReusedError."""
        used = login.token
        while True:
            successor = await self._succeed(used, used.lane, now)
            if successor is not None:
                return successor.secret
            direct = rotation.make(used.login, used.generation + 1, used.lane, b"")
            first = await self._facts.read(direct.key)
            if first is None:  # swept since: the token is far too old
                break
            generation = len(await self._facts.keys(direct.generation_prefix))
            if rotation.judge(first, generation=generation, now=now) is rotation.Used.REUSE:
                break
            sibling = await self._succeed(used, self._entropy(4).hex(), now)
            if sibling is not None:
                return sibling.secret
        await self.end(used.login, why="reuse")
        raise ReusedError(used.login)

    async def end(self, name: str, *, why: str) -> None:
        """End a login; nothing happens if it has ended. `why` is for whoever reads the store."""
        await self._facts.tell(f"logins/{name}/ended", {"why": why})
        began = await self._facts.read(f"logins/{name}/began")
        if began is not None:
            await self._facts.forget(f"people/{began['person']}/{name}")

    async def ended(self, name: str) -> bool:
        """Whether a login was ended."""
        return await self._facts.read(f"logins/{name}/ended") is not None

    async def newest_check(self, name: str) -> tuple[int, Mapping[str, Any] | None]:
        """The number of the newest check of a login's person, and what it found; 0 and None before the first."""
        keys = await self._facts.keys(f"logins/{name}/check-")
        if not keys:
            return 0, None
        return int(keys[-1].rpartition("-")[2]), await self._facts.read(keys[-1])

    async def claim_check(self, name: str, number: int, *, now: float) -> bool:
        """Claim to be the one who makes a check of a login's person; False while somebody else has claimed it.

        A claim that leads to nothing is over after CLAIM seconds.
        """
        slot = int(now) // CLAIM * CLAIM
        before = await self._facts.read(self._claim(name, number, slot - CLAIM))
        if before is not None and before["at"] + CLAIM > now:
            return False
        return await self._facts.tell(self._claim(name, number, slot), {"at": int(now)})

    async def drop_claim(self, name: str, number: int, *, claimed: float) -> None:
        """Take a claim of the time `claimed` back."""
        await self._facts.forget(self._claim(name, number, int(claimed) // CLAIM * CLAIM))

    async def tell_check(self, name: str, number: int, found: Mapping[str, Any]) -> bool:
        """Note what a check of a login's person found; False if there is one of that number."""
        return await self._facts.tell(f"logins/{name}/check-{number:08d}", found)

    def _claim(self, name: str, number: int, slot: int) -> str:
        return f"logins/{name}/claim-{number:08d}-{slot:010d}"

    async def _succeed(self, used: rotation.Token, lane: str, now: float) -> rotation.Token | None:
        token = rotation.make(used.login, used.generation + 1, lane, self._entropy(names.ENTROPY))
        body = {"hash": names.digest(token.secret), "at": int(now)}
        return token if await self._facts.tell(token.key, body) else None
