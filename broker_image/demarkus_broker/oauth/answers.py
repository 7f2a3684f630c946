"""Answers of the endpoints: JSON for clients, redirects, pages for people; what may be cached and by whom."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Mapping, Sequence
from typing import Any
from urllib.parse import urlsplit

from starlette.requests import ClientDisconnect, Request
from starlette.responses import HTMLResponse, JSONResponse, RedirectResponse, Response

from demarkus_base.blobs.port import BlobError
from demarkus_broker.oauth import pages, parameters
from demarkus_broker.oauth.errors import Code, OAuthError
from demarkus_broker.oauth.parameters import Parameters
from demarkus_broker.oauth.server import AuthorizationServer

BODY_DEADLINE = 20.0
"""Seconds for a body to arrive."""
RETRY_AFTER = "5"
"""Seconds after which to try again what is not available."""

_NOT_KEPT = {"Cache-Control": "no-store", "Pragma": "no-cache"}
_FOR_ALL = {"Access-Control-Allow-Origin": "*", "Access-Control-Expose-Headers": "WWW-Authenticate, Retry-After"}
_PREFLIGHT = {
    **_FOR_ALL,
    "Access-Control-Allow-Methods": "GET, POST, OPTIONS",
    "Access-Control-Allow-Headers": "Authorization, Content-Type, Accept, Mcp-Protocol-Version",
    "Access-Control-Max-Age": "600",
}
_PAGE = {
    **_NOT_KEPT,
    "Referrer-Policy": "same-origin",
    "X-Content-Type-Options": "nosniff",
    "X-Frame-Options": "DENY",
    "Cross-Origin-Opener-Policy": "same-origin",
}

Handler = Callable[[Request], Awaitable[Response]]


def preflight() -> Response:
    """The answer to a browser that asks whether a page may ask."""
    return Response(status_code=204, headers=_PREFLIGHT)


def json_answer(content: Mapping[str, Any], *, status: int = 200) -> Response:
    """JSON that nobody keeps."""
    return JSONResponse(content, status_code=status, headers={**_NOT_KEPT, **_FOR_ALL})


def document(content: Mapping[str, Any]) -> Response:
    """JSON that everybody may keep for some minutes."""
    return JSONResponse(content, headers={"Cache-Control": "max-age=300", **_FOR_ALL})


def refusal(error: OAuthError) -> Response:
    """An error as JSON (RFC 6749, 5.2)."""
    answer = json_answer(error.body(), status=error.status)
    if error.code is Code.INVALID_CLIENT:
        answer.headers["WWW-Authenticate"] = 'Basic realm="token"'
    if error.code is Code.TEMPORARILY_UNAVAILABLE:
        answer.headers["Retry-After"] = RETRY_AFTER
    return answer


def page(html: str, *, status: int = 200, leads_to: tuple[str | None, ...] = ()) -> Response:
    """A page. `leads_to`: URLs to which its form may lead in the end, besides this gateway."""
    targets = " ".join(["'self'", *sorted({source for url in leads_to if url and (source := _source(url))})])
    policy = f"default-src 'none'; base-uri 'none'; frame-ancestors 'none'; form-action {targets}"
    return HTMLResponse(html, status_code=status, headers={**_PAGE, "Content-Security-Policy": policy})


def error_page(error: OAuthError, *, status: int | None = None) -> Response:
    """An error that can't be told to a client, for the person in front of the browser."""
    answer = page(pages.error(error), status=status or (400 if error.status == 401 else error.status))
    if error.code is Code.TEMPORARILY_UNAVAILABLE:
        answer.headers["Retry-After"] = RETRY_AFTER
    return answer


def redirect(url: str) -> Response:
    """Send a browser on with a GET."""
    return RedirectResponse(url, status_code=303, headers={**_NOT_KEPT, "Referrer-Policy": "no-referrer"})


async def form(request: Request) -> Parameters:
    """The form of a POST. Raises OAuthError."""
    if request.headers.get("content-type", "").partition(";")[0].strip().lower() != "application/x-www-form-urlencoded":
        raise OAuthError(Code.INVALID_REQUEST, "expected a form: application/x-www-form-urlencoded")
    return parameters.read(await body(request, parameters.MAX_BYTES))


async def body(request: Request, most: int) -> bytes:
    """The body of a request. Raises OAuthError if it is larger, or does not arrive in time."""
    found = bytearray()
    try:
        async with asyncio.timeout(BODY_DEADLINE):
            async for chunk in request.stream():
                found += chunk
                if len(found) > most:
                    raise OAuthError(Code.INVALID_REQUEST, f"more than {most} bytes")
    except TimeoutError:
        raise OAuthError(Code.INVALID_REQUEST, "the request did not arrive in time") from None
    return bytes(found)


def guarded(
    server: AuthorizationServer, handler: Handler, methods: Sequence[str], *, for_people: bool = False
) -> Handler:
    """A handler whose refusals become answers, and which is there only while there is a provider."""
    tell = error_page if for_people else refusal

    async def answer(request: Request) -> Response:
        if not server.is_open:
            return Response("Nobody can sign in here.\n", status_code=404, media_type="text/plain")
        if request.method == "OPTIONS" and not for_people:
            return preflight()
        if request.method not in methods:
            return Response(status_code=405, headers={"Allow": ", ".join(methods)})
        try:
            return await handler(request)
        except OAuthError as error:
            return tell(error)
        except ClientDisconnect:
            return Response(status_code=400)
        except BlobError as error:
            server.note("state", "unavailable", reason=type(error).__name__)
            return tell(OAuthError(Code.TEMPORARILY_UNAVAILABLE, "logins can't be read or kept at present; try again"))

    return answer


def is_from_our_page(request: Request) -> bool:
    """Whether a form was sent from one of our own pages: what browsers say of it, if they say anything."""
    origin, site = request.headers.get("origin"), request.headers.get("sec-fetch-site")
    if site is not None and site != "same-origin":
        return False
    host = request.headers.get("host", "")
    return origin is None or urlsplit(origin)[:2] in (("http", host), ("https", host))


def cookie(
    server: AuthorizationServer, answer: Response, name: str, value: str, *, path: str, life: int, strict: bool
) -> None:
    """Give a browser something to keep that no script and no other site gets at; life 0 takes it back."""
    answer.set_cookie(
        name,
        value,
        max_age=life,
        path=path,
        secure=server.issuer.startswith("https:"),
        httponly=True,
        samesite="strict" if strict else "lax",
    )


def _source(url: str) -> str | None:
    """A URL as a source expression of a content security policy."""
    parts = urlsplit(url)
    if parts.scheme not in ("http", "https"):
        return f"{parts.scheme}:"
    return None if any(mark in parts.netloc for mark in " ;,'\"@") else f"{parts.scheme}://{parts.netloc}"
