"""A watch that goes on: the stream is opened again where it stopped, as often as it takes (Mark protocol 10.5).

A stream that is cut, ends, or is silent for three heartbeats is opened again from the last cursor; so is one of a
server that is busy or drains, a little later. What the caller has to know comes as values: the changes, and a `Resync`
where changes may have been missed. Only a refusal ends a watch.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, AsyncIterator, Awaitable
from contextlib import aclosing
from dataclasses import dataclass
from typing import Protocol, TypeVar

from mark_protocol.changes import (
    COALESCE,
    HEARTBEAT,
    SINCE,
    BlockReader,
    Change,
    Control,
    Kind,
    MalformedBlock,
)
from mark_protocol.limits import WATCH_BLOCK
from mark_protocol.status import Status
from mark_protocol.transport.port import TransportError, Untrusted

T = TypeVar("T")

SILENCE = 3 * HEARTBEAT
"""Seconds without a byte after which a stream counts as dead."""

DRAINING = 0.5
"""Seconds until a stream that its server closed in order to stop is opened again."""

FIRST_PAUSE, LONGEST_PAUSE = 0.1, 5.0
"""Seconds before another attempt; doubled with each one that brought nothing."""

_KINDS = frozenset(Kind)
_AGAIN = frozenset({Status.RATE_LIMITED.value, Status.SERVER_ERROR.value})
_NO_LONGER = frozenset({Status.UNAUTHORIZED.value, Status.NOT_PERMITTED.value})


class WatchRefused(Exception):
    """The server does not let this caller watch, or not any more; `message` is what it says about it."""

    def __init__(self, status: str, message: str) -> None:
        super().__init__(f"{status}: {message}" if message else status)
        self.status = status
        self.message = message


@dataclass(frozen=True, slots=True)
class Resync:
    """Changes up to this cursor may have been missed: read anew what is watched (LIST, VERSIONS, FETCH).

    The cursor is "" if the server names none.
    """

    cursor: str


class Pace(Protocol):
    """How a watch waits; see `LoopPace`. Times are seconds."""

    async def pause(self, seconds: float) -> None:
        """Let so much time pass."""

    async def within(self, seconds: float, wanted: Awaitable[T]) -> T:
        """What is awaited; TimeoutError, and it is cancelled, if that takes longer."""


class LoopPace:
    """The time of the event loop."""

    async def pause(self, seconds: float) -> None:
        """See `Pace.pause`."""
        await asyncio.sleep(seconds)

    async def within(self, seconds: float, wanted: Awaitable[T]) -> T:
        """See `Pace.within`."""
        async with asyncio.timeout(seconds):
            return await wanted


class Follow(Protocol):
    """Opens a stream with this metadata; see `Pool.follow`."""

    def __call__(self, metadata: dict[str, str], /) -> AsyncGenerator[bytes, None]: ...


class Watch:
    """The changes of a document or subtree, for `async for`, without end. Closed by `aclose`, or by a refusal.

    Args:
        follow: opens the stream anew.
        since: the cursor to begin behind; "" = now.
        coalesce: whether of changes that wait together only the newest of each path is wanted.
        renewable: whether another attempt presents another credential, so that an expired one is no refusal.
        pace: how it waits; the event loop's time if not given.
    """

    def __init__(
        self,
        follow: Follow,
        *,
        since: str = "",
        coalesce: bool = False,
        renewable: bool = False,
        pace: Pace | None = None,
    ) -> None:
        self._follow = follow
        self._options = {COALESCE: "path"} if coalesce else {}
        self._renewable = renewable
        self._pace = pace or LoopPace()
        self._cursor = since
        self._pause = FIRST_PAUSE
        self._items = self._run()

    @property
    def cursor(self) -> str:
        """Where this watch is: what was before has been given out. "" until the server has said so."""
        return self._cursor

    def __aiter__(self) -> AsyncIterator[Change | Resync]:
        return self

    async def __anext__(self) -> Change | Resync:
        """The next one. Raises WatchRefused, and Untrusted for a certificate that is not accepted."""
        return await anext(self._items)

    async def aclose(self) -> None:
        """Stop watching."""
        await self._items.aclose()

    async def _run(self) -> AsyncGenerator[Change | Resync, None]:
        while True:
            after: float | None = None
            try:
                async with aclosing(self._stream()) as items:
                    async for item in items:
                        yield item
            except _Reopen as reopen:
                after = reopen.after
            except Untrusted:
                raise
            except (TransportError, MalformedBlock, TimeoutError):
                pass  # from the last cursor, then
            if after is None:
                after, self._pause = self._pause, min(2 * self._pause, LONGEST_PAUSE)
            await self._pace.pause(after)

    async def _stream(self) -> AsyncGenerator[Change | Resync, None]:
        """One stream, until it ends."""
        since = {SINCE: self._cursor} if self._cursor else {}
        reader = BlockReader()
        acknowledged = False
        async with aclosing(self._follow({**self._options, **since})) as pieces:
            while True:
                try:
                    piece = await self._pace.within(SILENCE, anext(pieces))
                except StopAsyncIteration:
                    reader.finish()
                    return
                for block in reader.feed(piece):
                    if isinstance(block, Control) and block.terminal:
                        yield await self._ended(block, reader, pieces, acknowledged=acknowledged)
                        return
                    acknowledged = True
                    self._pause = FIRST_PAUSE
                    self._cursor = block.cursor or self._cursor
                    if isinstance(block, Change) and block.op in _KINDS:
                        yield block

    async def _ended(
        self, block: Control, reader: BlockReader, pieces: AsyncIterator[bytes], *, acknowledged: bool
    ) -> Resync:
        """What follows from the last block of a stream."""
        if block.status == Status.RESYNC:
            self._pause = FIRST_PAUSE
            self._cursor = block.cursor or ""
            return Resync(self._cursor)
        if block.status == Status.CLOSING:
            self._cursor = block.cursor or self._cursor
            raise _Reopen(after=DRAINING)
        if block.status in _AGAIN or (self._renewable and acknowledged and block.status in _NO_LONGER):
            raise _Reopen
        while len(reader.rest) < WATCH_BLOCK:
            try:
                piece = await self._pace.within(SILENCE, anext(pieces))
            except (StopAsyncIteration, TransportError, TimeoutError):
                break
            list(reader.feed(piece))
        raise WatchRefused(block.status, _message(reader.rest))


class _Reopen(Exception):
    """The stream is over and the watch is not; `after` so many seconds, or as long as it is due."""

    def __init__(self, after: float | None = None) -> None:
        super().__init__()
        self.after = after


def _message(body: bytes) -> str:
    """The sentence in the body of an error."""
    lines = [line for line in body.decode(errors="replace").splitlines() if line.strip()]
    return lines[-1] if lines else ""
