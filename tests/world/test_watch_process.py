"""Watches of a world process: over QUIC, with the real client, until the process is told to stop."""

from __future__ import annotations

import asyncio
import ssl
from collections.abc import Callable
from contextlib import aclosing
from typing import Any

from aioquic.asyncio import QuicConnectionProtocol, connect
from aioquic.quic.configuration import QuicConfiguration
from aioquic.quic.events import QuicEvent, StreamDataReceived

from mark_protocol.changes import Block, BlockReader, Change, Control
from mark_protocol.client.client import MarkClient
from mark_protocol.client.pool import Pool
from mark_protocol.request import Request, Verb, encode_request
from mark_protocol.response import parse_response
from mark_protocol.transport.port import Connection, Trust

TIMEOUT = 20.0
EPOCH = "1b" * 6


def a_request(verb: Verb, path: str, **metadata: str) -> bytes:
    return encode_request(Request(verb, path, {"auth": "admin", **metadata}))


async def first_block(connection: Connection, data: bytes) -> tuple[Any, Block]:
    """Opens a stream; it and its first block. Whoever does not hold it ends it."""
    pieces = connection.follow(data, timeout=TIMEOUT)
    [block] = BlockReader().feed(await asyncio.wait_for(anext(pieces), TIMEOUT))
    return pieces, block


def an_open_world(start_world: Callable[..., Any], token_file: Callable[..., str], **fields: Any) -> Any:
    return start_world(tokens=token_file(("admin", "/**", ("publish", "read"))), reads="scoped", **fields)


async def test_c_30_a_watch_is_ended_when_the_world_stops_and_goes_on_when_it_is_back(
    start_world: Callable[..., Any], token_file: Callable[..., str], wait_until: Callable[..., Any]
) -> None:
    world = an_open_world(start_world, token_file)
    pool = Pool([("127.0.0.1", world.port)], server_name="localhost", trust=Trust(roots=world.roots))
    async with aclosing(MarkClient(pool, auth="admin").watch("/notes/")) as watch:
        waiting = asyncio.create_task(anext(watch))
        await asyncio.to_thread(wait_until, "the acknowledgement", lambda: watch.cursor)
        await world.request("PUBLISH", "/notes/a.md", b"# A\n", auth="admin", agent="kettle")
        change = await asyncio.wait_for(waiting, TIMEOUT)
        assert (change.path, change.agent, change.by, change.cursor) == ("/notes/a.md", "kettle", "admin", f"{EPOCH}:1")

        waiting = asyncio.create_task(anext(watch))
        raw = await world.dial()
        pieces, _ = await first_block(raw, a_request(Verb.WATCH, "/"))
        before = asyncio.get_running_loop().time()
        assert await asyncio.to_thread(world.stop) == 0
        assert asyncio.get_running_loop().time() - before < 8  # not the ten seconds that answers under way are given
        last = [block async for piece in pieces for block in BlockReader().feed(piece)]
        assert last == [Control("closing", f"{EPOCH}:1")]
        raw.close()
        ended = [line["reason"] for line in world.lines() if line["message"] == "watch ended"]
        assert ended == ["closing", "closing"]

        world.write_config(listen={"mark": f"127.0.0.1:{world.port}", "health": "127.0.0.1:0"})
        await asyncio.to_thread(world.start)
        await world.request("PUBLISH", "/notes/b.md", b"# B\n", auth="admin")
        change = await asyncio.wait_for(waiting, TIMEOUT)
        assert isinstance(change, Change)
        assert (change.path, change.cursor) == ("/notes/b.md", f"{EPOCH}:2")
    await pool.close()


async def test_a_40_half_of_the_streams_of_a_connection_may_be_watches(
    start_world: Callable[..., Any], token_file: Callable[..., str], wait_until: Callable[..., Any]
) -> None:
    world = an_open_world(start_world, token_file)
    connection = await world.dial()
    opened = [await first_block(connection, a_request(Verb.WATCH, "/")) for _ in range(5)]
    assert [block.status for _, block in opened] == ["ok"] * 5
    refused = await connection.exchange(a_request(Verb.WATCH, "/"), timeout=TIMEOUT)
    assert refused == b"---\nstatus: rate-limited\n---\n"
    fetched = await connection.exchange(a_request(Verb.FETCH, "/health"), timeout=TIMEOUT)
    assert parse_response(fetched).status == "ok"
    metrics = world.health("/metrics")
    assert "demarkus_world_watches 5.0" in metrics
    assert "demarkus_world_loop_lag_seconds_bucket" in metrics
    for pieces, _ in opened[:2]:
        await pieces.aclose()
    wait_until("two watches to end", lambda: "demarkus_world_watches 3.0" in world.health("/metrics"))
    _, block = await first_block(connection, a_request(Verb.WATCH, "/"))
    assert block == Control("ok", f"{EPOCH}:0")
    connection.close()
    wait_until("all watches to end", lambda: "demarkus_world_watches 0.0" in world.health("/metrics"))
    watched = [line for line in world.requests() if line["verb"] == "WATCH"]
    assert [line["status"] for line in watched] == ["ok"] * 5 + ["rate-limited", "ok"]


