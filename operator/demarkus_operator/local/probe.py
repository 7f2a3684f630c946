"""Asks a process on this machine whether it is ready: one short HTTP request, as kubelet's probe does."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Mapping
from typing import Any

TIMEOUT = 2.0
ANSWER_BYTES = 1 << 18


async def readiness(address: str, *, timeout: float = TIMEOUT) -> Mapping[str, Any] | None:
    """What `/readyz?verbose` at host:port says of itself, or None if it is not ready or not there."""
    host, _, port = address.rpartition(":")
    try:
        async with asyncio.timeout(timeout):
            reader, writer = await asyncio.open_connection(host, int(port))
            try:
                request = f"GET /readyz?verbose HTTP/1.1\r\nHost: {address}\r\nConnection: close\r\n\r\n"
                writer.write(request.encode())
                answer = b""
                while len(answer) <= ANSWER_BYTES and (data := await reader.read(ANSWER_BYTES)):
                    answer += data
            finally:
                writer.close()
        head, _, body = answer.partition(b"\r\n\r\n")
        if head.split(b" ", 2)[1:2] != [b"200"]:
            return None
        facts = json.loads(body)
    except (OSError, TimeoutError, ValueError):
        return None
    return facts if isinstance(facts, dict) else None
