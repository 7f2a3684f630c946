"""The token endpoint (RFC 6749, 3.2): codes, refresh tokens and device codes against tokens.

A client shows who it is before anything is used, so a wrong secret burns no code. A code that is used again ends the
login that its first use led to (RFC 6749, 4.1.2).
"""

from __future__ import annotations

import hmac
import logging
from collections.abc import Mapping
from typing import Any

from starlette.requests import Request
from starlette.responses import Response

from demarkus_broker.oauth import answers, clients, pkce, renewal, resources, scopes, tokens
from demarkus_broker.oauth.clients import Client
from demarkus_broker.oauth.errors import Code, OAuthError
from demarkus_broker.oauth.pace import Pace
from demarkus_broker.oauth.parameters import Parameters
from demarkus_broker.oauth.registration import GRANT_TYPES
from demarkus_broker.oauth.server import AuthorizationServer, client_label
from demarkus_broker.state.logins import ReusedError

REFRESH_LIFE = 90 * 86400
"""Seconds for which a login lasts where the provider can be asked anew."""

log = logging.getLogger(__name__)


class TokenEndpoint:
    """The endpoint, with what it remembers between requests."""

    def __init__(self, server: AuthorizationServer, pace: Pace) -> None:
        self._server = server
        self._pace = pace

    async def __call__(self, request: Request) -> Response:
        """Answer a token request."""
        form = await answers.form(request)
        server = self._server
        given = clients.credentials(request.headers.getlist("authorization"), form)
        client = await server.client(given.id)
        clients.authenticate(client, given)
        grant_type = form.require("grant_type")
        handlers = dict(zip(GRANT_TYPES, (self._code, self._refresh, self._device), strict=True))
        if grant_type not in handlers:
            raise OAuthError(Code.UNSUPPORTED_GRANT_TYPE, f"grant_type has to be one of {', '.join(GRANT_TYPES)}")
        resources.check(form.all("resource"), server.issuer)
        try:
            answer = await handlers[grant_type](client, form)
        except OAuthError as error:
            if error.code not in (Code.AUTHORIZATION_PENDING, Code.SLOW_DOWN):
                server.note("token", error.code, client=client_label(client.id), grant=grant_type)
            raise
        server.note("token", "issued", client=client_label(client.id), grant=grant_type)
        return answers.json_answer(answer)

    async def _code(self, client: Client, form: Parameters) -> dict[str, Any]:
        server, code = self._server, form.require("code")
        grant = await server.state.codes.grant(code, now=server.now())
        if grant is None or grant["client_id"] != client.id:
            raise OAuthError(Code.INVALID_GRANT, "the code is not good (any more), or another client's")
        redirect_uri = form.get("redirect_uri")
        if redirect_uri is None and not grant["redirect_given"]:
            redirect_uri = grant["redirect_uri"]
        if not hmac.compare_digest((redirect_uri or "").encode(), str(grant["redirect_uri"]).encode()):
            raise OAuthError(Code.INVALID_GRANT, "redirect_uri is not the one that the code was sent to")
        verifier = form.get("code_verifier")
        if verifier is None or not pkce.proves(verifier, grant["challenge"]):
            raise OAuthError(Code.INVALID_GRANT, "code_verifier is missing or does not match the challenge")
        server.admit(grant["identity"])
        login = server.state.logins.new_name(self._expires(grant))
        first = await server.state.codes.use(code, login=login)
        if first is not None:
            await server.state.logins.end(first, why="its code was used again")
            log.warning("code used again", extra={"fields": {"client": client_label(client.id)}})
            raise OAuthError(Code.INVALID_GRANT, "the code was used already")
        return await self._begin(login, client, grant)

    async def _device(self, client: Client, form: Parameters) -> dict[str, Any]:
        server, devices = self._server, self._server.state.devices
        device_code = form.require("device_code")
        device = await devices.find(device_code)
        if device is None or device.request["client_id"] != client.id:
            raise OAuthError(Code.INVALID_GRANT, "device_code is not known, or another client's")
        if int(device.name[:10]) <= server.now():
            raise OAuthError(Code.EXPIRED_TOKEN, "device_code has expired; begin again")
        decision = await devices.decision(device.name)
        if decision is None:
            if not self._pace.may_ask(device.name, now=server.now()):
                raise OAuthError(Code.SLOW_DOWN, "asked too soon; wait 5 seconds longer from now on")
            raise OAuthError(Code.AUTHORIZATION_PENDING, "nobody has signed in for the device yet")
        if not decision["allowed"]:
            raise OAuthError(Code.ACCESS_DENIED, "signing in for the device was refused")
        server.admit(decision["identity"])
        if not await devices.collect(device.name):
            raise OAuthError(Code.INVALID_GRANT, "device_code was used already")
        grant = {**device.request, **decision}
        return await self._begin(server.state.logins.new_name(self._expires(grant)), client, grant)

    async def _refresh(self, client: Client, form: Parameters) -> dict[str, Any]:
        server = self._server
        login = await server.state.logins.find(form.require("refresh_token"), now=server.now())
        if login is None or login.facts["client_id"] != client.id:
            raise OAuthError(Code.INVALID_GRANT, "refresh_token is not good (any more), or another client's")
        scope = scopes.narrowed(login.facts["scope"], form.get("scope"))
        identity = await renewal.identity(server, login)
        try:
            server.admit(identity)
        except OAuthError:
            await server.state.logins.end(login.token.login, why="not admitted any more")
            raise OAuthError(Code.INVALID_GRANT, "the person is not admitted any more") from None
        try:
            refresh_token = await server.state.logins.rotate(login, now=server.now())
        except ReusedError:
            fields = {"client": client_label(client.id), "subject": server.label(identity)}
            log.warning("refresh token used again: its login is ended", extra={"fields": fields})
            raise OAuthError(Code.INVALID_GRANT, "refresh_token was used before; sign in anew") from None
        return self._answer(client, identity, scope, refresh_token)

    async def _begin(self, login: str, client: Client, grant: Mapping[str, Any]) -> dict[str, Any]:
        server, identity = self._server, grant["identity"]
        server.state.take_room("logins")
        facts = {
            name: grant[name] for name in ("identity", "checked", "provider", "scope", "client_id") if name in grant
        }
        label = server.label(identity)
        refresh_token = await server.state.logins.begin(login, facts, person=label, now=server.now())
        return self._answer(client, identity, grant["scope"], refresh_token)

    def _answer(self, client: Client, identity: Mapping[str, Any], scope: str, refresh_token: str) -> dict[str, Any]:
        server = self._server
        access_token = tokens.issue(
            server.keys(),
            server.settings(),
            identity=identity,
            client_id=client.id,
            scope=scope,
            now=int(server.now()),
            jti=server.entropy(16).hex(),
        )
        return {
            "access_token": access_token,
            "token_type": "Bearer",
            "expires_in": tokens.LIFE,
            "refresh_token": refresh_token,
            "scope": scope,
        }

    def _expires(self, grant: Mapping[str, Any]) -> int:
        """When a login ends: late where the provider can be asked anew, else as broker.yaml says."""
        sign_in = self._server.settings().identity
        longest = sign_in.max_login if sign_in is not None else 0
        return int(self._server.now() + (REFRESH_LIFE if "provider" in grant else longest))
