"""The requests of a world, between transport and verbs: each is admitted, answered once and logged with one line.

This is the transport's handler. It owns one task for each request under way; `finish` awaits them. The rule set is
taken when a request arrives and stays the same until it is answered.
"""

from __future__ import annotations

import asyncio
import logging
import time
from collections.abc import Callable
from dataclasses import dataclass

from demarkus_world.admission import Admission, Refusal, caller_of
from demarkus_world.authority import Presented, Rules
from demarkus_world.engine.engine import Engine
from demarkus_world.metrics import Metrics
from demarkus_world.verbs.table import answer
from demarkus_world.watches import Watches
from mark_protocol.metadata import AUTH
from mark_protocol.request import Request, RequestError, Verb, parse_request
from mark_protocol.response import Response, encode_head
from mark_protocol.status import COULD_NOT_READ_REQUEST, INTERNAL_ERROR, Status
from mark_protocol.transport.port import Address, FailureReason, Limits, Listener

logger = logging.getLogger(__name__)

RATE_LIMITED = Response(Status.RATE_LIMITED)

MAX_WATCHES = 1024
"""Watches that a world has open at once (Mark protocol 1.2)."""


@dataclass(slots=True)
class _Line:
    """What the log says about one request. Never a credential, only the label of a valid one."""

    verb: str = ""
    path: str = ""
    credential: str = ""
    problem: str = ""
    """Why a credential was none, or which bound was met."""
    fault: str = ""
    """What went wrong on our side."""


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
        # The host is looked up now: the connection may have ended before the task gets its turn.
        serving = self._serve(conn, stream, data, self._rules(), self._hosts[conn])
        task = asyncio.get_running_loop().create_task(serving)
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)

    def failed(self, conn: int, stream: int, reason: FailureReason) -> None:
        """See `Handler.failed`."""
        response = Response.error(Status.SERVER_ERROR, COULD_NOT_READ_REQUEST)
        self._send(conn, stream, encode_head(response), response.body)
        self._tell(response, _Line(problem=f"request is not whole: {reason}"), seconds=0.0)

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

    async def _serve(self, conn: int, stream: int, data: bytes, rules: Rules, host: str) -> None:
        started = time.monotonic()
        line = _Line()
        bug: Exception | None = None
        try:
            response, request = await self._respond(data, rules, host, line)
            head = encode_head(response)
            if request is not None and request.verb is Verb.WATCH and response.status == Status.OK:
                refusal = self.watches.open(conn, stream, request, response)
                if refusal is None:
                    self._tell(response, line, seconds=time.monotonic() - started)
                    return
                response, head = refusal, encode_head(refusal)
        except Exception as error:
            # The caller gets its answer, the log the trace, and the next request its turn.
            bug = error
            response = Response.error(Status.SERVER_ERROR, INTERNAL_ERROR)
            head = encode_head(response)
        self._send(conn, stream, head, response.body)
        self._tell(response, line, seconds=time.monotonic() - started, bug=bug)

    async def _respond(self, data: bytes, rules: Rules, host: str, line: _Line) -> tuple[Response, Request | None]:
        request: Request | None = None
        presented = Presented(None)
        response = RATE_LIMITED
        try:
            request = parse_request(data)
            line.verb, line.path = request.verb, request.path
            presented = rules.identify(request.metadata.get(AUTH, ""), now=self._clock())
            line.problem = presented.problem
        except RequestError as error:
            response = Response.error(error.status, error.message)
        credential = presented.credential
        if credential is not None:
            line.credential = f"{credential.kind}:{credential.label}"
        patience = self._request_timeout()
        try:
            async with self._admission.admit(caller_of(credential, host), patience=patience):
                if request is None:
                    return response, None
                answered = await answer(
                    request,
                    rules=rules,
                    credential=credential,
                    engine=self._engine,
                    timeout=patience,
                    compatible=self._compatible,
                    ignore_retention=self._ignore_retention(),
                )
        except Refusal as refusal:
            line.problem = str(refusal)
            return RATE_LIMITED, request
        line.fault = answered.fault
        return answered.response, request

    def _send(self, conn: int, stream: int, head: bytes, body: bytes) -> None:
        assert self._listener is not None, "answer_through comes first"
        self._listener.send(conn, stream, head, body)
        self._listener.flush()

    def _tell(self, response: Response, line: _Line, *, seconds: float, bug: Exception | None = None) -> None:
        self._metrics.requests.labels(line.verb, response.status).inc()
        self._metrics.seconds.labels(line.verb).observe(seconds)
        fields = {
            "verb": line.verb,
            "path": line.path,
            "status": response.status,
            "milliseconds": round(seconds * 1000, 3),
            "credential": line.credential,
        }
        extras = {"problem": line.problem, "fault": line.fault}
        fields |= {name: text for name, text in extras.items() if text}
        level = logging.ERROR if line.fault or bug else logging.INFO
        logger.log(level, "request", exc_info=bug, extra={"fields": fields})