async def test_a_watch_ends_when_its_token_is_taken_away(
    start_world: Callable[..., Any], token_file: Callable[..., str], wait_until: Callable[..., Any]
) -> None:
    world = an_open_world(start_world, token_file)
    connection = await world.dial()
    pieces, _ = await first_block(connection, a_request(Verb.WATCH, "/"))
    (world.folder / "tokens.toml").write_text(token_file(("other", "/**", ("read",))))
    async with asyncio.timeout(TIMEOUT):
        last = [block async for piece in pieces for block in BlockReader().feed(piece)]
    assert last == [Control("unauthorized", f"{EPOCH}:0")]
    connection.close()


class Deaf(QuicConnectionProtocol):
    """A client that takes the first bytes of an answer and no more: it never opens its window again."""

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        self.heard = asyncio.Event()
        self._quic._write_stream_limits = lambda *args, **kwargs: None  # type: ignore[method-assign]

    def ask(self, data: bytes) -> None:
        """Sends a whole request."""
        self._quic.send_stream_data(self._quic.get_next_available_stream_id(), data, end_stream=True)
        self.transmit()

    def quic_event_received(self, event: QuicEvent) -> None:
        """Notes the first answer."""
        if isinstance(event, StreamDataReceived):
            self.heard.set()


async def test_c_50_a_reader_that_stops_reading_loses_its_watch_and_delays_nobody(
    start_world: Callable[..., Any], token_file: Callable[..., str], wait_until: Callable[..., Any]
) -> None:
    world = an_open_world(start_world, token_file, limits={"requestTimeout": "1s", "rate": {"perSecond": 0}})
    configuration = QuicConfiguration(
        is_client=True, alpn_protocols=["mark"], verify_mode=ssl.CERT_NONE, max_stream_data=2000
    )
    connection = await world.dial()
    async with connect("127.0.0.1", world.port, configuration=configuration, create_protocol=Deaf) as deaf:
        deaf.ask(a_request(Verb.WATCH, "/"))
        await asyncio.wait_for(deaf.heard.wait(), TIMEOUT)
        pieces, _ = await first_block(connection, a_request(Verb.WATCH, "/"))
        for number in range(5):
            publish = Request(Verb.PUBLISH, f"/{number}.md", {"auth": "admin", "agent": "k" * 900}, b"x")
            answer = await connection.exchange(encode_request(publish), timeout=TIMEOUT)
            assert parse_response(answer).status == "created"
        reader = BlockReader()
        seen: list[Block] = []
        async with asyncio.timeout(TIMEOUT):
            while len(seen) < 5:
                seen += reader.feed(await anext(pieces))
        assert [block.cursor for block in seen] == [f"{EPOCH}:{number}" for number in range(1, 6)]

        def ended() -> list[dict[str, Any]]:
            return [line for line in world.lines() if line["message"] == "watch ended"]

        await asyncio.to_thread(wait_until, "the deaf watch to end", ended)
        assert [(line["reason"], line["told"]) for line in ended()] == [("stopped by its reader", 5)]
    connection.close()


async def test_a_39_answers_that_nobody_reads_hold_up_no_writer(
    start_world: Callable[..., Any], token_file: Callable[..., str], wait_until: Callable[..., Any]
) -> None:
    world = an_open_world(start_world, token_file, limits={"requestTimeout": "60s", "rate": {"perSecond": 0}})
    configuration = QuicConfiguration(
        is_client=True, alpn_protocols=["mark"], verify_mode=ssl.CERT_NONE, max_stream_data=2000
    )
    assert (await world.request("PUBLISH", "/a.md", b"x" * 1_000_000, auth="admin")).status == "created"
    async with connect("127.0.0.1", world.port, configuration=configuration, create_protocol=Deaf) as deaf:
        for _ in range(8):
            deaf.ask(a_request(Verb.FETCH, "/a.md"))
            deaf.ask(a_request(Verb.LIST, "/"))
        await asyncio.to_thread(wait_until, "the reads", lambda: len(world.requests()) > 16)
        for number in range(2, 6):
            answer = await world.request("PUBLISH", "/a.md", b"y" * number, auth="admin")
            assert (answer.status, answer.metadata["version"]) == ("created", str(number))
        assert (await world.request("FETCH", "/a.md", auth="admin")).body == b"yyyyy"
        assert (await world.request("ARCHIVE", "/a.md", auth="admin")).status == "ok"
