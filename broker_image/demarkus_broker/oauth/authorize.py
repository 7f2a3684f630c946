"""Where a client sends somebody's browser (RFC 6749, 3.1): the question whether it may, then on to the provider.

The question is not left out for anybody: whoever is signed in at the provider would otherwise be sent through, and any
client that registered itself would get in. What is pending while somebody signs in travels in sealed cookies, so any
replica goes on with it.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any
from urllib.parse import urlsplit

from starlette.requests import Request
from starlette.responses import Response

from demarkus_broker.oauth import answers, metadata, pages, parameters, pkce, requests
from demarkus_broker.oauth.errors import Code, OAuthError
from demarkus_broker.oauth.provider import ProviderError, UnavailableError
from demarkus_broker.oauth.requests import AuthorizationRequest
from demarkus_broker.oauth.seals import Purpose
from demarkus_broker.oauth.server import AuthorizationServer, client_label
from demarkus_broker.state.names import digest

CONSENT = "/oauth/consent"
CONSENT_LIFE = 600
"""Seconds to answer the question."""
LOGIN_LIFE = 600
"""Seconds to sign in at the provider."""
BROWSER = "demarkus-browser"
"""Cookie that ties a question to the browser that was asked."""


async def authorize(server: AuthorizationServer, request: Request) -> Response:
    """Judge an authorization request and ask."""
    if request.method == "POST":
        sent = await answers.form(request)
    else:
        sent = parameters.read(request.scope["query_string"])
    client = await server.client(sent.require("client_id"))
    redirect_uri = requests.trusted_redirect(sent, client)
    try:
        judged = requests.judge(sent, client=client, redirect_uri=redirect_uri, public_url=server.issuer)
    except OAuthError as error:
        server.note("authorize", error.code, client=client_label(client.id))
        return answers.redirect(
            requests.answer(redirect_uri, issuer=server.issuer, state=sent.get("state"), members=error.body())
        )
    server.note("authorize", "asked", client=client_label(client.id))
    return question(
        server,
        {"request": judged.facts()},
        Purpose.CONSENT,
        lambda sealed: pages.consent(
            client=client.name, destination=_destination(redirect_uri), sealed=sealed, action=CONSENT
        ),
        path=CONSENT,
        leads_to=(server.provider().origin, redirect_uri),
    )


async def consent(server: AuthorizationServer, request: Request) -> Response:
    """Take the answer to the question."""
    value, allowed = await answer_to_question(server, request, Purpose.CONSENT)
    judged = AuthorizationRequest(**value["request"])
    if not allowed:
        server.note("consent", "refused", client=client_label(judged.client_id))
        return answers.redirect(
            refused(server, judged, OAuthError(Code.ACCESS_DENIED, "the person in front of the browser refused"))
        )
    try:
        return await to_provider(server, {"request": judged.facts()})
    except ProviderError as error:
        return answers.redirect(refused(server, judged, of_provider(server, error)))


def refused(server: AuthorizationServer, judged: AuthorizationRequest, error: OAuthError) -> str:
    """The URL that tells a client of a refusal."""
    return requests.answer(judged.redirect_uri, issuer=server.issuer, state=judged.state, members=error.body())


def of_provider(server: AuthorizationServer, error: ProviderError) -> OAuthError:
    """What a client is told of a failure of the provider; the log has the reason."""
    if isinstance(error, UnavailableError):
        server.note("provider", "unavailable", reason=str(error))
        return OAuthError(Code.TEMPORARILY_UNAVAILABLE, "the sign-in provider does not answer; try again later")
    server.note("provider", "failed", reason=str(error))
    return OAuthError(Code.SERVER_ERROR, "signing in at the provider failed")


def question(
    server: AuthorizationServer,
    value: dict[str, Any],
    purpose: Purpose,
    page: Callable[[str], str],
    *,
    path: str,
    leads_to: tuple[str | None, ...],
) -> Response:
    """A page with a question, tied to the browser that gets it."""
    browser = server.random()
    sealed = server.seal({**value, "browser": digest(browser)}, purpose, life=CONSENT_LIFE)
    answer = answers.page(page(sealed), leads_to=leads_to)
    name = f"{BROWSER}-{digest(sealed)[:8]}"
    answers.cookie(server, answer, name, browser, path=path, life=CONSENT_LIFE, strict=True)
    return answer


async def answer_to_question(
    server: AuthorizationServer, request: Request, purpose: Purpose
) -> tuple[dict[str, Any], bool]:
    """What was asked, and whether it was allowed. Raises OAuthError if it did not come from that page and browser."""
    sent = await answers.form(request)
    sealed = sent.require("request")
    value = server.opened(sealed, purpose)
    browser = request.cookies.get(f"{BROWSER}-{digest(sealed)[:8]}", "")
    if value is None or value["browser"] != digest(browser) or not answers.is_from_our_page(request):
        server.note("consent", "not-ours")
        raise OAuthError(Code.INVALID_REQUEST, "the question was not asked in this browser, or too long ago")
    return value, sent.get("decision") == "allow"


async def to_provider(server: AuthorizationServer, pending: dict[str, Any]) -> Response:
    """Send a browser to the provider, with what is pending in a cookie. Raises ProviderError."""
    state, nonce, verifier = server.random(), server.random(), server.random()
    url = await server.provider().login_url(state=state, nonce=nonce, challenge=pkce.challenge_of(verifier))
    sealed = server.seal(
        {**pending, "state": state, "nonce": nonce, "verifier": verifier}, Purpose.LOGIN, life=LOGIN_LIFE
    )
    answer = answers.redirect(url)
    answers.cookie(server, answer, login_cookie(state), sealed, path=metadata.CALLBACK, life=LOGIN_LIFE, strict=False)
    return answer


def login_cookie(state: str) -> str:
    """The cookie of a login by its state, so that several may be under way in one browser."""
    return f"demarkus-login-{digest(state)[:8]}"


def _destination(redirect_uri: str) -> str:
    """Where a redirect leads, in words for people."""
    parts = urlsplit(redirect_uri)
    return "a program on this computer" if parts.scheme != "https" else parts.netloc
