"""The HTTP side: the JSON API's paths, parameters and answers, over `State` and `Faults`.

`POST /_faults` with a JSON list of faults replaces those in force; `GET /_objects/<bucket>` lists names,
`GET /_counts` tells how many calls there were and how many faults of each kind struck.
"""

from __future__ import annotations

import asyncio
import contextlib
import json
from collections.abc import AsyncIterator, Callable
from email.message import Message
from email.parser import BytesParser
from email.policy import HTTP
from typing import Any
from urllib.parse import unquote

from aiohttp import web

from dev.gcs.faults import Call, Fault, Faults
from dev.gcs.state import Object, Preconditions, Refused, State

MAX_BODY = 8 * 1024 * 1024
COMMON = frozenset({"alt", "fields", "prettyPrint", "projection", "userProject"})
Answer = web.StreamResponse
Work = Callable[[], Answer]


class Service:
    """One running stand-in. `state` may be looked at and edited from the test's own loop."""

    def __init__(self, *, faults: Faults | None = None) -> None:
        self.state = State()
        self.faults = faults or Faults()
        self.calls: list[tuple[Call, str]] = []
        self._late: set[asyncio.Task[None]] = set()

    def application(self) -> web.Application:
        """The routes."""
        app = web.Application(client_max_size=MAX_BODY)
        app.add_routes(
            [
                web.post("/storage/v1/b", self._bucket_insert),
                web.get("/storage/v1/b/{bucket}", self._bucket_get),
                web.patch("/storage/v1/b/{bucket}", self._bucket_patch),
                web.delete("/storage/v1/b/{bucket}", self._bucket_delete),
                web.get("/storage/v1/b/{bucket}/iam", self._policy_get),
                web.put("/storage/v1/b/{bucket}/iam", self._policy_set),
                web.get("/storage/v1/b/{bucket}/o", self._list),
                web.post("/upload/storage/v1/b/{bucket}/o", self._insert),
                web.get(r"/storage/v1/b/{bucket}/o/{name:.+}", self._get),
                web.delete(r"/storage/v1/b/{bucket}/o/{name:.+}", self._delete),
                web.post("/_faults", self._set_faults),
                web.get("/_objects/{bucket}", self._names),
                web.get("/_counts", self._counts),
            ]
        )
        app.on_cleanup.append(self._settle)
        return app

    # Objects

    async def _insert(self, request: web.Request) -> Answer:
        _allow(request, "uploadType", "name", "ifGenerationMatch", "ifGenerationNotMatch")
        bucket = request.match_info["bucket"]
        body = await request.read()
        if request.query.get("uploadType") == "multipart":
            metadata, data = _multipart(request.headers.get("Content-Type", ""), body)
        elif request.query.get("uploadType") == "media":
            metadata, data = {}, body
        else:
            return _error(Refused(501, "only multipart and media uploads are known here"))
        name = str(metadata.get("name", request.query.get("name", "")))

        def work() -> Answer:
            stored = self.state.insert(
                bucket, name, data, claimed_crc32c=metadata.get("crc32c"), when=_preconditions(request)
            )
            return web.json_response(stored.resource(bucket))

        return await self._carry_out(request, "insert", name, work)

    async def _get(self, request: web.Request) -> Answer:
        _allow(request, "generation", "ifGenerationMatch", "ifGenerationNotMatch")
        bucket, name = request.match_info["bucket"], _object_name(request)

        def work() -> Answer:
            found = self.state.get(
                bucket, name, generation=_number(request, "generation"), when=_preconditions(request)
            )
            return _media(found) if request.query.get("alt") == "media" else web.json_response(found.resource(bucket))

        return await self._carry_out(request, "get", name, work)

    async def _delete(self, request: web.Request) -> Answer:
        _allow(request, "generation", "ifGenerationMatch", "ifGenerationNotMatch")
        bucket, name = request.match_info["bucket"], _object_name(request)

        def work() -> Answer:
            self.state.delete(bucket, name, generation=_number(request, "generation"), when=_preconditions(request))
            return web.Response(status=204)

        return await self._carry_out(request, "delete", name, work)

    async def _list(self, request: web.Request) -> Answer:
        _allow(request, "prefix", "startOffset", "pageToken", "maxResults")
        bucket, prefix = request.match_info["bucket"], request.query.get("prefix", "")

        def work() -> Answer:
            start = request.query.get("pageToken") or request.query.get("startOffset", "")
            shown, following = self.state.page(
                bucket, prefix=prefix, start=start, size=_number(request, "maxResults") or 1000
            )
            answer: dict[str, Any] = {"kind": "storage#objects"}
            if shown:
                answer["items"] = [found.resource(bucket) for found in shown]
            if following is not None:
                answer["nextPageToken"] = following
            return web.json_response(answer)

        return await self._carry_out(request, "list", prefix, work)

    # Administration

    async def _bucket_insert(self, request: web.Request) -> Answer:
        _allow(request, "project")
        settings = await request.json()
        return await self._admin(request, lambda: self.state.create_bucket(settings).resource())

    async def _bucket_get(self, request: web.Request) -> Answer:
        _allow(request)
        return await self._admin(request, lambda: self.state.bucket(request.match_info["bucket"]).resource())

    async def _bucket_patch(self, request: web.Request) -> Answer:
        _allow(request, "ifMetagenerationMatch")
        change, name = await request.json(), request.match_info["bucket"]
        guard = _number(request, "ifMetagenerationMatch")
        return await self._admin(request, lambda: self.state.patch_bucket(name, change, guard).resource())

    async def _bucket_delete(self, request: web.Request) -> Answer:
        _allow(request)

        def work() -> Answer:
            self.state.delete_bucket(request.match_info["bucket"])
            return web.Response(status=204)

        return await self._carry_out(request, "admin", request.match_info["bucket"], work)

    async def _policy_get(self, request: web.Request) -> Answer:
        _allow(request, "optionsRequestedPolicyVersion")
        return await self._admin(request, lambda: self.state.bucket(request.match_info["bucket"]).policy)

    async def _policy_set(self, request: web.Request) -> Answer:
        _allow(request)
        policy = await request.json()
        return await self._admin(request, lambda: self.state.set_policy(request.match_info["bucket"], policy))

    async def _admin(self, request: web.Request, work: Callable[[], dict[str, Any]]) -> Answer:
        return await self._carry_out(
            request, "admin", request.match_info.get("bucket", ""), lambda: web.json_response(work())
        )

    # The stand-in's own controls

    async def _set_faults(self, request: web.Request) -> Answer:
        self.faults.replace([Fault.of(value) for value in await request.json()])
        return web.Response(status=204)

    async def _names(self, request: web.Request) -> Answer:
        return web.json_response(sorted(self.state.bucket(request.match_info["bucket"]).objects))

    async def _counts(self, request: web.Request) -> Answer:
        return web.json_response({"calls": len(self.calls), "faults": dict(self.faults.struck)})

    # Faults

    async def _carry_out(self, request: web.Request, call: Call, name: str, work: Work) -> Answer:
        self.calls.append((call, name))
        delay, fault = self.faults.meet(call, name)
        if delay:
            await asyncio.sleep(delay)
        if fault is None:
            return _attempt(work)
        if fault.kind == "refuse":
            return _error(Refused(fault.status, "a fault was asked for"))
        if fault.kind == "late":
            self._later(fault.seconds, work)
            return _error(Refused(fault.status, "a fault was asked for"))
        answer = _attempt(work)
        if fault.kind == "lose":
            return _error(Refused(fault.status, "a fault was asked for"))
        if request.transport is None:
            return answer  # whoever asked is gone already
        if fault.kind == "torn" and isinstance(answer, web.Response) and isinstance(answer.body, bytes):
            head = f"HTTP/1.1 {answer.status} OK\r\nContent-Length: {len(answer.body)}\r\n"
            head += "".join(f"{k}: {v}\r\n" for k, v in answer.headers.items() if k.lower() != "content-length")
            request.transport.write(head.encode() + b"\r\n" + answer.body[: len(answer.body) // 2])
        request.transport.close()
        return web.Response()

    def _later(self, seconds: float, work: Work) -> None:
        async def wait_and_do() -> None:
            await asyncio.sleep(seconds)
            _attempt(work)

        task = asyncio.create_task(wait_and_do())
        self._late.add(task)
        task.add_done_callback(self._late.discard)

    async def _settle(self, _: web.Application) -> None:
        for task in list(self._late):
            task.cancel()
        await asyncio.gather(*self._late, return_exceptions=True)


@contextlib.asynccontextmanager
async def serving(service: Service, *, port: int = 0) -> AsyncIterator[str]:
    """Serve on loopback; gives the base address."""
    runner = web.AppRunner(service.application(), handler_cancellation=False, access_log=None)
    await runner.setup()
    try:
        site = web.TCPSite(runner, "127.0.0.1", port)
        await site.start()
        yield f"http://127.0.0.1:{runner.addresses[0][1]}"
    finally:
        await runner.cleanup()


def _attempt(work: Work) -> Answer:
    try:
        return work()
    except Refused as refused:
        return _error(refused)


def _error(refused: Refused) -> web.Response:
    body = {"error": {"code": refused.status, "message": refused.reason}}
    return web.json_response(body, status=refused.status)


def _media(found: Object) -> web.Response:
    headers = {
        "Content-Type": "application/octet-stream",
        "X-Goog-Generation": str(found.generation),
        "X-Goog-Hash": f"crc32c={found.crc32c}",
        "X-Goog-Stored-Content-Length": str(len(found.data)),
    }
    return web.Response(body=found.data, headers=headers)


def _allow(request: web.Request, *parameters: str) -> None:
    if unknown := sorted(set(request.query) - COMMON - set(parameters)):
        raise web.HTTPBadRequest(text=f"this stand-in does not know {', '.join(unknown)}")


def _number(request: web.Request, name: str) -> int | None:
    text = request.query.get(name)
    if text is None:
        return None
    if not text.isdecimal():
        raise web.HTTPBadRequest(text=f"{name} is a number")
    return int(text)


def _preconditions(request: web.Request) -> Preconditions:
    return Preconditions(_number(request, "ifGenerationMatch"), _number(request, "ifGenerationNotMatch"))


def _object_name(request: web.Request) -> str:
    """The name as one path segment, decoded once: aiohttp's own decoding would lose an encoded slash."""
    raw = request.rel_url.raw_path.split("/o/", 1)[1]
    if "/" in raw:
        raise web.HTTPBadRequest(text="an object's name is one percent-encoded segment")
    return unquote(raw, errors="surrogateescape")


def _multipart(content_type: str, body: bytes) -> tuple[dict[str, Any], bytes]:
    """Metadata and bytes of a multipart/related upload (RFC 2387): exactly two parts, JSON first."""
    message: Message = BytesParser(policy=HTTP).parsebytes(f"Content-Type: {content_type}\r\n\r\n".encode())
    boundary = message.get_boundary()
    if message.get_content_type() != "multipart/related" or boundary is None:
        raise web.HTTPBadRequest(text="a multipart upload is multipart/related with a boundary")
    fence = b"--" + boundary.encode()
    pieces = (b"\r\n" + body).split(b"\r\n" + fence)
    if len(pieces) != 4 or pieces[0].strip() or pieces[3].strip() != b"--":
        raise web.HTTPBadRequest(text="a multipart upload has two parts")
    (_, first), (_, second) = (piece.split(b"\r\n\r\n", 1) for piece in pieces[1:3])
    return json.loads(first), second
