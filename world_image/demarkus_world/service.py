"""The requests of a world, between transport and verbs: each is admitted, answered once and logged with one line.

This is the transport's handler. What can be answered at once (small reads of what is in memory) is, in the very batch
in which it came; for every other request it owns a task, and `finish` awaits them. The rule set is taken when a request
arrives and stays the same until it is answered.
"""

from __future__ import annotations

import asyncio
import logging
import time
from collections.abc import Callable
from dataclasses import dataclass

from demarkus_world.admission import Admission, Refusal, caller_of
from demarkus_world.authority import Rules
from demarkus_world.engine.engine import Engine
from demarkus_world.metrics import Metrics
from demarkus_world.verbs.answers import Answers
from demarkus_world.verbs.call import Call
from demarkus_world.verbs.table import Answer, answer, answer_at_once
from demarkus_world.watches import Watches
from mark_protocol.metadata import AUTH
from mark_protocol.paths import clean
from mark_protocol.request import RequestError, Verb, parse_request
from mark_protocol.response import Response, encode_head
from mark_protocol.status import COULD_NOT_READ_REQUEST, INTERNAL_ERROR, Status
from mark_protocol.transport.port import Address, FailureReason, Limits, Listener

logger = logging.getLogger(__name__)

RATE_LIMITED = Answer(Response(Status.RATE_LIMITED))
INTERNAL = Answer(Response.error(Status.SERVER_ERROR, INTERNAL_ERROR))

MAX_WATCHES = 1024
"""Watches that a world has open at once (Mark protocol 1.2)."""


@dataclass(slots=True, kw_only=True)
class _Exchange:
    """One request, from its arrival to its answer, and what the log says about it: never a credential.

    `call` is None for what is no request, and then `answer` is there from the start. `problem` says why a credential
    was none, or which bound was met.
    """

    conn: int
    stream: int
    started: float
    call: Call | None = None
    answer: Answer | None = None
    problem: str = ""


