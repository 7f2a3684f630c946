"""A world under a rain of datagrams: noise, broken first packets, mutated flights, hostile frames, odd requests.

Whatever falls on it, it answers those who behave, its memory stays, and its log tells of no failure of its own.
"""

from __future__ import annotations

import asyncio
import itertools
import random
import socket
import time
from collections import Counter
from collections.abc import Awaitable, Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from aioquic.buffer import encode_uint_var

from mark_protocol.request import Request, Verb, encode_request
from mark_protocol.response import parse_response
from mark_protocol.status import Status
from tests.conftest import WorldProcess, a_token_file, a_world
from tests.fuzz import corpus
from tests.fuzz.documents import MARKDOWN
from tests.fuzz.draw import Draw
from tests.load.memory import MIB, Samples
from tests.load.peer import End, Peer, Stream, begin, connect

DEADLINE = 60.0
"""Seconds after which somebody who behaves and has no answer is a finding."""
GROWTH, LEAST = 0.10, 16 * MIB
HEALTH = b"FETCH /health\n"
SHOWER = 300
"""Datagrams of one kind in a row, with a pause behind each two dozen, or the system drops what the world can't take."""

FRAMES = {
    "unknown": b"\x40\x7f",
    "a stream of the server": b"\x08\x01x",
    "a stream above the limit": b"\x0a\x80\x00\xff\xfc\x01x",
    "handshake data": b"\x06\x00\x05hello",
    "too many streams granted": b"\x12\xd0\x00\x00\x00\x00\x00\x00\x01",
    "an acknowledgement of what was not sent": b"\x02\x80\x0f\xff\xff\x00\x00\x00",
    "a final size that shrinks": b"\x0f\x80\x00\x01\x00\x00\x05hello\x0f\x80\x00\x01\x00\x00\x02he",
    "an offset that overflows": b"\x0c\x80\x00\x01\x00\xff\xff\xff\xff\xff\xff\xff\xffabc",
    "a reset of a stream of the server": b"\x04\x01\x00\x00",
    "a stop of what can't be sent": b"\x05\x02\x00",
    "a connection ID that retires too much": b"\x18\x05\x09\x08" + b"a" * 24,
    "a retired ID that was never given": b"\x19\x3f",
    "a path response without a challenge": b"\x1b" + b"a" * 8,
    "the server's own goodbye": b"\x1e",
    "a token": b"\x07\x04abcd",
    "half a frame": b"\x0e\x80\x00\x01\x00\x40",
    "padding": b"\0" * 900,
    "data beyond the window": b"\x0c\x80\x00\x01\x00\x80\xff\xff\xff" + b"z" * 100,
    "blocked": b"\x14\x01\x16\x01",
    "path challenges": b"".join(b"\x1a" + bytes([i]) * 8 for i in range(40)),
}

BATCHES = 8
TOKEN = "fuzz"
PATHS = (
    "/", "/a.md", "/a.md/v1", "/b/", "/b/c.md", "/b/c.md/d.md", "/b/index.md", "/health",
    "/.well-known/agent-manifest.md", "/.well-known/demarkus/policy.md", "/.well-known/demarkus/proposals/",
    f"/sha256-{'0a' * 32}",
)  # fmt: skip
KEYS = (
    "expected-version", "if-none-match", "if-modified-since", "include-archived", "page-size", "cursor", "query",
    "filter", "limit", "match", "since", "coalesce", "tags", "title", "type", "importance", "retention", "agent",
    "rel-see", "superseded-by", "include-superseded", "decision", "x",
)  # fmt: skip
VALUES = (
    "", "0", "1", "2", "-1", "true", "tea", "te a", "*", "body", "path", "0a1b2c3d4e5f:1", "tag=a",
    "modified-after=2026-01-01", "AQAABi9ub3Rlc2N1cHMubWQ", "2026-01-01T00:00:00Z", "a, b", "accept", "/a.md",
    "0.5",
)  # fmt: skip
BODIES = frozenset({Verb.PUBLISH, Verb.APPEND})


@dataclass(slots=True)
class Report:
    """What fell, and what came of it."""

    fallen: Counter[str] = field(default_factory=Counter)
    statuses: Counter[str] = field(default_factory=Counter)
    """Of the odd requests."""
    answered: int = 0
    memory: Samples = field(default_factory=Samples)
    problems: list[str] = field(default_factory=list)

    def __str__(self) -> str:
        fallen = ", ".join(f"{number:,} {what}" for what, number in sorted(self.fallen.items()))
        outcome = "; ".join(["FAILED", *self.problems[:20]]) if self.problems else "ok"
        statuses = ", ".join(f"{status} {number:,}" for status, number in self.statuses.most_common())
        answered = f"{self.answered:,} well-behaved requests answered, the odd ones {statuses}"
        return f"the live world: {fallen}; {answered}; {self.memory}; {outcome}"


