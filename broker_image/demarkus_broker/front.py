"""The front of the gateway: what every HTTP request passes before MCP sees it.

Order: Host, then for `/mcp` Origin, preflight, bearer, rate, method, body (size and time), and only then the MCP
session manager. Whoever is not signed in is counted by address, also at the endpoints of the authorization server.
`/mcp` and `/mcp/` are one resource; nothing is ever redirected, since a redirect drops the bearer or the body.
"""

from __future__ import annotations

import asyncio
import logging
import time
from collections.abc import Awaitable, Callable, Mapping, Sequence

from starlette.applications import Starlette
from starlette.datastructures import Headers
from starlette.requests import Request
from starlette.responses import JSONResponse, Response
from starlette.routing import Route
from starlette.types import ASGIApp, Lifespan, Message, Receive, Scope, Send

from demarkus_broker import resource
from demarkus_broker.bearer import BearerError, BearerFault, verify
from demarkus_broker.identity import Person, admits, person_of
from demarkus_broker.keys import Keys
from demarkus_broker.limits import Buckets, address_of
from demarkus_broker.metrics import Metrics
from demarkus_broker.origins import host_is_ours, origin_may_call
from demarkus_broker.settings import BrokerSettings

MAX_BODY = 4 << 20
"""Bytes of a request body: a document of 1 MiB fits, whichever way JSON escapes it in practice."""
MOST_REQUESTS = 512
"""Requests of people who are let in, at once; more are answered 503."""
BODY_DEADLINE = 20.0
"""Seconds for a request body to arrive."""
PERSON = "demarkus.person"
"""Key of the ASGI scope under which the caller's `Person` stands after the bearer was checked."""

_COUNTED_APART = frozenset({"/mcp", "/mcp/"})
_EXPOSED = "WWW-Authenticate, Retry-After, Mcp-Session-Id, Mcp-Protocol-Version"
_PREFLIGHT = {
    "Access-Control-Allow-Methods": "GET, POST, DELETE, OPTIONS",
    "Access-Control-Allow-Headers": "Authorization, Content-Type, Accept, Last-Event-ID, Mcp-Session-Id, "
    "Mcp-Protocol-Version, Mcp-Method, Mcp-Name",
    "Access-Control-Max-Age": "600",
}

log = logging.getLogger(__name__)