class Service:
    """Answers whole requests. `rules` and `request_timeout` (seconds) are asked for anew with every request.

    A WATCH is answered when it has been opened; its stream goes on among the `watches`, which are this service's own.
    """

    def __init__(
        self,
        *,
        engine: Engine,
        admission: Admission,
        rules: Callable[[], Rules],
        request_timeout: Callable[[], float],
        compatible: bool,
        ignore_retention: Callable[[], bool] = lambda: False,
        metrics: Metrics,
        max_streams: int = Limits().max_streams,
        max_watches: Callable[[], int] = lambda: MAX_WATCHES,
        clock: Callable[[], float] = time.time,
    ) -> None:
        self._engine = engine
        self._admission = admission
        self._rules = rules
        self._request_timeout = request_timeout
        self._compatible = compatible
        self._ignore_retention = ignore_retention
        self._metrics = metrics
        self._clock = clock
        self.watches = Watches(
            engine=engine,
            rules=rules,
            compatible=compatible,
            per_connection=max(1, max_streams // 2),
            most=max_watches,
            metrics=metrics,
            now=clock,
        )
        self._answers = Answers()
        self._hosts: dict[int, str] = {}
        self._tasks: set[asyncio.Task[None]] = set()
        self._listener: Listener | None = None

    def answer_through(self, listener: Listener) -> None:
        """Names the listener that takes the answers, before the first request."""
        self._listener = listener
        self.watches.answer_through(listener)

    async def finish(self) -> None:
        """Waits for the requests under way, and for watches that have been ended."""
        while self._tasks:
            await asyncio.wait(self._tasks)
        await self.watches.finish()

    # What the transport calls

    def opened(self, conn: int, peer: Address, server_name: str | None) -> None:
        """See `Handler.opened`. A world answers under any server name (Mark protocol 1.3)."""
        self._hosts[conn] = peer.host

    def request(self, conn: int, stream: int, data: bytes) -> None:
        """See `Handler.request`."""
        exchange = _Exchange(conn=conn, stream=stream, started=time.monotonic())
        try:
            caller = self._understand(exchange, data)
            wait = self._admission.enter(caller, patience=self._request_timeout())
        except Refusal as refusal:
            exchange.problem = str(refusal)
            self._end(exchange, RATE_LIMITED)
            return
        except Exception as bug:
            self._end(exchange, INTERNAL, bug=bug)
            return
        answered = True
        try:
            answered = wait == 0 and self._answer_at_once(exchange)
        finally:
            if answered:
                self._admission.leave()
        if answered:
            return
        task = asyncio.get_running_loop().create_task(self._serve(exchange, wait))
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)

    def failed(self, conn: int, stream: int, reason: FailureReason) -> None:
        """See `Handler.failed`."""
        exchange = _Exchange(
            conn=conn, stream=stream, started=time.monotonic(), problem=f"request is not whole: {reason}"
        )
        self._end(exchange, Answer(Response.error(Status.SERVER_ERROR, COULD_NOT_READ_REQUEST)))

    def stopped(self, conn: int, stream: int) -> None:
        """See `Handler.stopped`. Nothing but a watch outlives its answer."""
        self.watches.stopped(conn, stream)

    def writable(self, conn: int, stream: int) -> None:
        """See `Handler.writable`. Answers are queued whole, but for those of watches."""
        self.watches.writable(conn, stream)

    def closed(self, conn: int, code: int, reason: str) -> None:
        """See `Handler.closed`."""
        self._hosts.pop(conn, None)
        self.watches.closed(conn)

    # One request

    def _understand(self, exchange: _Exchange, data: bytes) -> str:
        """Parse a request and look at its credential; the caller under whose name it counts."""
        rules, host = self._rules(), self._hosts[exchange.conn]
        try:
            request = parse_request(data)
        except RequestError as error:
            exchange.answer = Answer(Response.error(error.status, error.message))
            return caller_of(None, host)
        presented = rules.identify(request.metadata.get(AUTH, ""), now=self._clock())
        exchange.problem = presented.problem
        exchange.call = Call(
            request=request,
            path=clean(request.path),
            rules=rules,
            credential=presented.credential,
            engine=self._engine,
            timeout=self._request_timeout(),
            compatible=self._compatible,
            ignore_retention=self._ignore_retention(),
        )
        return caller_of(presented.credential, host)

    def _answer_at_once(self, exchange: _Exchange) -> bool:
        """Answer what takes neither a wait nor much work; whether that was so."""
        found, bug = exchange.answer, None
        if exchange.call is not None:
            try:
                found = answer_at_once(exchange.call, self._answers)
            except Exception as error:
                found, bug = INTERNAL, error
        if found is None:
            return False
        self._end(exchange, found, bug=bug)
        return True

    async def _serve(self, exchange: _Exchange, wait: float) -> None:
        bug: Exception | None = None
        try:
            answered = await self._answered(exchange, wait)
        except Refusal as refusal:
            exchange.problem = str(refusal)
            answered = RATE_LIMITED
        except Exception as error:
            # The caller gets its answer, the log the trace, and the next request its turn.
            answered, bug = INTERNAL, error
        finally:
            self._admission.leave()
        self._end(exchange, answered, bug=bug)
        # What is answered inside a call of the listener leaves with all the rest of its batch; this comes later.
        assert self._listener is not None, "answer_through comes first"
        self._listener.flush()

    async def _answered(self, exchange: _Exchange, wait: float) -> Answer:
        call = exchange.call
        async with self._admission.slot(wait, patience=self._request_timeout()):
            if call is None:
                assert exchange.answer is not None, "what is no request has its answer"
                return exchange.answer
            return await answer(call)

    def _end(self, exchange: _Exchange, answered: Answer, *, bug: Exception | None = None) -> None:
        """Give an answer to the transport and to the log. A WATCH goes on after its first block."""
        call = exchange.call
        try:
            head = encode_head(answered.response) if answered.head is None else answered.head
        except ValueError as error:
            answered, bug = INTERNAL, error
            head = encode_head(INTERNAL.response)
        response = answered.response
        watched = call is not None and call.request.verb is Verb.WATCH and response.status == Status.OK
        if watched and call is not None:
            refusal = self.watches.open(exchange.conn, exchange.stream, call.request, response)
            if refusal is not None:
                watched, response, head = False, refusal, encode_head(refusal)
        if not watched:
            assert self._listener is not None, "answer_through comes first"
            self._listener.send(exchange.conn, exchange.stream, head, response.body)
        self._tell(exchange, response, fault=answered.fault, bug=bug)

    def _tell(self, exchange: _Exchange, response: Response, *, fault: str, bug: Exception | None) -> None:
        seconds = time.monotonic() - exchange.started
        call = exchange.call
        verb, path, credential = "", "", ""
        if call is not None:
            verb, path = call.request.verb.value, call.request.path
            if call.credential is not None:
                credential = f"{call.credential.kind}:{call.credential.label}"
        self._metrics.answered(verb, response.status, seconds)
        fields = {
            "verb": verb,
            "path": path,
            "status": response.status,
            "milliseconds": round(seconds * 1000, 3),
            "credential": credential,
        }
        if exchange.problem:
            fields["problem"] = exchange.problem
        if fault:
            fields["fault"] = fault
        level = logging.ERROR if fault or bug else logging.INFO
        logger.log(level, "request", exc_info=bug, extra={"fields": fields})
