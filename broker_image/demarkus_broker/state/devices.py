"""Devices that wait for somebody to sign in for them (RFC 8628): asked, decided once, collected once."""

from __future__ import annotations

import secrets
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

from demarkus_broker.state import names
from demarkus_broker.state.facts import Facts


@dataclass(frozen=True, slots=True, kw_only=True)
class Asked:
    """A device that asks. `name` is the one in the store; `request` is what it asked for."""

    name: str
    request: Mapping[str, Any]


class Devices:
    """The devices of a gateway."""

    def __init__(self, facts: Facts, *, entropy: Callable[[int], bytes] = secrets.token_bytes) -> None:
        self._facts = facts
        self._entropy = entropy

    async def ask(self, request: Mapping[str, Any], *, expires: int) -> tuple[str, str]:
        """Note a device's request; gives its device code and its user code."""
        device_code = names.text(expires, self._entropy(names.ENTROPY))
        name = names.name_of(device_code)
        user_code = names.user_code(self._entropy(names.ENTROPY))
        await self._facts.tell(f"devices/{name}/asked", request)
        await self._facts.tell(f"usercodes/{names.digest(user_code)[:32]}/{name}", {})
        return device_code, user_code

    async def find(self, device_code: str) -> Asked | None:
        """The device of a device code, expired or not; None if there is none."""
        name = names.name_of(device_code)
        return await self._asked(name) if name else None

    async def waiting(self, user_code: str, *, now: float) -> Asked | None:
        """The device whose user code was typed; None if none waits under it. Two under one code are none."""
        keys = await self._facts.keys(f"usercodes/{names.digest(user_code)[:32]}/")
        live = [name for name in (key.rpartition("/")[2] for key in keys) if int(name[:10]) > now]
        if len(live) != 1 or await self.decision(live[0]) is not None:
            return None
        return await self._asked(live[0])

    async def decide(self, name: str, decision: Mapping[str, Any]) -> bool:
        """Decide for a device; False if that is done already."""
        return await self._facts.tell(f"devices/{name}/decision", decision)

    async def decision(self, name: str) -> Mapping[str, Any] | None:
        """What was decided for a device."""
        return await self._facts.read(f"devices/{name}/decision")

    async def collect(self, name: str) -> bool:
        """Take what was decided; False if somebody has."""
        return await self._facts.tell(f"devices/{name}/collected", {})

    async def _asked(self, name: str) -> Asked | None:
        request = await self._facts.read(f"devices/{name}/asked")
        return None if request is None else Asked(name=name, request=request)
