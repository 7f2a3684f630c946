"""The open streams of WATCH: told what happens, kept alive, ended (Mark protocol 10.2, 10.4).

A watch is its place in the log. One task writes it: whenever the log grows, a heartbeat is due, the rules are others,
or the transport has room again, it tells what is behind its place. What its reader does not take stays in the log, so
a slow reader costs no memory; one that falls too far behind gets `resync`. The credential is looked at before
everything that is told.
"""

from __future__ import annotations

import asyncio
import logging
import time
from collections import defaultdict
from collections.abc import Callable
from contextlib import aclosing
from dataclasses import dataclass, field

from demarkus_world.authority import Credential, Rules
from demarkus_world.changes import Feed, Lapsed, Page
from demarkus_world.engine.engine import Engine, EngineError
from demarkus_world.metrics import Metrics
from demarkus_world.verbs.watch import Scope, scope_of
from mark_protocol.changes import COALESCE, HEARTBEAT, Control, encode_control, parse_cursor
from mark_protocol.metadata import AUTH
from mark_protocol.request import Request
from mark_protocol.response import Response, encode_head
from mark_protocol.status import Status
from mark_protocol.transport.port import Limits, Listener

logger = logging.getLogger(__name__)

LOOK = 1.0
"""Seconds between two looks at what is due, and at what others may have written."""

STALLED = Limits().stream_window // 2
"""Bytes in line on a stream above which nothing is added until the transport says that it has room again."""


@dataclass(slots=True, eq=False)
class _Watch:
    """One stream. `position` is the entry up to which its reader knows everything."""

    conn: int
    stream: int
    path: str
    scope: Scope
    coalesce: bool
    auth: str = field(repr=False)
    """What it presented: a credential may expire, or be withdrawn, while it is watched."""
    position: int
    rules: Rules
    opened: float
    written: float
    """When a block was last written; monotonic seconds, as all times here but `now`."""
    checked: float
    credential: Credential | None = None
    told: int = 0
    wake: asyncio.Event = field(default_factory=asyncio.Event)
    room: asyncio.Event = field(default_factory=asyncio.Event)
    task: asyncio.Task[None] | None = None


