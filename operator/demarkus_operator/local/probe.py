"""Asks a process on this machine whether it is ready: one short HTTP request, as kubelet's probe does."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from demarkus_operator.processes.readyz import TIMEOUT, facts_of


async def readiness(address: str, *, timeout: float = TIMEOUT) -> Mapping[str, Any] | None:
    """What `/readyz?verbose` at host:port says of itself, or None if it is not ready or not there."""
    facts = await facts_of(address, timeout=timeout)
    return facts if facts is not None and facts.get("ready") is not False else None
