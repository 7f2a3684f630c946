"""WATCH: what may be watched, what is told of it, and how a stream goes on and ends (Mark protocol 10).

The streams go into a list, and time is a number: nothing here waits for a clock.
"""

from __future__ import annotations

import asyncio
import random
from collections import defaultdict
from collections.abc import Callable
from dataclasses import dataclass, field, replace
from typing import Any

import pytest

from demarkus_base.blobs.memory import MemoryBlobs
from demarkus_world import changes as feed
from demarkus_world import watches as streams
from demarkus_world.authority import Rules
from demarkus_world.engine import log
from demarkus_world.engine.engine import Engine, Identity, Unavailable, Write
from demarkus_world.metrics import Metrics
from demarkus_world.watches import Watches
from mark_protocol.changes import Block, BlockReader, Change, Control
from mark_protocol.request import Request, Verb
from mark_protocol.response import Response, encode_response

EPOCH = "1b" * 6
DEADLINE = 10.0


def at(sequence: int) -> str:
    return f"{EPOCH}:{sequence}"


def message(response: Response) -> str:
    return response.body.decode().split("\n")[3]


class Listener:
    """Stands where the transport is: keeps what was written, and says how much of it waits."""

    def __init__(self) -> None:
        self.streams: defaultdict[tuple[int, int], bytes] = defaultdict(bytes)
        self.ended: set[tuple[int, int]] = set()
        self.gone: set[int] = set()
        self.waiting = 0

    def send(self, conn: int, stream: int, *pieces: bytes, fin: bool = True) -> int:
        """Takes blocks; nothing may follow the last one."""
        key = (conn, stream)
        assert key not in self.ended
        if conn in self.gone:
            return -1
        self.streams[key] += b"".join(pieces)
        if fin:
            self.ended.add(key)
        return self.waiting

    def flush(self) -> None:
        """Nothing is buffered."""


@dataclass
class Watched:
    """A world with its watches, the listener below them, and their time in seconds."""

    world: Any
    watches: Watches
    listener: Listener
    rules: list[Rules]
    time: list[float]
    metrics: Metrics
    asked: int = 0
    readers: dict[tuple[int, int], BlockReader] = field(default_factory=dict)
    read: dict[tuple[int, int], int] = field(default_factory=dict)

    async def watch(self, path: str = "/", *, conn: int = 1, auth: str = "admin", **metadata: str) -> int:
        """Opens a watch that must not be refused; its stream."""
        response = await self.world.ask("WATCH", path, auth=auth, **metadata)
        assert response.status == "ok", response
        refusal = self.open(path, response, conn=conn, auth=auth, **metadata)
        assert refusal is None
        return self.asked

    def open(self, path: str, response: Response, *, conn: int = 1, **metadata: str) -> Response | None:
        """Opens the stream behind an acknowledgement."""
        self.asked += 1
        keys = {"auth": "admin", **metadata}
        return self.watches.open(conn, self.asked, Request(Verb.WATCH, path, keys), response)

    def blocks(self, stream: int, *, conn: int = 1) -> list[Block]:
        """What came since the last call."""
        key = (conn, stream)
        reader = self.readers.setdefault(key, BlockReader())
        start = self.read.get(key, 0)
        self.read[key] = len(self.listener.streams[key])
        return list(reader.feed(self.listener.streams[key][start:]))

    async def told(self, stream: int, *, conn: int = 1, blocks: int = 1) -> list[Block]:
        """What comes on a stream, once that are so many blocks."""
        seen: list[Block] = []
        async with asyncio.timeout(DEADLINE):
            while len(seen) < blocks:
                await asyncio.sleep(0)
                seen += self.blocks(stream, conn=conn)
        return seen

    async def settled(self) -> None:
        """Everybody had a turn, and then another few: what is told by now is all that is told."""
        for _ in range(50):
            await asyncio.sleep(0)

    async def pass_time(self, seconds: float) -> None:
        """Lets time pass for the watches, as their own look at what is due would meet it."""
        self.time[0] += seconds
        self.watches.tick()
        await self.settled()