class Watches:
    """The watches of one world. `run` has to be running, `close` ends them all.

    Args:
        rules: the rule set of now.
        per_connection: watches that one connection may have open.
        most: the same for the world.
        clock: monotonic seconds; now: seconds since 1970.
    """

    def __init__(
        self,
        *,
        engine: Engine,
        rules: Callable[[], Rules],
        compatible: bool,
        per_connection: int,
        most: Callable[[], int],
        metrics: Metrics,
        clock: Callable[[], float] = time.monotonic,
        now: Callable[[], float] = time.time,
    ) -> None:
        self._engine = engine
        self._feed = Feed(engine, compatible=compatible)
        self._rules = rules
        self._per_connection = per_connection
        self._most = most
        self._metrics = metrics
        self._clock = clock
        self._now = now
        self._listener: Listener | None = None
        self._open: dict[tuple[int, int], _Watch] = {}
        self._counts: defaultdict[int, int] = defaultdict(int)
        self._tasks: set[asyncio.Task[None]] = set()
        self._closing = False

    def answer_through(self, listener: Listener) -> None:
        """Names the listener that takes the blocks, before the first watch."""
        self._listener = listener

    def __len__(self) -> int:
        return len(self._open)

    # What the service calls

    def open(self, conn: int, stream: int, request: Request, acknowledgement: Response) -> Response | None:
        """Begin a watch with its first block; the response that refuses it, if there is no room for one."""
        if self._closing:
            return Response(Status.CLOSING, acknowledgement.metadata)
        if self._counts[conn] >= self._per_connection or len(self._open) >= self._most():
            self._forget_count(conn)
            return Response(Status.RATE_LIMITED)
        begin = parse_cursor(acknowledgement.metadata["cursor"])
        assert begin is not None, "an acknowledgement has a cursor"
        at = self._clock()
        watch = _Watch(
            conn=conn,
            stream=stream,
            path=request.path,
            scope=scope_of(request.path),
            coalesce=bool(request.metadata.get(COALESCE)),
            auth=request.metadata.get(AUTH, ""),
            position=begin.sequence,
            rules=self._rules(),
            opened=at,
            written=at,
            checked=at,
        )
        watch.room.set()
        watch.wake.set()
        self._open[conn, stream] = watch
        self._counts[conn] += 1
        self._metrics.watches.set(len(self._open))
        self._write(watch, [encode_head(acknowledgement)])
        if (conn, stream) in self._open:
            watch.task = asyncio.get_running_loop().create_task(self._tell(watch), name=f"watch {request.path}")
            self._tasks.add(watch.task)
            watch.task.add_done_callback(self._tasks.discard)
        return None

    def stopped(self, conn: int, stream: int) -> None:
        """The reader is gone."""
        watch = self._open.get((conn, stream))
        if watch is not None:
            self._drop(watch, "stopped by its reader")

    def writable(self, conn: int, stream: int) -> None:
        """The transport has room again."""
        watch = self._open.get((conn, stream))
        if watch is not None:
            watch.room.set()

    def closed(self, conn: int) -> None:
        """The connection is gone."""
        if conn in self._counts:
            for watch in [watch for watch in self._open.values() if watch.conn == conn]:
                self._drop(watch, "connection ended")

    def close(self) -> None:
        """End every watch with `closing`; who comes later gets the same."""
        self._closing = True
        for watch in list(self._open.values()):
            self._end(watch, Status.CLOSING)

    async def finish(self) -> None:
        """Wait until nothing is under way any more."""
        while self._tasks:
            await asyncio.wait(self._tasks)

    # What is due

    async def run(self) -> None:
        """See to it that everybody is told in time; for ever."""
        async with asyncio.TaskGroup() as group:
            group.create_task(self._follow())
            group.create_task(self._look())

    async def _follow(self) -> None:
        while True:
            head = self._feed.head
            for watch in self._open.values():
                watch.wake.set()
            await self._engine.grown(head)

    async def _look(self) -> None:
        while True:
            await asyncio.sleep(LOOK)
            self.tick()
            if self._open:
                try:
                    await self._engine.view(exact=False)  # what other processes wrote is met here
                except EngineError as error:
                    logger.debug("the log can't be followed right now: %s", error)

    def tick(self) -> None:
        """Wake whoever has something to do: a heartbeat, a look at its credential, something still to tell."""
        at = self._clock()
        rules = self._rules()
        for watch in self._open.values():
            due = at - min(watch.written, watch.checked) >= HEARTBEAT
            if due or watch.rules is not rules or watch.position < self._feed.head:
                watch.wake.set()

    # One watch

    async def _tell(self, watch: _Watch) -> None:
        try:
            while True:
                await watch.wake.wait()
                watch.wake.clear()
                try:
                    await self._advance(watch)
                except Lapsed:
                    watch.position = self._feed.head
                    self._end(watch, Status.RESYNC)
                except EngineError as error:
                    logger.warning("a watch can't be told yet: %s", error, extra={"fields": {"path": watch.path}})
        except Exception:
            # A bug costs this watch, whose reader opens another one; it must not be silent for ever.
            logger.exception("a watch failed", extra={"fields": {"path": watch.path}})
            self._end(watch, Status.SERVER_ERROR)

    async def _advance(self, watch: _Watch) -> None:
        """Tell what is behind the watch's place; then a heartbeat, if there was nothing to tell for so long."""
        if not self._permitted(watch):
            return
        async with aclosing(self._feed.pages(watch.position)) as pages:
            async for page in pages:
                await watch.room.wait()
                if not self._permitted(watch):
                    return
                blocks = self._blocks(watch, page)
                watch.position = page.upto
                watch.told += len(blocks)
                if blocks:
                    self._write(watch, blocks)
        if self._clock() - watch.written >= HEARTBEAT and watch.room.is_set():
            self._write(watch, [encode_control(Control(Status.OK, self._feed.cursor(watch.position)))])

    def _permitted(self, watch: _Watch) -> bool:
        """Whether its reader may see the scope, by the rules and the time of now; if not it has ended."""
        watch.rules = self._rules()
        watch.checked = self._clock()
        watch.credential = watch.rules.identify(watch.auth, now=self._now()).credential
        denial = watch.scope.denial(watch.rules, watch.credential)
        if denial is not None:
            self._end(watch, denial.status)
        return denial is None

    def _blocks(self, watch: _Watch, page: Page) -> list[bytes]:
        seen = [
            told
            for told in page.told
            if watch.scope.covers(told.path) and watch.rules.read(watch.credential, told.path) is None
        ]
        if not watch.coalesce:
            return [told.block for told in seen]
        newest = {told.path: told for told in seen}
        return [told.block for told in seen if newest[told.path] is told]

    def _write(self, watch: _Watch, blocks: list[bytes], *, fin: bool = False) -> None:
        assert self._listener is not None, "answer_through comes first"
        waiting = self._listener.send(watch.conn, watch.stream, *blocks, fin=fin)
        self._listener.flush()
        watch.written = self._clock()
        if waiting < 0:
            self._drop(watch, "connection ended")
        elif waiting > STALLED:
            watch.room.clear()

    def _end(self, watch: _Watch, status: Status) -> None:
        """Write the last block."""
        if (watch.conn, watch.stream) in self._open:
            last = encode_control(Control(status, self._feed.cursor(watch.position)))
            self._write(watch, [last], fin=True)
            self._drop(watch, status)

    def _drop(self, watch: _Watch, why: str) -> None:
        if self._open.pop((watch.conn, watch.stream), None) is None:
            return
        self._counts[watch.conn] -= 1
        self._forget_count(watch.conn)
        self._metrics.watches.set(len(self._open))
        if watch.task is not None:
            watch.task.cancel()  # also where it is the task itself that says so: it ends at its next wait
        fields = {"path": watch.path, "reason": why, "told": watch.told, "seconds": round(self._clock() - watch.opened)}
        logger.info("watch ended", extra={"fields": fields})

    def _forget_count(self, conn: int) -> None:
        if not self._counts[conn]:
            del self._counts[conn]
