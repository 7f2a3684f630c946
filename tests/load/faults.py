"""What goes wrong beside the load, all the time: readers that stop, handshakes and requests that are never finished."""

from __future__ import annotations

import asyncio
import random

from tests.load.account import Account
from tests.load.clients import ended
from tests.load.operations import TOKEN, unread
from tests.load.peer import End, begin, connect

WINDOW = 4096
"""Bytes that a reader takes before it stops."""
UNFINISHED = f"PUBLISH /notes/never.md\n---\nauth: {TOKEN}\n---\n# Ne".encode()


async def stop_reading(port: int, account: Account, draw: random.Random) -> None:
    """Ask for long answers, and take nothing of them. The world gives each of them up, sooner or later."""
    peer = await connect(port, max_data=WINDOW, max_stream_data=WINDOW)
    if peer is None:
        account.wrong("no handshake for a reader that stops")
        return
    peer.grant_nothing()
    streams = [peer.open(unread(draw)) for _ in range(5)]
    for stream in streams:
        account.faults["answers that nobody took"] += 1
        end = await ended(stream)
        if end is None or end is End.ANSWERED:
            account.wrong(f"an answer that nobody takes: {end or 'its stream stays open'}")
    peer.leave()


async def leave_half_open(port: int, account: Account, draw: random.Random) -> None:
    """Begin handshakes, as many as make the world ask for proof of the address, and never go on with them."""
    for _ in range(draw.randrange(20, 100)):
        (await begin(port)).vanish()
        account.faults["half-open handshakes"] += 1
        await asyncio.sleep(0.002)


async def stop_sending(port: int, account: Account, draw: random.Random) -> None:
    """Begin requests and never end them. Each gets an answer that says so."""
    peer = await connect(port)
    if peer is None:
        account.wrong("no handshake for a sender that stops")
        return
    for stream in [peer.open(UNFINISHED, fin=False) for _ in range(5)]:
        account.faults["requests without an end"] += 1
        if await ended(stream) is not End.ANSWERED or b"server-error" not in stream.answer:
            account.wrong("a request without an end has no answer")
    peer.leave()


async def reset_bodies(port: int, account: Account, draw: random.Random) -> None:
    """Reset long bodies somewhere in their middle, more of them than there are streams."""
    peer = await connect(port)
    if peer is None:
        account.wrong("no handshake for bodies that are reset")
        return
    for _ in range(20):
        if not peer.free():
            await asyncio.sleep(0.05)
            continue
        stream = peer.open(UNFINISHED + b"x" * draw.randrange(100_000), fin=False)
        await asyncio.wait([stream.ended], timeout=draw.random() * 0.02)
        peer.cancel(stream)
        account.faults["bodies reset in the middle"] += 1
    last = peer.open(b"FETCH /health\n")
    if peer.free() and await ended(last) is not End.ANSWERED:
        account.wrong("after resets a connection is of no use")
    peer.leave()