@pytest.fixture
async def watched(a_world: Callable[..., Any]) -> Any:
    """Makes watched worlds: `await watched(...)`, arguments as for `a_world`."""
    running: list[tuple[Watches, asyncio.Task[None]]] = []

    async def make(*, per_connection: int = 5, most: int = 1024, world: Any = None, **options: Any) -> Watched:
        world = world or await a_world(**options)
        the_rules, time, listener, metrics = [world.rules], [100.0], Listener(), Metrics()
        watches = Watches(
            engine=world.engine,
            rules=lambda: the_rules[0],
            compatible=world.compatible,
            per_connection=per_connection,
            most=lambda: most,
            metrics=metrics,
            clock=lambda: time[0],
            now=lambda: world.clock[0] / 1000,
        )
        watches.answer_through(listener)  # type: ignore[arg-type]
        running.append((watches, asyncio.create_task(watches.run())))
        return Watched(world, watches, listener, the_rules, time, metrics)

    yield make
    for watches, task in running:
        watches.close()
        await watches.finish()
        task.cancel()
        await asyncio.wait([task])


class TestRequest:
    async def test_the_acknowledgement_says_where_the_world_is(self, a_world: Callable[..., Any]) -> None:
        world = await a_world()
        assert await world.ask("WATCH", "/") == Response("ok", {"cursor": at(0)})
        await world.publish("/a.md")
        first_block = encode_response(await world.ask("WATCH", "/nowhere/"))
        assert first_block == f"---\ncursor: {at(1)}\nstatus: ok\n---\n".encode()

    async def test_a_cursor_that_can_be_resumed_from_is_acknowledged(self, a_world: Callable[..., Any]) -> None:
        world = await a_world()
        await world.publish("/a.md")
        for since in (at(0), at(1)):
            assert await world.ask("WATCH", "/", since=since) == Response("ok", {"cursor": since})

    @pytest.mark.parametrize("since", [at(2), "0" * 12 + ":0", "other:1", at(2**64 - 1)])
    async def test_a_cursor_of_another_epoch_or_of_the_future_is_a_resync(
        self, a_world: Callable[..., Any], since: str
    ) -> None:
        world = await a_world()
        await world.publish("/a.md")
        assert await world.ask("WATCH", "/", since=since) == Response("resync", {"cursor": at(1)})

    async def test_a_cursor_from_before_what_is_retained_is_a_resync(
        self, a_world: Callable[..., Any], monkeypatch: pytest.MonkeyPatch
    ) -> None:
        monkeypatch.setattr(feed, "RETAINED", 2)
        world = await a_world()
        for name in "abc":
            await world.publish(f"/{name}.md")
        assert (await world.ask("WATCH", "/", since=at(1))).status == "ok"
        assert await world.ask("WATCH", "/", since=at(0)) == Response("resync", {"cursor": at(3)})

    @pytest.mark.parametrize(
        ("path", "metadata", "text"),
        [
            ("/sha256-" + "0" * 64, {}, "paths matching /sha256-<hash> are reserved"),
            ("/", {"since": "x"}, "invalid since cursor"),
            ("/", {"since": "a:01"}, "invalid since cursor"),
            ("/", {"coalesce": "all"}, 'coalesce must be "path", got "all"'),
            ("/", {"since": "x", "coalesce": "all"}, "invalid since cursor"),
        ],
    )
    async def test_parameters_are_checked_before_the_right(
        self, a_world: Callable[..., Any], path: str, metadata: dict[str, str], text: str
    ) -> None:
        world = await a_world(reads="universe")
        response = await world.ask("WATCH", path, auth="", **metadata)
        assert (response.status, message(response)) == ("bad-request", text)

    async def test_what_is_protected_needs_the_right_whether_it_exists_or_not(
        self, a_world: Callable[..., Any]
    ) -> None:
        tokens = (("admin", "/**", ("publish",)), ("vault", "/vault/**", ("read",)), ("one", "/one.md", ("read",)))
        world = await a_world(tokens=tokens)
        await world.publish("/vault/a.md")
        for path in ("/vault/", "/vault", "/vault/a.md", "/vault/none/"):
            assert (await world.ask("WATCH", path, auth="")).status == "unauthorized"
            assert (await world.ask("WATCH", path, auth="one")).status == "not-permitted"
            assert (await world.ask("WATCH", path, auth="vault")).status == "ok"
        assert (await world.ask("WATCH", "/", auth="")).status == "ok"

    @pytest.mark.parametrize("reads", ["universe", "scoped"])
    async def test_a_caller_watches_what_is_on_the_way_to_what_it_may_read(
        self, a_world: Callable[..., Any], reads: str
    ) -> None:
        world = await a_world(reads=reads, tokens=(("team", "/teams/a/**", ("read",)),))
        for path, status in {
            "/": "ok",
            "/teams/": "ok",
            "/teams/a/": "ok",
            "/teams": "not-permitted",
            "/teams/b/": "not-permitted",
            "/other/": "not-permitted",
        }.items():
            assert (await world.ask("WATCH", path, auth="team")).status == status
            assert (await world.ask("WATCH", path, auth="")).status == "unauthorized"


