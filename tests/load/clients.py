"""Clients of the load: connections that come and go, with a few requests at a time, of which some are given up."""

from __future__ import annotations

import asyncio
import random

from mark_protocol.response import Response, parse_response
from tests.load.account import Account
from tests.load.operations import WRONG, Operation, operation
from tests.load.peer import End, Peer, Stream, connect

DEADLINE = 60.0
"""Seconds after which a request without an answer, and a handshake without an end, is lost."""
MOST_AT_ONCE = 3


class Client:
    """One of the many. `pause` is how long it rests between two rounds, on average."""

    def __init__(self, port: int, account: Account, *, seed: int, pause: float, end: asyncio.Event) -> None:
        self._port = port
        self._account = account
        self._draw = random.Random(seed)
        self._pause = pause
        self._end = end

    async def run(self) -> None:
        """Until the load ends."""
        while not self._end.is_set():
            peer = await connect(self._port, limit=DEADLINE)
            if peer is None:
                self._account.wrong("a handshake was refused or came to no end")
                continue
            self._account.handshakes += 1
            for _ in range(self._draw.randrange(10, 60)):
                await self._round(peer)
                if self._end.is_set() or peer.gone.is_set():
                    break
                await self._rest()
            if peer.end is not None:
                self._account.wrong(f"a connection was closed: {peer.end.reason_phrase or peer.end.error_code}")
            if self._draw.random() < 0.1:
                self._account.faults["vanished"] += 1
                peer.vanish()
            else:
                peer.leave()

    async def _rest(self) -> None:
        try:
            await asyncio.wait_for(self._end.wait(), self._draw.random() * 2 * self._pause)
        except TimeoutError:
            return

    async def _round(self, peer: Peer) -> None:
        chosen = [operation(self._draw) for _ in range(self._draw.randrange(1, MOST_AT_ONCE + 1))]
        await asyncio.gather(*(self._one(peer, one) for one in chosen if peer.free()))

    async def _one(self, peer: Peer, one: Operation) -> None:
        account = self._account
        account.operations[one.name] += 1
        fate = self._draw.random()
        if fate < 0.03:
            await self._give_up(peer, one)
            return
        stream = peer.open(one.data)
        if one.watch:
            await self._watch(peer, stream)
            return
        end = await ended(stream)
        account.ends[end or "LOST"] += 1
        if end is None:
            account.wrong(f"{one.name}: no answer and no end in {DEADLINE:.0f} s")
        elif end is End.ANSWERED:
            self._judge(one, bytes(stream.answer))

    def _judge(self, one: Operation, answer: bytes) -> None:
        response = parse_response(answer)
        self._account.statuses[response.status] += 1
        if response.status in WRONG or _internal(response):
            self._account.wrong(f"{one.name}: answered {response.status!r} {response.message!r}")

    async def _give_up(self, peer: Peer, one: Operation) -> None:
        """Reset in the middle of the request, or stop in the middle of the answer."""
        half = self._draw.random() < 0.5
        stream = peer.open(one.data[: len(one.data) // 2] if half else one.data, fin=not half)
        await asyncio.wait([stream.ended], timeout=self._draw.random() * 0.02)
        peer.cancel(stream)
        self._account.faults["reset in the middle of a request" if half else "stopped in the middle of an answer"] += 1

    async def _watch(self, peer: Peer, stream: Stream) -> None:
        """A watch is answered when its first block is there."""
        while not stream.answer and not stream.ended.done():
            stream.moved.clear()
            try:
                await asyncio.wait_for(stream.moved.wait(), DEADLINE)
            except TimeoutError:
                self._account.ends["LOST"] += 1
                self._account.wrong("WATCH: no first block")
                return
        await self._rest()
        if stream.ended.done():
            self._account.ends[stream.ended.result()] += 1
            return
        self._account.ends["watched and given up"] += 1
        peer.cancel(stream)


def _internal(response: Response) -> bool:
    return response.status == "server-error" and "internal" in response.message


async def ended(stream: Stream) -> End | None:
    """How a stream ended; None if it did not in time."""
    await asyncio.wait([stream.ended], timeout=DEADLINE)
    return stream.ended.result() if stream.ended.done() else None


async def ask(peer: Peer, data: bytes) -> Response | None:
    """The answer to one request; None if there was none."""
    stream = peer.open(data)
    return parse_response(bytes(stream.answer)) if await ended(stream) is End.ANSWERED else None
