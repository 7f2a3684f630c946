"""Where the provider sends the browser back to: who is it, may they come in, and on to whoever waits for that."""

from __future__ import annotations

from typing import Any

from starlette.requests import Request
from starlette.responses import Response

from demarkus_broker.oauth import answers, metadata, pages, parameters, requests
from demarkus_broker.oauth.authorize import login_cookie, of_provider, refused
from demarkus_broker.oauth.errors import Code, OAuthError
from demarkus_broker.oauth.parameters import Parameters
from demarkus_broker.oauth.provider import ProviderError, SignedIn
from demarkus_broker.oauth.requests import AuthorizationRequest
from demarkus_broker.oauth.seals import Purpose
from demarkus_broker.oauth.server import AuthorizationServer, client_label

CODE_LIFE = 60
"""Seconds for which an authorization code is good."""
PROVIDER_TOKEN_LIFE = 400 * 86400


async def callback(server: AuthorizationServer, request: Request) -> Response:
    """Take the provider's answer."""
    sent = parameters.read(request.scope["query_string"])
    state = sent.require("state")
    pending = server.opened(request.cookies.get(login_cookie(state)), Purpose.LOGIN)
    if pending is None or pending["state"] != state:
        server.note("callback", "not-ours")
        raise OAuthError(Code.INVALID_REQUEST, "this sign-in was not begun in this browser, or too long ago")
    answer = await (_device(server, sent, pending) if "device" in pending else _code(server, sent, pending))
    answers.cookie(server, answer, login_cookie(state), "", path=metadata.CALLBACK, life=0, strict=False)
    return answer


async def _code(server: AuthorizationServer, sent: Parameters, pending: dict[str, Any]) -> Response:
    judged = AuthorizationRequest(**pending["request"])
    try:
        signed_in = await _signed_in(server, sent, pending)
        server.state.take_room("codes")
    except OAuthError as error:
        server.note("callback", error.code, client=client_label(judged.client_id))
        return answers.redirect(refused(server, judged, error))
    grant = {**judged.facts(), **login_facts(server, signed_in)}
    code = await server.state.codes.issue(grant, expires=int(server.now()) + CODE_LIFE)
    server.note("callback", "code", client=client_label(judged.client_id), subject=server.label(signed_in.claims))
    return answers.redirect(
        requests.answer(judged.redirect_uri, issuer=server.issuer, state=judged.state, members={"code": code})
    )


async def _device(server: AuthorizationServer, sent: Parameters, pending: dict[str, Any]) -> Response:
    signed_in = await _signed_in(server, sent, pending)
    decision = {"allowed": True, **login_facts(server, signed_in)}
    if not await server.state.devices.decide(pending["device"], decision):
        raise OAuthError(Code.INVALID_REQUEST, "this device's request was decided already")
    server.note("device", "allowed", subject=server.label(signed_in.claims))
    return answers.page(pages.done("Your device is connected", "You may close this page and go on at your device."))


async def _signed_in(server: AuthorizationServer, sent: Parameters, pending: dict[str, Any]) -> SignedIn:
    """Who signed in. Raises OAuthError."""
    provider = server.provider()
    try:
        if not await provider.is_answer(sent.get("iss")):
            raise OAuthError(Code.ACCESS_DENIED, "the answer is not from the sign-in provider")
        code, problem = sent.get("code"), sent.get("error")
        if problem is not None or code is None:
            busy = problem in (Code.TEMPORARILY_UNAVAILABLE, Code.SERVER_ERROR)
            raise OAuthError(
                Code.TEMPORARILY_UNAVAILABLE if busy else Code.ACCESS_DENIED, "the sign-in provider did not let you in"
            )
        signed_in = await provider.exchange(code, verifier=pending["verifier"], nonce=pending["nonce"])
    except ProviderError as error:
        raise of_provider(server, error) from None
    server.admit(signed_in.claims)
    return signed_in


def login_facts(server: AuthorizationServer, signed_in: SignedIn) -> dict[str, Any]:
    """What is kept of somebody who signed in: their claims, when, and sealed what they are asked for anew with."""
    facts: dict[str, Any] = {"identity": dict(signed_in.claims), "checked": int(server.now())}
    if signed_in.refresh_token is not None:
        facts["provider"] = server.seal(
            {"token": signed_in.refresh_token}, Purpose.PROVIDER_TOKEN, life=PROVIDER_TOKEN_LIFE
        )
    return facts