def run(folder: Path, *, go_on: Callable[[int], bool], seed: int) -> Report:
    """Starts a world in `folder`, lets it rain, and says what came of it; `go_on` is asked after each round."""
    folder.mkdir(parents=True)
    world = a_world(
        folder / "world",
        tokens=a_token_file((TOKEN, "/**", ("read", "publish"))),
        reads="public",
        limits={"rate": {"perSecond": 0}, "requestTimeout": "2s"},
    )
    world.start()
    try:
        report = asyncio.run(_Rain(world, seed).fall(go_on))
        if world.stop() != 0:
            report.problems.append("the world did not end as it should")
        report.problems += [f"its log: {line}" for line in world.lines() if line["level"] == "error"]
        return report
    finally:
        world.end()


class _Rain:
    def __init__(self, world: WorldProcess, seed: int) -> None:
        self._world = world
        self._address = ("127.0.0.1", world.port)
        self._random = random.Random(seed)
        self._report = Report()
        self._sockets = [socket.socket(socket.AF_INET, socket.SOCK_DGRAM) for _ in range(20)]
        self._flights: list[bytes] = []
        self._requests = corpus.load("requests")
        for sock in self._sockets:
            sock.setblocking(False)

    async def fall(self, go_on: Callable[[int], bool]) -> Report:
        kinds: list[Callable[[], Awaitable[None]]] = [
            self._noise, self._first_packets, self._mutants, self._frames, self._odd_requests, self._half_open
        ]  # fmt: skip
        watch = await connect(self._world.port)
        try:
            for number in itertools.count(1):
                for kind in kinds:
                    await kind()
                    watch = await self._behave(watch)
                assert self._world.process is not None
                self._report.memory.take(self._world.process.pid)
                if self._world.process.poll() is not None:
                    self._report.problems.append("the world has ended")
                    break
                if not go_on(number):
                    break
        finally:
            if watch is not None:
                watch.leave()
            for sock in self._sockets:
                sock.close()
        if self._report.memory.grew(share=GROWTH, least=LEAST):
            self._report.problems.append("its memory grows")
        return self._report

    async def _behave(self, peer: Peer | None) -> Peer | None:
        """A request on a connection that was there before the rain, and one on a new one."""
        for one in (peer, await connect(self._world.port, limit=DEADLINE)):
            if one is None or not await self._healthy(one):
                self._report.problems.append("who behaves got no answer")
                continue
            self._report.answered += 1
            if one is not peer:
                one.leave()
        if peer is None or peer.gone.is_set():
            self._report.problems.append("a connection that behaves was closed")
            return await connect(self._world.port, limit=DEADLINE)
        return peer

    async def _healthy(self, peer: Peer) -> bool:
        stream = peer.open(HEALTH)
        return await _end(stream) is End.ANSWERED and b"healthy" in stream.answer

    async def _throw(self, what: str, datagram: bytes) -> None:
        try:
            self._random.choice(self._sockets).sendto(datagram[:65000], self._address)
        except OSError:  # a full buffer: this one did not fall
            return
        self._report.fallen[what] += 1
        if self._report.fallen[what] % 24 == 0:
            await asyncio.sleep(0.004)

    async def _noise(self) -> None:
        for _ in range(SHOWER):
            await self._throw(
                "noise", self._random.randbytes(self._random.choice((0, 1, 5, 9, 20, 21, 50, 300, 1200, 1200, 3000)))
            )

    async def _first_packets(self) -> None:
        """Headers that are right, of any version, before a payload that is not."""
        draw = self._random
        for _ in range(SHOWER):
            version = draw.choice(
                (b"\0\0\0\1", b"\x6b\x33\x43\xcf", b"\0\0\0\0", b"\x0a\x0a\x0a\x0a", draw.randbytes(4))
            )
            head = bytes([0xC0 | draw.randrange(64)]) + version
            for _ in range(2):
                size = draw.choice((0, 4, 8, 8, 20, 21, 255))
                head += bytes([size]) + draw.randbytes(size)
            token = draw.choice((b"", draw.randbytes(16), draw.randbytes(200)))
            head += encode_uint_var(len(token)) + token + encode_uint_var(draw.choice((0, 20, 1182, 60_000)))
            await self._throw("broken first packets", head + draw.randbytes(draw.choice((0, 30, 1200))))

    async def _mutants(self) -> None:
        """Datagrams of a connection that was, and of handshakes that begin, changed a little, from anywhere."""
        draw = self._random
        if not self._flights or draw.random() < 0.05:
            self._flights = await self._recorded()
        for _ in range(SHOWER):
            mutant = bytearray(draw.choice(self._flights))
            for _ in range(draw.choice((0, 1, 1, 2, 4, 16))):
                mutant[draw.randrange(len(mutant))] = draw.randrange(256)
            match draw.randrange(8):
                case 0:
                    del mutant[draw.randrange(len(mutant)) :]
                case 1:
                    mutant += draw.choice(self._flights)
                case 2:
                    at = draw.randrange(len(mutant))
                    mutant[at:at] = mutant[: draw.randrange(64)]
            await self._throw("mutants", bytes(mutant))

    async def _recorded(self) -> list[bytes]:
        peer = await begin(self._world.port)
        sent: list[bytes] = []
        ordinary = peer.quic.datagrams_to_send

        def recording(now: float) -> list[tuple[bytes, Any]]:
            datagrams = ordinary(now)
            sent.extend(data for data, _ in datagrams)
            return datagrams

        peer.quic.datagrams_to_send = recording  # type: ignore[method-assign]
        await asyncio.wait([asyncio.create_task(peer.ready.wait())], timeout=DEADLINE)
        await _end(peer.open(f"PUBLISH /mutants.md\n---\nauth: {TOKEN}\n---\n".encode() + b"x" * 5000))
        peer.leave()
        for _ in range(5):
            fresh = await begin(self._world.port)
            sent += [data for data, _ in fresh.quic.datagrams_to_send(time.monotonic())]
            fresh.vanish()
        return [datagram for datagram in sent if datagram] or [b"\xc0"]

    async def _frames(self) -> None:
        """What no client sends, under the right keys; or anything at all."""
        draw = self._random
        peer = await connect(self._world.port, limit=DEADLINE)
        if peer is None:
            self._report.problems.append("no handshake for frames")
            return
        await self._healthy(peer)
        frames = [draw.choice(list(FRAMES.values())) for _ in range(draw.randrange(1, 3))]
        if draw.random() < 0.5:
            frames = [draw.randbytes(draw.randrange(1, 200))]
        peer.inject(b"".join(frames)[:1100])
        self._report.fallen["hostile frames"] += len(frames)
        await asyncio.wait([asyncio.create_task(peer.gone.wait())], timeout=0.02)
        peer.leave()

    async def _odd_requests(self) -> None:
        """Requests that are nearly right, in pieces, with streams that are reset or stopped."""
        for _ in range(BATCHES):
            peer = await connect(self._world.port, limit=DEADLINE)
            if peer is None:
                self._report.problems.append("no handshake for requests")
                continue
            await self._batch(peer)
            peer.leave()

    async def _batch(self, peer: Peer) -> None:
        draw = self._random
        streams: list[Stream] = []
        for _ in range(8):
            data = bytearray(draw.choice(self._requests) if draw.random() < 0.3 else self._authorised())
            for _ in range(draw.choice((0, 0, 0, 0, 0, 0, 1, 2, 8))):
                data[draw.randrange(len(data)) if data else 0 : draw.randrange(len(data) + 1)] = draw.randbytes(2)
            cut = draw.randrange(len(data) + 1)
            stream = peer.open(bytes(data[:cut]), fin=False)
            fate = draw.random()
            if fate < 0.15:
                peer.cancel(stream)
            else:
                peer.more(stream, bytes(data[cut:]), fin=fate < 0.995)
                if not bytes(data).startswith(b"WATCH"):
                    streams.append(stream)
            self._report.fallen["odd requests"] += 1
        for stream in streams:
            if (end := await _end(stream)) is End.ANSWERED:
                response = parse_response(bytes(stream.answer))
                self._report.statuses[response.status] += 1
                if response.status not in set(Status) or "internal" in response.message:
                    self._report.problems.append(f"an odd request is answered {response.status!r} {response.message!r}")
            else:
                self._report.problems.append(f"an odd request has no answer: {end}, {peer.end}")

    def _authorised(self) -> bytes:
        """A request that may do all, of any verb, with any metadata, on few paths or any."""
        draw = Draw(self._random.randbytes(400))
        verb = draw.one_of(list(Verb))
        path = draw.one_of(PATHS) if draw.below(6) else "/" + draw.text(6)
        extras = draw.below(4) if draw.flag() else 0
        metadata = {
            draw.one_of(KEYS): draw.text(4) if draw.below(4) == 0 else draw.one_of(VALUES) for _ in range(extras)
        }
        if verb is Verb.LOOKUP and draw.below(8):
            metadata["query"] = draw.one_of(("tea", "*", "te a", draw.unicode(4)))
        if verb is Verb.APPEND and draw.below(8):
            metadata["expected-version"] = draw.one_of(("1", "2", "3"))
        if draw.below(16):
            metadata["auth"] = TOKEN
        body = draw.unicode(30, pieces=MARKDOWN).encode() if draw.below(8) else draw.rest()
        try:
            return encode_request(Request(verb, path, metadata, body if verb in BODIES else b""))
        except ValueError:
            return b"FETCH /\n"

    async def _half_open(self) -> None:
        """Handshakes that nobody goes on with."""
        for _ in range(10):
            (await begin(self._world.port)).vanish()
            self._report.fallen["half-open handshakes"] += 1


async def _end(stream: Stream) -> End | None:
    """How a stream ended; None if it did not in time."""
    await asyncio.wait([stream.ended], timeout=DEADLINE)
    return stream.ended.result() if stream.ended.done() else None
