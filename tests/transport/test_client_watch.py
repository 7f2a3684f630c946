"""A watch that goes on: when it opens its stream again, how long it waits before, and what ends it.

Time is a list of answers: no test waits.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, Awaitable
from contextlib import aclosing
from typing import Any

import pytest

from mark_protocol.changes import Change, Control, encode_change, encode_control
from mark_protocol.client.client import MarkClient
from mark_protocol.client.pool import Pool
from mark_protocol.client.watch import SILENCE, Resync, Watch, WatchRefused
from mark_protocol.request import Request, Verb, parse_request
from mark_protocol.response import Response, encode_response
from mark_protocol.transport.port import Limits, NotSent, Trust, Unanswered, Untrusted


def ack(cursor: str = "e:0") -> bytes:
    return encode_control(Control("ok", cursor))


def end(status: str, cursor: str | None = "e:9") -> bytes:
    return encode_control(Control(status, cursor))


def a_change(number: int, **fields: Any) -> Change:
    return Change(**{"cursor": f"e:{number}", "path": f"/{number}.md", "version": 1, "op": "publish", **fields})


def changes(*numbers: int) -> bytes:
    return b"".join(encode_change(a_change(number)) for number in numbers)


class Silent:
    """A stream that says nothing more."""


Piece = bytes | Exception | Silent


class Script:
    """A server by script: each stream is a list of pieces, failures and silences. It is also the pace of the watch."""

    def __init__(self, *streams: list[Piece]) -> None:
        self.streams = list(streams)
        self.opened: list[dict[str, str]] = []
        self.pauses: list[float] = []
        self.patience: set[float] = set()
        self.closed = 0
        self._silent = False

    async def follow(self, metadata: dict[str, str]) -> AsyncGenerator[bytes, None]:
        self.opened.append(metadata)
        if not self.streams:
            raise Untrusted("the script is over")
        try:
            for piece in self.streams.pop(0):
                if isinstance(piece, Exception):
                    raise piece
                if isinstance(piece, Silent):
                    self._silent = True
                    await asyncio.Event().wait()
                    raise AssertionError
                yield piece
        finally:
            self.closed += 1

    async def pause(self, seconds: float) -> None:
        self.pauses.append(round(seconds, 3))

    async def within(self, seconds: float, wanted: Awaitable[Any]) -> Any:
        self.patience.add(seconds)
        task = asyncio.ensure_future(wanted)
        while not task.done():
            await asyncio.sleep(0)
            if self._silent:
                self._silent = False
                task.cancel()
                await asyncio.wait([task])
                raise TimeoutError
        return task.result()

    async def watched(self, **options: Any) -> list[Change | Resync]:
        """All that a watch gives out until the script is over."""
        items = []
        try:
            async for item in Watch(self.follow, pace=self, **options):
                items.append(item)
        except Untrusted:
            return items
        raise AssertionError("a watch does not end")

    @property
    def since(self) -> list[str | None]:
        """Where each stream was asked to begin."""
        return [metadata.get("since") for metadata in self.opened]


async def test_changes_come_in_order_and_heartbeats_only_move_the_cursor() -> None:
    script = Script([ack() + changes(1), changes(2, 3) + ack("e:7"), changes(8)])
    assert await script.watched() == [a_change(1), a_change(2), a_change(3), a_change(8)]
    assert script.since == [None, "e:8"]


async def test_a_watch_begins_where_it_is_told_to_and_asks_for_what_it_wants() -> None:
    script = Script([ack("e:5")])
    await script.watched(since="e:5", coalesce=True)
    assert script.opened == [{"since": "e:5", "coalesce": "path"}] * 2


@pytest.mark.parametrize(
    "cut",
    [Unanswered("reset"), NotSent("no connection"), b"---\nbroken\n---\n", b"---\ncursor: e:2\n"],
    ids=["reset", "not sent", "malformed", "inside a block"],
)
async def test_a_cut_stream_is_opened_again_from_the_last_cursor(cut: Piece) -> None:
    script = Script([ack(), changes(1), cut], [ack("e:1"), changes(2)])
    assert await script.watched() == [a_change(1), a_change(2)]
    assert script.since == [None, "e:1", "e:2"]
    assert script.closed == 2


async def test_three_heartbeats_of_silence_are_the_end_of_a_stream() -> None:
    script = Script([ack(), changes(1), Silent()], [changes(2)])
    assert await script.watched() == [a_change(1), a_change(2)]
    assert script.since == [None, "e:1", "e:2"]
    assert script.patience == {SILENCE} == {60.0}


async def test_a_server_that_drains_is_asked_again_half_a_second_later() -> None:
    script = Script([ack(), changes(1), end("closing", "e:4")], [ack("e:4"), end("closing", None)])
    assert await script.watched() == [a_change(1)]
    assert script.since == [None, "e:4", "e:4"]
    assert script.pauses == [0.5, 0.5]


@pytest.mark.parametrize("status", ["rate-limited", "server-error"])
async def test_a_busy_server_is_asked_again_later_and_later(status: str) -> None:
    refusal = encode_response(Response(status))
    script = Script(*([refusal] for _ in range(8)), [ack(), changes(1)], [refusal])
    assert await script.watched() == [a_change(1)]
    assert script.pauses == [0.1, 0.2, 0.4, 0.8, 1.6, 3.2, 5.0, 5.0, 0.1, 0.2]


async def test_attempts_that_bring_nothing_are_further_and_further_apart() -> None:
    script = Script(*([NotSent("no connection")] for _ in range(4)), [ack()], [ack()])
    await script.watched()
    assert script.pauses == [0.1, 0.2, 0.4, 0.8, 0.1, 0.1]


async def test_a_resync_is_told_and_the_watch_goes_on_behind_it() -> None:
    script = Script([end("resync", "f:40")], [ack("f:40"), changes(41)], [ack(), end("resync", None)])
    assert await script.watched(since="e:2") == [Resync("f:40"), a_change(41), Resync("")]
    assert script.since == ["e:2", "f:40", "e:41", None]


async def test_kinds_that_are_not_known_are_left_out_but_their_cursor_counts() -> None:
    script = Script([ack() + encode_change(a_change(1)) + encode_change(a_change(2, op="rename"))])
    assert await script.watched() == [a_change(1)]
    assert script.since == [None, "e:2"]


@pytest.mark.parametrize("status", ["unauthorized", "not-permitted", "bad-request", "not-found", "teapot"])
async def test_a_refusal_is_final(status: str) -> None:
    whole = encode_response(Response.error(status, "the message"))
    for pieces in ([whole], [whole[:25], whole[25:40], whole[40:]]):
        script = Script(pieces)
        with pytest.raises(WatchRefused) as refused:
            await anext(Watch(script.follow, pace=script))
        assert (refused.value.status, refused.value.message) == (status, "the message")
        assert len(script.opened) == 1


async def test_a_credential_that_is_no_longer_good_ends_a_watch_unless_there_is_another_one() -> None:
    ended = [ack(), changes(1), end("unauthorized", "e:1")]
    script = Script(ended)
    watch = Watch(script.follow, pace=script)
    assert await anext(watch) == a_change(1)
    with pytest.raises(WatchRefused, match="unauthorized"):
        await anext(watch)
    script = Script(ended, [ack("e:1"), changes(2)])
    assert await script.watched(renewable=True) == [a_change(1), a_change(2)]
    refusal = encode_response(Response.error("unauthorized", "authentication required"))
    with pytest.raises(WatchRefused, match="authentication required"):
        await anext(Watch(Script([refusal]).follow, pace=script, renewable=True))


async def test_closing_a_watch_closes_its_stream() -> None:
    script = Script([ack(), changes(1), Silent()])
    async with aclosing(Watch(script.follow, pace=script)) as watch:
        assert await anext(watch) == a_change(1)
        assert watch.cursor == "e:1"
    assert script.closed == 1


class TestOverQUIC:
    """The real stream, between our listener and our client."""

    async def test_blocks_arrive_as_they_are_sent_and_the_credential_is_asked_for_each_time(
        self, kit: Any, trust: Trust, until: Any
    ) -> None:
        server = await kit.listener(answer=lambda data: None)
        tickets = iter(["first", "second"])

        async def auth() -> str:
            return next(tickets)

        pool = Pool([server.listener.address], server_name="localhost", trust=trust)
        async with aclosing(MarkClient(pool, auth=auth).watch("/notes/", coalesce=True)) as watch:
            first = asyncio.create_task(anext(watch))
            [(conn, stream, data)] = await until("the request", lambda: server.of("request"))
            assert parse_request(data) == Request(Verb.WATCH, "/notes/", {"auth": "first", "coalesce": "path"})
            server.listener.send(conn, stream, ack("e:3"), fin=False)
            await until("the acknowledgement", lambda: watch.cursor == "e:3")
            server.listener.send(conn, stream, changes(4)[:10], fin=False)
            server.listener.flush()
            server.listener.send(conn, stream, changes(4)[10:], fin=False)
            assert await first == a_change(4)
            second = asyncio.create_task(anext(watch))
            server.listener.send(conn, stream, end("closing", "e:4"))
            _, (conn, stream, data) = await until(
                "the next request", lambda: server.of("request")[1:] and server.of("request")
            )
            assert parse_request(data).metadata == {"auth": "second", "coalesce": "path", "since": "e:4"}
            server.listener.send(conn, stream, changes(5), fin=False)
            assert await second == a_change(5)
        await until("the stream to be cancelled", lambda: server.of("stopped") == [(conn, stream)])
        await pool.close()

    async def test_a_quiet_watch_outlives_the_watch_for_dead_connections(
        self, kit: Any, monkeypatch: pytest.MonkeyPatch, until: Any
    ) -> None:
        monkeypatch.setattr("mark_protocol.transport.portable.dialed.SILENCE", 0.02)
        server = await kit.listener(answer=lambda data: (data,) if data == b"ping" else None)
        connection = await kit.dial(server.listener.address, limits=Limits(keep_alive=5))
        async with aclosing(connection.follow(b"watch", timeout=5)) as pieces:
            waiting = asyncio.create_task(anext(pieces))
            [(conn, stream, _)] = await until("the request", lambda: server.of("request"))
            assert await connection.exchange(b"ping", timeout=5) == b"ping"  # starts the look-out for silence
            silence = asyncio.get_running_loop().time() + 0.1
            await until("silence", lambda: asyncio.get_running_loop().time() > silence)
            server.listener.send(conn, stream, b"news", fin=False)
            assert await waiting == b"news"

    async def test_an_answer_that_nobody_reads_is_given_up(
        self, kit: Any, monkeypatch: pytest.MonkeyPatch, until: Any
    ) -> None:
        monkeypatch.setattr("mark_protocol.transport.portable.dialed.MAX_UNREAD", 1000)
        server = await kit.listener(answer=lambda data: None)
        connection = await kit.dial(server.listener.address)
        pieces = connection.follow(b"watch", timeout=5)
        waiting = asyncio.create_task(anext(pieces))
        [(conn, stream, _)] = await until("the request", lambda: server.of("request"))
        server.listener.send(conn, stream, b"x", fin=False)
        assert await waiting == b"x"
        server.listener.send(conn, stream, b"y" * 1200, fin=False)
        with pytest.raises(Unanswered, match="wait for their reader"):
            async for _ in pieces:
                pass
        await until("the stream to be cancelled", lambda: server.of("stopped") == [(conn, stream)])

    async def test_an_answer_that_came_whole_is_whole_although_the_connection_ended_behind_it(
        self, kit: Any, until: Any
    ) -> None:
        server = await kit.listener(answer=lambda data: (b"first",) if data == b"other" else None)
        connection = await kit.dial(server.listener.address)
        pieces = connection.follow(b"watch", timeout=5)
        waiting = asyncio.create_task(anext(pieces))
        [(conn, stream, _)] = await until("the request", lambda: server.of("request"))
        server.listener.send(conn, stream, b"one", fin=False)
        assert await waiting == b"one"
        server.listener.send(conn, stream, b"two")
        assert await connection.exchange(b"other", timeout=5) == b"first"
        connection.close()
        assert [piece async for piece in pieces] == [b"two"]

    async def test_an_open_answer_ends_with_its_connection(self, kit: Any, until: Any) -> None:
        server = await kit.listener(answer=lambda data: None)
        connection = await kit.dial(server.listener.address)
        waiting = asyncio.create_task(anext(connection.follow(b"watch", timeout=5)))
        await until("the request", lambda: server.of("request"))
        connection.close()
        with pytest.raises(Unanswered):
            await waiting
        with pytest.raises(NotSent):
            await anext(connection.follow(b"watch", timeout=5))
