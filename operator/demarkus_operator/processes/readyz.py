"""One question to a process: `/readyz?verbose` on its health port, and what its answer says."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Mapping
from typing import Any

from demarkus_operator.plan.reports import Report

TIMEOUT = 2.0
ANSWER_BYTES = 1 << 18


async def facts_of(address: str, *, timeout: float = TIMEOUT) -> Mapping[str, Any] | None:
    """What the process at host:port says of itself, ready or not; None if there is no such answer."""
    host, _, port = address.rpartition(":")
    try:
        async with asyncio.timeout(timeout):
            reader, writer = await asyncio.open_connection(host.strip("[]"), int(port))
            try:
                request = f"GET /readyz?verbose HTTP/1.1\r\nHost: {address}\r\nConnection: close\r\n\r\n"
                writer.write(request.encode())
                answer = b""
                while len(answer) <= ANSWER_BYTES and (data := await reader.read(ANSWER_BYTES)):
                    answer += data
            finally:
                writer.close()
        head, _, body = answer.partition(b"\r\n\r\n")
        facts = json.loads(body) if head.split(b" ", 2)[1:2] in ([b"200"], [b"503"]) else None
    except (OSError, TimeoutError, ValueError, RecursionError):
        return None
    return facts if isinstance(facts, dict) else None


def report_of(pod: str, facts: Mapping[str, Any], **about: Any) -> Report:
    """The report of a process that said this. What is not as it should be is left out; `about` is what is known of it
    besides.
    """
    history, incarnation = facts.get("history"), facts.get("incarnation")
    store = _mapping(facts, "store")
    return Report(
        pod=pod,
        ready=facts.get("ready") is True,
        history=history if isinstance(history, str) else None,
        incarnation=incarnation if isinstance(incarnation, str) else None,
        loaded={what: sha for what, sha in _mapping(facts, "loaded").items() if isinstance(sha, str)},
        used={label: ms for label, ms in _mapping(facts, "tokenUses").items() if type(ms) is int},
        problems=tuple(str(reason) for reason in _list(facts, "reasons")),
        # A bucket tells whether it answers, a volume whether it has room.
        store_reached=store.get("reachable") is not False if store else None,
        store_problem=str(store.get("problem", "")),
        store_full=store.get("full") is True,
        **about,
    )


def _mapping(facts: Mapping[str, Any], name: str) -> Mapping[str, Any]:
    found = facts.get(name)
    return found if isinstance(found, dict) else {}


def _list(facts: Mapping[str, Any], name: str) -> list[Any]:
    found = facts.get(name)
    return found if isinstance(found, list) else []