class TestChanges:
    async def test_each_kind_of_change_is_told(self, watched: Any) -> None:
        it = await watched()
        stream = await it.watch("/notes/")
        assert await it.told(stream) == [Control("ok", at(0))]
        path = "/notes/tea.md"
        await it.world.publish(path, b"# Tea\n", agent="kettle", user="ada")
        await it.world.ask("APPEND", path, b"more\n", expected_version="1", agent="pot")
        await it.world.ask("ARCHIVE", path)
        await it.world.ask("PUBLISH", path)
        told = await it.told(stream, blocks=4)
        etag = (await it.world.ask("FETCH", path)).metadata["content-hash"]
        first = (await it.world.ask("FETCH", path + "/v1")).metadata["content-hash"]
        who = {"by": "label-admin", "credential": "token", "path": path}
        assert told == [
            Change(cursor=at(1), version=1, op="publish", hash=first, agent="kettle", user="ada", **who),
            Change(cursor=at(2), version=2, op="append", hash=etag, agent="pot", user="ada", **who),
            Change(cursor=at(3), version=2, op="archive", hash=etag, **who),
            Change(cursor=at(4), version=2, op="publish", hash=etag, **who),
        ]

    async def test_a_compatible_world_does_not_tell_who_was_authorised(self, watched: Any) -> None:
        it = await watched(compatible=True)
        stream = await it.watch("/", auth="admin")
        await it.world.publish("/a.md")
        [_, change] = await it.told(stream, blocks=2)
        assert (change.by, change.credential) == (None, None)

    async def test_what_changes_nothing_is_not_told(self, watched: Any) -> None:
        it = await watched()
        await it.world.publish("/a.md")
        stream = await it.watch("/")
        await it.world.publish("/a.md")
        await it.world.ask("PUBLISH", "/a.md")
        await it.world.ask("ARCHIVE", "/a.md")
        await it.world.ask("ARCHIVE", "/a.md")
        await it.world.publish("/b.md")
        told = await it.told(stream, blocks=3)
        assert [getattr(block, "op", block) for block in told] == [Control("ok", at(1)), "archive", "publish"]

    @pytest.mark.parametrize(
        ("scope", "paths"),
        [
            ("/", ["/doc.md", "/docs/a.md", "/docs/deep/b.md", "/docsx/c.md"]),
            ("/docs/", ["/docs/a.md", "/docs/deep/b.md"]),
            ("//docs/./", ["/docs/a.md", "/docs/deep/b.md"]),
            ("/docs", []),
            ("/docs/a.md", ["/docs/a.md"]),
            ("/docs/a.md/", []),
        ],
    )
    async def test_c_44_a_scope_is_a_document_or_a_subtree(self, watched: Any, scope: str, paths: list[str]) -> None:
        it = await watched()
        stream = await it.watch(scope)
        for path in ("/doc.md", "/docs/a.md", "/docs/deep/b.md", "/docsx/c.md"):
            await it.world.publish(path)
        await it.settled()
        assert [block.path for block in it.blocks(stream)[1:]] == paths

    async def test_rows_that_may_not_be_read_are_left_out_and_count_in_the_cursor(self, watched: Any) -> None:
        it = await watched(tokens=(("admin", "/**", ("publish",)), ("vault", "/vault/**", ("read",))))
        stream, other = await it.watch("/"), await it.watch("/", auth="vault")
        await it.world.publish("/vault/a.md")
        await it.world.publish("/b.md")
        assert [block.cursor for block in await it.told(stream, blocks=2)] == [at(0), at(2)]
        assert [block.cursor for block in await it.told(other, blocks=3)] == [at(0), at(1), at(2)]

    async def test_c_28_a_change_that_fits_no_block_is_skipped_and_the_stream_goes_on(self, watched: Any) -> None:
        it = await watched()
        stream = await it.watch("/")
        long = Write(op="publish", path="/a.md", body=b"x", by="b" * 9000, credential="local")
        await it.world.engine.write(long)
        await it.world.publish("/b.md", agent="k" * 900)
        [_, change] = await it.told(stream, blocks=2)
        assert (change.path, change.cursor, change.agent) == ("/b.md", at(2), "k" * 900)

    async def test_coalescing_keeps_the_newest_of_each_path_in_order(self, watched: Any) -> None:
        it = await watched()
        for path in ("/a.md", "/b.md", "/a.md", "/c.md", "/b.md"):
            await it.world.publish(path, f"{it.world.clock[0]}".encode())
        plain, coalesced = await it.watch("/", since=at(0)), await it.watch("/", since=at(0), coalesce="path")
        assert len(await it.told(plain, blocks=6)) == 6
        await it.settled()
        assert [(block.path, block.cursor) for block in it.blocks(coalesced)[1:]] == [
            ("/a.md", at(3)),
            ("/c.md", at(4)),
            ("/b.md", at(5)),
        ]

    async def test_c_42_what_another_process_appended_is_an_append(self, watched: Any, a_world: Any) -> None:
        here = await watched()
        other = await Engine.open(
            Shared(here.world.blobs),
            here.world.engine.identity,
            now=lambda: here.world.clock[0],
            random=random.Random(11).randbytes,
        )
        there = await watched(world=replace(here.world, engine=other))
        stream = await there.watch("/")
        await here.world.publish("/a.md", b"a", agent="kettle")
        await here.world.ask("APPEND", "/a.md", b"b", expected_version="1")
        await other.view(exact=True)
        [_, first, second] = await there.told(stream, blocks=3)
        assert [(first.op, first.agent), (second.op, second.version)] == [("publish", "kettle"), ("append", 2)]
        there.watches.close()
        await other.close()


