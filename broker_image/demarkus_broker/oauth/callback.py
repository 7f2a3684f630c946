"""Where the provider sends the browser back to: who is it, may they come in, and on to whoever waits for that."""

from __future__ import annotations

from typing import Any

from starlette.requests import Request
from starlette.responses import Response

from demarkus_broker.oauth import answers, metadata, pages, parameters, requests
from demarkus_broker.oauth.authorize import login_cookie, of_provider, refused
from demarkus_broker.oauth.errors import Code, OAuthError
from demarkus_broker.oauth.office import Office, client_label
from demarkus_broker.oauth.parameters import Parameters
from demarkus_broker.oauth.provider import ProviderError, SignedIn
from demarkus_broker.oauth.requests import AuthorizationRequest
from demarkus_broker.oauth.seals import Purpose

CODE_LIFE = 60
"""Seconds for which an authorization code is good."""
PROVIDER_TOKEN_LIFE = 400 * 86400


async def callback(office: Office, request: Request) -> Response:
    """Take the provider's answer."""
    sent = parameters.read(request.scope["query_string"])
    state = sent.require("state")
    pending = office.opened(request.cookies.get(login_cookie(state)), Purpose.LOGIN)
    if pending is None or pending["state"] != state:
        office.note("callback", "not-ours")
        raise OAuthError(Code.INVALID_REQUEST, "this sign-in was not begun in this browser, or too long ago")
    answer = await (_device(office, sent, pending) if "device" in pending else _code(office, sent, pending))
    answers.cookie(office, answer, login_cookie(state), "", path=metadata.CALLBACK, life=0, strict=False)
    return answer


async def _code(office: Office, sent: Parameters, pending: dict[str, Any]) -> Response:
    judged = AuthorizationRequest(**pending["request"])
    try:
        signed_in = await _signed_in(office, sent, pending)
        office.state.take_room("codes")
    except OAuthError as error:
        office.note("callback", error.code, client=client_label(judged.client_id))
        return answers.redirect(refused(office, judged, error))
    grant = {**judged.facts(), **login_facts(office, signed_in)}
    code = await office.state.codes.issue(grant, expires=int(office.now()) + CODE_LIFE)
    office.note("callback", "code", client=client_label(judged.client_id), subject=office.label(signed_in.claims))
    return answers.redirect(
        requests.answer(judged.redirect_uri, issuer=office.issuer, state=judged.state, members={"code": code})
    )


async def _device(office: Office, sent: Parameters, pending: dict[str, Any]) -> Response:
    signed_in = await _signed_in(office, sent, pending)
    decision = {"allowed": True, **login_facts(office, signed_in)}
    if not await office.state.devices.decide(pending["device"], decision):
        raise OAuthError(Code.INVALID_REQUEST, "this device's request was decided already")
    office.note("device", "allowed", subject=office.label(signed_in.claims))
    return answers.page(pages.done("Your device is connected", "You may close this page and go on at your device."))


async def _signed_in(office: Office, sent: Parameters, pending: dict[str, Any]) -> SignedIn:
    """Who signed in. Raises OAuthError."""
    provider = office.provider()
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
        raise of_provider(office, error) from None
    office.admit(signed_in.claims)
    return signed_in


def login_facts(office: Office, signed_in: SignedIn) -> dict[str, Any]:
    """What is kept of somebody who signed in: their claims, when, and sealed what they are asked for anew with."""
    facts: dict[str, Any] = {"identity": dict(signed_in.claims), "checked": int(office.now())}
    if signed_in.refresh_token is not None:
        facts["provider"] = office.seal(
            {"token": signed_in.refresh_token}, Purpose.PROVIDER_TOKEN, life=PROVIDER_TOKEN_LIFE
        )
    return facts
