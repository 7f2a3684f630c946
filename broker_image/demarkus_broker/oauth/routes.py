"""The authorization server's endpoints at their paths."""

from __future__ import annotations

from collections.abc import Awaitable, Callable

from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Route

from demarkus_broker.oauth import answers, authorize, callback, device, metadata, register, revoke, tokens
from demarkus_broker.oauth.pace import Pace
from demarkus_broker.oauth.server import AuthorizationServer
from demarkus_broker.oauth.token import TokenEndpoint

_EVERY = ("DELETE", "GET", "HEAD", "OPTIONS", "PATCH", "POST", "PUT")
_Endpoint = Callable[[AuthorizationServer, Request], Awaitable[Response]]


def routes(server: AuthorizationServer) -> list[Route]:
    """All routes. While there is no provider they answer 404."""
    token = TokenEndpoint(server, Pace())

    def route(path: str, handler: _Endpoint, *methods: str, for_people: bool = False) -> Route:
        async def bound(request: Request) -> Response:
            return await handler(server, request)

        return Route(path, answers.guarded(server, bound, methods, for_people=for_people), methods=_EVERY)

    async def ask_token(_: AuthorizationServer, request: Request) -> Response:
        return await token(request)

    return [
        route(metadata.WELL_KNOWN, _document, "GET"),
        route(f"{metadata.WELL_KNOWN}/mcp", _document, "GET"),
        route(metadata.WELL_KNOWN_OIDC, _document, "GET"),
        route(metadata.JWKS, _keys, "GET"),
        route(metadata.TOKEN, ask_token, "POST"),
        route(metadata.TOKEN_ALIAS, ask_token, "POST"),
        route(metadata.REGISTER, register.register, "POST"),
        route(metadata.REVOKE, revoke.revoke, "POST"),
        route(metadata.DEVICE_AUTHORIZE, device.authorize, "POST"),
        route(metadata.AUTHORIZE, authorize.authorize, "GET", "POST", for_people=True),
        route(authorize.CONSENT, authorize.consent, "POST", for_people=True),
        route(metadata.CALLBACK, callback.callback, "GET", for_people=True),
        route(metadata.DEVICE, device.entry, "GET", "POST", for_people=True),
        route(device.CONFIRM, device.confirm, "POST", for_people=True),
    ]


async def _document(server: AuthorizationServer, request: Request) -> Response:
    return answers.document(metadata.document(server.issuer))


async def _keys(server: AuthorizationServer, request: Request) -> Response:
    return answers.document(tokens.public_keys(server.keys().bearers))
