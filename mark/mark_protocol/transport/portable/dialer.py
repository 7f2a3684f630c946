"""The dialing side: the addresses of a host one after the other, until one of them answers."""

from __future__ import annotations

import asyncio
from collections import deque

from mark_protocol.transport.port import Limits, NotSent, TransportError, Trust, Untrusted
from mark_protocol.transport.portable import udp
from mark_protocol.transport.portable.dialed import PortableConnection


async def dial(
    host: str, port: int, *, server_name: str, trust: Trust, limits: Limits, timeout: float
) -> PortableConnection:
    """Connect to the first address of `host` that answers; see `mark_protocol.transport.dial`."""
    name = f"{host}:{port}"
    problem: TransportError = NotSent(f"{name}: no handshake within {timeout:g} s")
    try:
        async with asyncio.timeout(timeout):
            sockets = deque(await udp.connect(host, port))
            try:
                while sockets:
                    sock, remote = sockets.popleft()
                    try:
                        connection = PortableConnection(
                            sock=sock, remote=remote, server_name=server_name, trust=trust, limits=limits, name=name
                        )
                    except BaseException:
                        sock.close()
                        raise
                    try:
                        await connection.handshake()
                    except Untrusted:
                        raise
                    except NotSent as error:
                        problem = error
                    else:
                        return connection
            finally:
                for sock, _ in sockets:
                    sock.close()
    except TimeoutError:
        raise problem from None
    except NotSent:
        raise
    except TransportError as error:
        raise NotSent(str(error)) from error
    raise problem