class Front:
    """The ASGI application in front of MCP. `settings` and `keys` give what is in force now; `sign_in` are the routes
    of the authorization server, and `can_sign_in` says whether it serves at present.
    """

    def __init__(
        self,
        *,
        mcp: ASGIApp,
        settings: Callable[[], BrokerSettings],
        keys: Callable[[], Keys],
        sign_in: Sequence[Route],
        can_sign_in: Callable[[], bool],
        lifespan: Lifespan[Starlette],
        metrics: Metrics,
        now: Callable[[], float] = time.time,
    ) -> None:
        self._mcp = mcp
        self._settings = settings
        self._keys = keys
        self._can_sign_in = can_sign_in
        self._metrics = metrics
        self._now = now
        self._under_way = 0
        self._subjects = Buckets(per_second=0, burst=300)
        self._addresses = Buckets(per_second=20, burst=300)
        well_known = [
            Route(f"{resource.WELL_KNOWN}{suffix}", self._metadata(suffix.rstrip("/")), methods=["GET", "OPTIONS"])
            for suffix in ("", "/", "/mcp", "/mcp/")
        ]
        endpoint = _Endpoint(self._serve_mcp)
        self._routes = Starlette(
            routes=[Route("/mcp", endpoint), Route("/mcp/", endpoint), *well_known, *sign_in], lifespan=lifespan
        )
        self._routes.router.redirect_slashes = False

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """ASGI entry: requests and the lifespan."""
        if scope["type"] == "http":
            host = Headers(scope=scope).getlist("host")
            if len(host) != 1 or not host_is_ours(host[0], self._settings().public_url):
                await self._refuse(421, "host", "This gateway does not answer to that Host.")(scope, receive, send)
                return
            if scope["path"] not in _COUNTED_APART and (wait := self._address_has_to_wait(scope)) is not None:
                response = self._too_many("address", wait)
                response.headers["Access-Control-Allow-Origin"] = "*"
                await response(scope, receive, send)
                return
        await self._routes(scope, receive, send)

    def _address_has_to_wait(self, scope: Scope) -> int | None:
        """Count a request of an address that is not signed in; the seconds that it has to wait, if it has to."""
        limits = self._settings().limits
        peer = scope["client"][0] if scope.get("client") else ""
        forwarded = Headers(scope=scope).getlist("x-forwarded-for")
        address = address_of(peer, forwarded, trusted_proxies=limits.trusted_proxies)
        return self._addresses.wait(address, limits.address, now=self._now())

    def _too_many(self, whose: str, wait: int) -> Response:
        """The answer to somebody who asks too much (RFC 6585, 4)."""
        response = self._refuse(429, f"rate-{whose}", "These are too many requests; wait as long as Retry-After says.")
        response.headers["Retry-After"] = str(wait)
        return response

    def _metadata(self, suffix: str) -> Callable[[Request], Awaitable[Response]]:
        async def document(request: Request) -> Response:
            public = {"Access-Control-Allow-Origin": "*", "Cache-Control": "max-age=300"}
            if request.method == "OPTIONS":
                return Response(status_code=204, headers={**_PREFLIGHT, **public})
            url = self._settings().public_url
            issuer = url if self._can_sign_in() else None
            return JSONResponse(resource.metadata(url + suffix, issuer=issuer), headers=public)

        return document

    async def _serve_mcp(self, scope: Scope, receive: Receive, send: Send) -> None:
        headers = Headers(scope=scope)
        settings = self._settings()
        origin = headers.get("origin")
        if not origin_may_call(origin, settings.public_url):
            await self._refuse(403, "origin", "Pages of that origin may not call this gateway.")(scope, receive, send)
            return
        if origin is not None:
            send = _with_headers(
                send,
                {
                    "Access-Control-Allow-Origin": origin,
                    "Access-Control-Expose-Headers": _EXPOSED,
                    "Vary": "Origin",
                },
            )
        if scope["method"] == "OPTIONS":
            await Response(status_code=204, headers={"Allow": "POST, OPTIONS", **_PREFLIGHT})(scope, receive, send)
            return
        try:
            scope[PERSON] = self._person(headers, settings)
        except BearerError as error:
            wait = self._address_has_to_wait(scope)
            if wait is not None:
                await self._too_many("address", wait)(scope, receive, send)
                return
            sent = bool(headers.getlist("authorization"))
            response = self._refuse(401, f"bearer-{error.fault}" if sent else "no-bearer", "Sign in first.")
            response.headers["WWW-Authenticate"] = resource.challenge(settings, refused=sent)
            await response(scope, receive, send)
            return
        subject = f"{scope[PERSON].issuer} {scope[PERSON].subject}"
        wait = self._subjects.wait(subject, settings.limits.subject, now=self._now())
        if wait is not None:
            await self._too_many("subject", wait)(scope, receive, send)
            return
        if scope["method"] != "POST":
            response = self._refuse(405, "method", "This gateway keeps no sessions and no streams: POST.")
            response.headers["Allow"] = "POST, OPTIONS"
            await response(scope, receive, send)
            return
        if self._under_way >= (settings.limits.max_concurrent or MOST_REQUESTS):
            response = self._refuse(503, "busy", "This gateway has too many requests at present.")
            response.headers["Retry-After"] = "1"
            await response(scope, receive, send)
            return
        self._under_way += 1
        try:
            replay = await _whole_body(headers, receive)
            if replay is not None:
                await self._mcp(scope, replay, send)
        except _BodyRefused as refused:
            await self._refuse(refused.status, refused.reason, refused.message)(scope, receive, send)
        finally:
            self._under_way -= 1

    def _person(self, headers: Headers, settings: BrokerSettings) -> Person:
        """The caller. One Authorization header with one bearer, nothing else, names a person. Raises BearerError.

        A bearer that was handed out here is not valid any more once no rule admits its person: the client asks for a
        new one, with claims as they are compared now, or hears there that the person stays out.
        """
        sent = headers.getlist("authorization")
        scheme, _, token = (sent[0] if len(sent) == 1 else "").partition(" ")
        if scheme.lower() != "bearer":
            token = ""
        claims = verify(
            token.strip(),
            self._keys().bearers,
            issuer=settings.public_url,
            audience=settings.resource,
            now=self._now(),
        )
        person = person_of(claims)
        if "client_id" in claims and not (settings.identity and admits(settings.identity.rules, person)):
            raise BearerError(BearerFault.NOT_ADMITTED)
        return person

    def _refuse(self, status: int, reason: str, message: str) -> Response:
        """A refusal before MCP, counted and logged. `reason` is one of a few words; nothing of the request is in it."""
        self._metrics.refusals.labels(reason=reason).inc()
        log.info("request refused", extra={"fields": {"status": status, "reason": reason}})
        return JSONResponse({"error": reason, "message": message}, status_code=status)


class _Endpoint:
    """An ASGI application as the endpoint of a route for every method (a function would be taken for a handler)."""

    def __init__(self, app: ASGIApp) -> None:
        self._app = app

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        await self._app(scope, receive, send)


class _BodyRefused(Exception):
    """The body will not be taken: status, a word for the reason, a sentence."""

    def __init__(self, status: int, reason: str, message: str) -> None:
        super().__init__(reason)
        self.status = status
        self.reason = reason
        self.message = message


async def _whole_body(headers: Headers, receive: Receive) -> Receive | None:
    """Take in the whole body, within its limits, and give a `receive` that replays it; None if the client went away.

    Raises _BodyRefused.
    """
    too_large = _BodyRefused(413, "body-size", f"A request has at most {MAX_BODY} bytes.")
    declared = headers.get("content-length", "")
    if declared.isascii() and declared.isdigit() and int(declared[:20]) > MAX_BODY:
        raise too_large
    body = bytearray()
    try:
        async with asyncio.timeout(BODY_DEADLINE):
            more = True
            while more:
                message = await receive()
                if message["type"] != "http.request":
                    return None
                body += message.get("body", b"")
                if len(body) > MAX_BODY:
                    raise too_large
                more = message.get("more_body", False)
    except TimeoutError:
        raise _BodyRefused(408, "body-time", "The request did not arrive in time.") from None
    whole: list[Message] = [{"type": "http.request", "body": bytes(body), "more_body": False}]

    async def replay() -> Message:
        return whole.pop() if whole else await receive()

    return replay


def _with_headers(send: Send, headers: Mapping[str, str]) -> Send:
    extra = [(name.lower().encode(), value.encode()) for name, value in headers.items()]

    async def wrapped(message: Message) -> None:
        if message["type"] == "http.response.start":
            message = {**message, "headers": [*message.get("headers", []), *extra]}
        await send(message)

    return wrapped