class Shared(MemoryBlobs):
    """The same blobs, as a process sees them that is not the only writer."""

    exclusive = False

    def __init__(self, blobs: MemoryBlobs) -> None:
        self.__dict__ = blobs.__dict__


class TestResume:
    async def test_what_was_missed_is_told_before_what_is_new(self, watched: Any) -> None:
        it = await watched()
        for name in "abc":
            await it.world.publish(f"/{name}.md", agent=name)
        stream = await it.watch("/", since=at(1))
        await it.world.publish("/d.md", agent="d")
        told = await it.told(stream, blocks=4)
        assert [block.cursor for block in told] == [at(1), at(2), at(3), at(4)]
        assert [block.agent for block in told[1:]] == ["b", "c", "d"]

    async def test_the_log_is_read_again_for_what_is_no_longer_at_hand(
        self, watched: Any, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        monkeypatch.setattr(log, "RECENT", 4)
        it = await watched()
        for number in range(70):
            await it.world.publish("/a.md", f"{number}".encode(), agent=f"{number}")
        assert it.world.engine.recent(0) is None
        stream = await it.watch("/", since=at(3))
        told = await it.told(stream, blocks=68)
        assert [block.cursor for block in told] == [at(number) for number in range(3, 71)]
        assert [block.agent for block in told[1:]] == [f"{number}" for number in range(3, 70)]

    async def test_a_watch_resumes_at_a_process_that_was_started_anew(self, watched: Any) -> None:
        it = await watched()
        for number in range(3):
            await it.world.publish(f"/{number}.md", agent=f"{number}")
        await it.world.ask("ARCHIVE", "/1.md")
        again = await watched(world=await it.world.reopened())
        stream = await again.watch("/", since=at(1))
        told = await again.told(stream, blocks=4)
        assert [(block.cursor, block.op, block.agent) for block in told[1:]] == [
            (at(2), "publish", "1"),
            (at(3), "publish", "2"),
            (at(4), "archive", None),
        ]
        again.watches.close()
        await again.world.engine.close()

    async def test_a_version_that_was_pruned_meanwhile_is_told_without_what_it_said(self, watched: Any) -> None:
        it = await watched(compatible=True)
        await it.world.publish("/a.md", b"1", agent="kettle")
        await it.world.publish("/a.md", b"2", agent="pot", retention="1")
        stream = await it.watch("/", since=at(0))
        [_, first, second] = await it.told(stream, blocks=3)
        assert (first.version, first.agent, second.version, second.agent) == (1, None, 2, "pot")
        assert first.hash is not None

    async def test_c_31_whom_the_log_has_left_behind_gets_a_resync(
        self, watched: Any, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        it = await watched()
        stream = await it.watch("/")
        await it.told(stream)
        it.listener.waiting = streams.STALLED + 1
        await it.world.publish("/a.md")
        await it.told(stream)  # now its line is full
        monkeypatch.setattr(feed, "RETAINED", 2)
        for name in "bcdef":
            await it.world.publish(f"/{name}.md")
        await it.settled()
        it.listener.waiting = 0
        it.watches.writable(1, stream)
        told = await it.told(stream)
        assert told[-1] == Control("resync", at(6))
        assert (1, stream) in it.listener.ended
        assert len(it.watches) == 0

    async def test_a_store_that_does_not_answer_delays_and_ends_nothing(
        self, watched: Any, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        it = await watched()
        stream = await it.watch("/")
        await it.told(stream)

        async def fail(**_: Any) -> None:
            raise Unavailable("no answer")

        with monkeypatch.context() as context:
            context.setattr(it.world.engine, "view", fail)
            await it.world.engine.write(Write(op="publish", path="/a.md", body=b"x", by="b", credential="local"))
            await it.settled()
            assert it.blocks(stream) == []
        await it.pass_time(1)
        assert [block.cursor for block in it.blocks(stream)] == [at(1)]


class TestBackPressure:
    async def test_nothing_is_added_to_a_full_line_until_it_has_room(self, watched: Any) -> None:
        it = await watched()
        stream, other = await it.watch("/"), await it.watch("/", conn=2)
        await it.told(stream)
        it.listener.waiting = streams.STALLED + 1
        await it.world.publish("/a.md")
        await it.told(stream)
        it.listener.waiting = 0
        for name in "bcd":
            await it.world.publish(f"/{name}.md")
        await it.pass_time(30)
        assert it.blocks(stream) == []
        it.watches.writable(1, stream)
        assert [block.cursor for block in await it.told(stream, blocks=3)] == [at(2), at(3), at(4)]
        it.watches.writable(2, other)
        assert len(await it.told(other, conn=2, blocks=5)) == 5

    async def test_a_watch_whose_line_is_full_is_ended_all_the_same(self, watched: Any) -> None:
        it = await watched()
        it.listener.waiting = streams.STALLED + 1
        stream = await it.watch("/")
        await it.world.publish("/a.md")
        await it.settled()
        it.watches.close()
        assert it.blocks(stream)[-1] == Control("closing", at(0))


class TestHeartbeats:
    async def test_a_heartbeat_comes_when_nothing_was_written_for_twenty_seconds(self, watched: Any) -> None:
        it = await watched(tokens=(("admin", "/**", ("publish",)), ("vault", "/vault/**", ("read",))))
        stream = await it.watch("/")
        await it.told(stream)
        await it.pass_time(19)
        assert it.blocks(stream) == []
        await it.world.publish("/vault/a.md")
        await it.pass_time(1)
        assert it.blocks(stream) == [Control("ok", at(1))]
        await it.pass_time(10)
        await it.world.publish("/b.md")
        await it.told(stream)
        await it.pass_time(19)
        assert it.blocks(stream) == []
        await it.pass_time(1)
        assert it.blocks(stream) == [Control("ok", at(2))]
        await it.pass_time(20)
        assert it.blocks(stream) == [Control("ok", at(2))]


class TestCredentials:
    async def test_a_watch_ends_when_a_reload_takes_the_right_away(self, watched: Any) -> None:
        tokens = (("admin", "/**", ("publish",)), ("team", "/a/**", ("read",)), ("rest", "/b/**", ("read",)))
        it = await watched(reads="scoped", tokens=tokens)
        closing, staying = await it.watch("/a/", auth="team"), await it.watch("/b/", auth="rest")
        withdrawn = await it.watch("/a/", auth="team")
        await it.told(withdrawn)
        moved = (("admin", "/**", ("publish",)), ("team", "/c/**", ("read",)), ("rest", "/b/**", ("read",)))
        it.rules[0] = it.world.with_rules(reads="scoped", tokens=moved).rules
        await it.pass_time(1)
        assert it.blocks(closing)[-1] == Control("not-permitted", at(0))
        it.rules[0] = it.world.with_rules(reads="scoped", tokens=(tokens[0], tokens[2])).rules
        await it.world.publish("/b/x.md")
        assert len(await it.told(staying, blocks=2)) == 2
        assert it.listener.ended == {(1, closing), (1, withdrawn)}

    async def test_nothing_is_told_to_a_credential_that_has_been_withdrawn(self, watched: Any) -> None:
        it = await watched(reads="scoped", tokens=(("admin", "/**", ("publish",)), ("team", "/a/**", ("read",))))
        stream = await it.watch("/a/", auth="team")
        await it.told(stream)
        it.rules[0] = it.world.with_rules(reads="scoped", tokens=(("admin", "/**", ("publish",)),)).rules
        await it.world.publish("/a/x.md")
        assert await it.told(stream) == [Control("unauthorized", at(0))]

    async def test_a_grant_that_expires_ends_its_watch(self, watched: Any, a_grant: Callable[..., str]) -> None:
        it = await watched(reads="scoped", tokens=None, grants=True)
        stream = await it.watch("/", auth=a_grant(("read", "/a/**")))
        await it.pass_time(20)
        assert [block.status for block in it.blocks(stream)] == ["ok", "ok"]
        it.world.clock[0] += 301_000
        await it.pass_time(20)
        assert it.blocks(stream) == [Control("unauthorized", at(0))]

    async def test_a_caller_of_a_part_is_told_of_that_part(self, watched: Any) -> None:
        it = await watched(reads="universe", tokens=(("admin", "/**", ("publish",)), ("team", "/t/a/**", ("read",))))
        stream = await it.watch("/", auth="team")
        for path in ("/x.md", "/t/a/1.md", "/t/b/2.md", "/t/a/3.md"):
            await it.world.publish(path)
        assert [block.path for block in (await it.told(stream, blocks=3))[1:]] == ["/t/a/1.md", "/t/a/3.md"]


class TestBounds:
    async def test_a_40_a_connection_has_so_many_watches_and_not_more(self, watched: Any) -> None:
        it = await watched(per_connection=2)
        first = await it.watch("/")
        await it.watch("/")
        ack = await it.world.ask("WATCH", "/")
        assert it.open("/", ack) == Response("rate-limited")
        await it.watch("/", conn=2)
        it.watches.stopped(1, first)
        await it.watch("/")
        assert len(it.watches) == 3
        it.watches.closed(1)
        assert len(it.watches) == 1
        assert it.open("/", ack) is None

    async def test_a_world_has_so_many_watches_and_not_more(self, watched: Any) -> None:
        it = await watched(most=2)
        for conn in (1, 2):
            await it.watch("/", conn=conn)
        ack = await it.world.ask("WATCH", "/")
        for conn in range(3, 100):
            assert it.open("/", ack, conn=conn) == Response("rate-limited")
        assert it.metrics.registry.get_sample_value("demarkus_world_watches") == 2

    async def test_a_connection_that_has_ended_meanwhile_has_no_watch(self, watched: Any) -> None:
        it = await watched()
        it.listener.gone.add(1)
        ack = await it.world.ask("WATCH", "/")
        assert it.open("/", ack) is None
        assert len(it.watches) == 0


class TestEnds:
    async def test_c_30_closing_ends_every_watch_and_nobody_begins_another(self, watched: Any) -> None:
        it = await watched()
        one, two = await it.watch("/"), await it.watch("/a.md", conn=2)
        await it.told(one)
        ack = await it.world.ask("WATCH", "/")
        it.watches.close()
        await it.watches.finish()
        assert it.blocks(one) == [Control("closing", at(0))]
        assert it.blocks(two, conn=2)[-1] == Control("closing", at(0))
        assert it.open("/", ack) == Response("closing", {"cursor": at(0)})

    async def test_a_bug_costs_one_watch(
        self, watched: Any, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
    ) -> None:
        it = await watched()
        stream, other = await it.watch("/a/"), await it.watch("/b/")
        await it.told(stream)
        covers = streams.Scope.covers
        monkeypatch.setattr(
            streams.Scope, "covers", lambda scope, path: 1 / 0 if scope.path == "/a" else covers(scope, path)
        )
        await it.world.publish("/b/x.md")
        assert await it.told(stream) == [Control("server-error", at(0))]
        assert len(await it.told(other, blocks=2)) == 2
        assert "a watch failed" in caplog.text


def test_a_cursor_holds_the_incarnation() -> None:
    assert str(feed.cursor_at(Identity("0a" * 16, "1b" * 16), 7)) == at(7)
