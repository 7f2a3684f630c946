"""Asks a process on this machine whether it is ready: one short HTTP request, as kubelet's probe does."""

from __future__ import annotations

import asyncio
import contextlib

TIMEOUT = 2.0
STATUS_LINE_BYTES = 256


async def answers(address: str, path: str, *, timeout: float = TIMEOUT) -> bool:
    """Whether a GET of `path` at host:port is answered with 200 to 399 within `timeout` seconds."""
    host, _, port = address.rpartition(":")
    with contextlib.suppress(OSError, TimeoutError, ValueError):
        async with asyncio.timeout(timeout):
            reader, writer = await asyncio.open_connection(host, int(port), limit=STATUS_LINE_BYTES)
            try:
                writer.write(f"GET {path} HTTP/1.1\r\nHost: {address}\r\nConnection: close\r\n\r\n".encode())
                line = await reader.readline()
                return 200 <= int(line.split()[1]) < 400
            except IndexError:
                return False
            finally:
                writer.close()
    return False
