"""Revocation (RFC 7009): a refresh token that is given back ends its login."""

from __future__ import annotations

from starlette.requests import Request
from starlette.responses import Response

from demarkus_broker.oauth import answers, clients
from demarkus_broker.oauth.server import AuthorizationServer, client_label


async def revoke(server: AuthorizationServer, request: Request) -> Response:
    """End the login of a token; nothing happens for what is no refresh token of that client. Raises OAuthError.

    Access tokens are not kept anywhere: they end by themselves within minutes.
    """
    form = await answers.form(request)
    given = clients.credentials(request.headers.getlist("authorization"), form)
    client = await server.client(given.id)
    clients.authenticate(client, given)
    login = await server.state.logins.find(form.require("token"), now=server.now())
    if login is not None and login.facts["client_id"] == client.id:
        await server.state.logins.end(login.token.login, why="revoked")
        server.note("revoke", "ended", client=client_label(client.id))
    return answers.json_answer({})
