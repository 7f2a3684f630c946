"""A pooled connection: in use by any number of requests, and closed when it is retired and the last of them is done."""

from __future__ import annotations

from collections.abc import AsyncGenerator
from contextlib import aclosing

from mark_protocol.transport.port import Connection


class PooledConnection:
    """A dialed connection with the count of its users. Its pool owns it."""

    def __init__(self, connection: Connection, address: tuple[str, int]) -> None:
        self.address = address
        self.users = 0
        self._connection = connection
        self._retired = False

    @property
    def usable(self) -> bool:
        """Whether a new request may use it."""
        return not self._retired and not self._connection.closed

    async def exchange(self, data: bytes, *, timeout: float) -> bytes:
        """See `Connection.exchange`. A retired connection ends behind the last exchange."""
        self.users += 1
        try:
            return await self._connection.exchange(data, timeout=timeout)
        finally:
            self.users -= 1
            if self._retired and not self.users:
                self._connection.close()

    async def follow(self, data: bytes, *, timeout: float) -> AsyncGenerator[bytes, None]:
        """See `Connection.follow`. A retired connection ends behind the last answer, this one included."""
        self.users += 1
        try:
            async with aclosing(self._connection.follow(data, timeout=timeout)) as pieces:
                async for piece in pieces:
                    yield piece
        finally:
            self.users -= 1
            if self._retired and not self.users:
                self._connection.close()

    def retire(self) -> None:
        """Take no new request; close now if there is none, else behind the last one."""
        self._retired = True
        if not self.users:
            self._connection.close()

    def close(self) -> None:
        """Close now; what is under way fails."""
        self._retired = True
        self._connection.close()
