"""Dynamic registration (RFC 7591), for clients that can't do without: open to all, and so bounded."""

from __future__ import annotations

from starlette.requests import Request
from starlette.responses import Response

from demarkus_broker.oauth import answers, registration
from demarkus_broker.oauth.errors import Code, OAuthError
from demarkus_broker.oauth.server import AuthorizationServer, client_label


async def register(server: AuthorizationServer, request: Request) -> Response:
    """Register a client. Raises OAuthError."""
    if request.headers.get("content-type", "").partition(";")[0].strip().lower() != "application/json":
        raise OAuthError(Code.INVALID_CLIENT_METADATA, "expected application/json")
    asked = registration.read(await answers.body(request, registration.MAX_BYTES))
    server.state.take_room("registrations")
    now = int(server.now())
    client_id = await server.state.registrations.add(asked.facts(), expires=now + registration.LIFE)
    server.note("register", "registered", client=client_label(client_id))
    return answers.json_answer(asked.answer(client_id, now=now), status=201)
