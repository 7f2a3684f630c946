"""What is asked of the servers, and how: operations over some connections, so many in flight, for so many seconds."""

from __future__ import annotations

import asyncio
import itertools
import time
from collections.abc import Callable
from dataclasses import dataclass

from mark_protocol import transport
from mark_protocol.request import Request, Verb, encode_request
from mark_protocol.transport.port import Connection, Trust
from tests.benchmarks.commits import percentile
from tests.benchmarks.world_servers import TOKEN, Server

TIMEOUT = 60.0
STREAMS_OF_A_CONNECTION = 16


@dataclass(frozen=True, slots=True, kw_only=True)
class Scenario:
    """One row: what the n-th operation sends, and how many are in flight; `dial` = on a new connection each."""

    name: str
    request: Callable[[int], bytes]
    in_flight: int = 1
    dial: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class Measured:
    """What came of a scenario at one server. Failures are answers without the status that is wanted."""

    operations: int
    failures: int
    seconds: float
    cpu: float
    p50: float
    p99: float
    rss_mb: int


def asked(verb: Verb, path: str, body: bytes = b"", **metadata: str) -> bytes:
    """A request with the credential; metadata keys may have underscores for hyphens."""
    keys = {name.replace("_", "-"): value for name, value in metadata.items()}
    return encode_request(Request(verb, path, {"auth": TOKEN, **keys}, body))


async def connect(server: Server) -> Connection:
    """A connection, its certificate checked."""
    return await transport.dial(
        "127.0.0.1", server.port, server_name="localhost", trust=Trust(roots=server.roots), timeout=TIMEOUT
    )


async def exchange(server: Server, *requests: bytes) -> list[bytes]:
    """The answers to some requests, eight at a time."""
    connection = await connect(server)
    slots = asyncio.Semaphore(8)

    async def one(data: bytes) -> bytes:
        async with slots:
            return await connection.exchange(data, timeout=TIMEOUT)

    try:
        return await asyncio.gather(*map(one, requests))
    finally:
        connection.close()


async def measure(server: Server, scenario: Scenario, numbers: itertools.count[int], *, seconds: float) -> Measured:
    """Ask for so long; the first operations, before the clock starts, warm up."""
    count = 0 if scenario.dial else -(-scenario.in_flight // STREAMS_OF_A_CONNECTION)
    connections = [await connect(server) for _ in range(count)]
    took: list[float] = []
    failures = 0

    async def operation(worker: int) -> bytes:
        data = scenario.request(next(numbers))
        if not scenario.dial:
            return await connections[worker % count].exchange(data, timeout=TIMEOUT)
        connection = await connect(server)
        try:
            return await connection.exchange(data, timeout=TIMEOUT)
        finally:
            connection.close()

    async def work(worker: int, end: float) -> None:
        nonlocal failures
        while (begun := time.monotonic()) < end:
            answer = await operation(worker)
            took.append(time.monotonic() - begun)
            failures += server.name == "world" and not _fine(answer)

    try:
        await asyncio.gather(*map(operation, range(scenario.in_flight)))
        cpu, begun = server.cpu(), time.monotonic()
        await asyncio.gather(*(work(worker, begun + seconds) for worker in range(scenario.in_flight)))
        passed, used = time.monotonic() - begun, server.cpu() - cpu
    finally:
        for connection in connections:
            connection.close()
    return Measured(
        operations=len(took),
        failures=failures,
        seconds=passed,
        cpu=used,
        p50=percentile(took, 0.5),
        p99=percentile(took, 0.99),
        rss_mb=server.rss_mb(),
    )


def _fine(answer: bytes) -> bool:
    head = answer.partition(b"\n---\n")[0]
    return b"status: ok" in head or b"status: created" in head
