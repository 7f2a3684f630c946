"""Between an operator and the API server: an HTTP proxy that does to calls what networks and servers do.

It speaks plain HTTP on loopback, so it can read what passes; the operator's token goes through untouched.
"""

from __future__ import annotations

import asyncio
import json
import ssl
from collections.abc import Callable
from dataclasses import dataclass
from types import TracebackType
from typing import Any

import aiohttp
from aiohttp import web

from dev.cluster.plane import HOST, ControlPlane

DROPPED = ("Host", "Content-Length", "Transfer-Encoding", "Content-Encoding", "Accept-Encoding", "Connection")


@dataclass(frozen=True, slots=True)
class Call:
    """A call of the operator."""

    method: str
    path: str
    watch: bool

    @property
    def lease(self) -> bool:
        """Whether it is about the election."""
        return "/leases" in self.path


@dataclass(frozen=True, slots=True)
class Refusal:
    """What the API server would answer in the place of the real answer."""

    status: int
    reason: str
    retry_after: int | None = None


Fault = Callable[[Call], Refusal | None]


def none_at_all(_: Call) -> Refusal | None:
    """The calls go through."""
    return None


def once_each(*refusals: Refusal, reads: bool = True) -> Fault:
    """Every kind of call fails at its first time, by turns in these ways; those about the election don't."""
    seen: set[tuple[str, str, int]] = set()

    def fault(call: Call) -> Refusal | None:
        steps = call.path.split("/")
        kind = (call.method, steps[steps.index("namespaces") + 2] if "namespaces" in steps else call.path, len(steps))
        if kind in seen or call.lease or (call.method == "GET" and not reads):
            return None
        seen.add(kind)
        return refusals[len(seen) % len(refusals)]

    return fault


class Faulty:
    """The proxy; an async context manager.

    Attributes:
        url: where it is.
        fault: asked for each call.
        stale: answers reads of single objects with what it answered first.
        calls: all calls so far.
    """

    def __init__(self, plane: ControlPlane, *, bookmarks: float | None = None) -> None:
        """`bookmarks`: seconds after which a quiet watch gets another one, besides those of the API server."""
        self.url = ""
        self.fault: Fault = none_at_all
        self.stale = False
        self.calls: list[Call] = []
        self._plane = plane
        self._bookmarks = bookmarks
        self._first: dict[str, bytes] = {}
        self._thaw = asyncio.Event()
        self._thaw.set()
        self._ends: dict[web.StreamResponse, asyncio.Event] = {}
        self._errors: dict[web.StreamResponse, bool] = {}

    async def __aenter__(self) -> Faulty:
        context = ssl.create_default_context(cafile=str(self._plane.authority.certificate))
        self._session = aiohttp.ClientSession(
            connector=aiohttp.TCPConnector(limit=0, ssl=context), timeout=aiohttp.ClientTimeout(total=None)
        )
        application = web.Application(client_max_size=16 * 1024 * 1024)
        application.router.add_route("*", "/{tail:.*}", self._handle)
        self._runner = web.AppRunner(application, shutdown_timeout=0.1)
        await self._runner.setup()
        site = web.TCPSite(self._runner, HOST, 0)
        await site.start()
        self.url = f"http://{HOST}:{self._runner.addresses[0][1]}"
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._thaw.set()
        self.cut()
        await self._runner.cleanup()
        await self._session.close()

    # -- what is done to calls

    def cut(self, *, gone: bool = False) -> None:
        """Ends all watches that are open; with `gone`, by telling that their version is too old."""
        for response, end in self._ends.items():
            self._errors[response] = gone
            end.set()

    def freeze(self) -> None:
        """Nothing passes any more, in either direction, and nothing is closed: as when packets are dropped."""
        self._thaw.clear()

    def thaw(self) -> None:
        """All goes on."""
        self._thaw.set()

    # -- inside

    async def _handle(self, request: web.Request) -> web.StreamResponse:
        call = Call(request.method, request.path, "watch" in request.query)
        self.calls.append(call)
        await self._thaw.wait()
        refusal = self.fault(call)
        if refusal is not None:
            return _answer(refusal)
        headers = {key: value for key, value in request.headers.items() if key not in DROPPED}
        body = await request.read()
        try:
            async with self._session.request(
                request.method, self._plane.url + request.path_qs, headers=headers, data=body or None
            ) as answer:
                if call.watch and answer.status == 200:
                    return await self._stream(request, answer)
                return await self._whole(request, answer)
        except aiohttp.ClientError:
            assert request.transport is not None
            request.transport.abort()  # as the API server's own connection went
            return web.Response(status=502)

    async def _whole(self, request: web.Request, answer: aiohttp.ClientResponse) -> web.Response:
        data = await answer.read()
        if request.method == "GET" and answer.status == 200 and "items" not in json.loads(data):
            first = self._first.setdefault(request.path, data)
            data = first if self.stale else data
            if not self.stale:
                self._first[request.path] = data
        await self._thaw.wait()
        headers = {key: value for key, value in answer.headers.items() if key not in DROPPED}
        return web.Response(status=answer.status, headers=headers, body=data)

    async def _stream(self, request: web.Request, answer: aiohttp.ClientResponse) -> web.StreamResponse:
        response = web.StreamResponse(headers={"Content-Type": "application/json"})
        end = self._ends[response] = asyncio.Event()
        await response.prepare(request)
        pumping = asyncio.create_task(self._pump(request, answer, response))
        ending = asyncio.create_task(end.wait())
        try:
            await asyncio.wait([pumping, ending], return_when=asyncio.FIRST_COMPLETED)
            if end.is_set() and self._errors.pop(response, False):
                gone = {"kind": "Status", "apiVersion": "v1", "code": 410, "reason": "Expired", "message": "too old"}
                await response.write(_line({"type": "ERROR", "object": gone}))
            elif end.is_set() and request.transport is not None:
                request.transport.abort()
        finally:
            del self._ends[response]
            for task in (pumping, ending):
                task.cancel()
            await asyncio.gather(pumping, ending, return_exceptions=True)
        return response

    async def _pump(self, request: web.Request, answer: aiohttp.ClientResponse, response: web.StreamResponse) -> None:
        version, kind = request.query.get("resourceVersion", ""), {"apiVersion": "v1", "kind": "Bookmark"}
        reading: asyncio.Task[bytes] = asyncio.ensure_future(answer.content.readline())
        try:
            while True:
                done, _ = await asyncio.wait([reading], timeout=self._bookmarks)
                await self._thaw.wait()
                if not done:
                    bookmark = {**kind, "metadata": {"resourceVersion": version}}
                    await response.write(_line({"type": "BOOKMARK", "object": bookmark}))
                    continue
                line = reading.result()
                if not line:
                    return
                await response.write(line)
                seen = json.loads(line)["object"]
                version = seen.get("metadata", {}).get("resourceVersion", version)
                kind = {"apiVersion": seen["apiVersion"], "kind": seen["kind"]}
                reading = asyncio.ensure_future(answer.content.readline())
        finally:
            reading.cancel()


def _line(event: dict[str, Any]) -> bytes:
    return json.dumps(event).encode() + b"\n"


def _answer(refusal: Refusal) -> web.Response:
    status = {
        "kind": "Status",
        "apiVersion": "v1",
        "status": "Failure",
        "message": f"a fault of the test: {refusal.reason}",
        "reason": refusal.reason,
        "code": refusal.status,
    }
    headers = {} if refusal.retry_after is None else {"Retry-After": str(refusal.retry_after)}
    return web.json_response(status, status=refusal.status, headers=headers)
