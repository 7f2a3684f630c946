"""Authorization requests (RFC 6749, 4.1.1; RFC 7636; RFC 8707), judged in two steps.

First who asks and where the answer may go: until both are certain, nobody is redirected. Then the rest: what is wrong
there is told to the client at its redirect URI, with its `state` and our `iss` (RFC 9207). Pure.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict, dataclass
from typing import Any
from urllib.parse import urlencode

from demarkus_broker.oauth import pkce, redirects, resources, scopes
from demarkus_broker.oauth.clients import Client
from demarkus_broker.oauth.errors import Code, OAuthError
from demarkus_broker.oauth.parameters import Parameters

MAX_STATE = 1024


@dataclass(frozen=True, slots=True, kw_only=True)
class AuthorizationRequest:
    """A request that may be answered with a code."""

    client_id: str
    redirect_uri: str
    redirect_given: bool
    state: str | None
    challenge: str
    scope: str

    def facts(self) -> dict[str, Any]:
        """As JSON data; `AuthorizationRequest(**facts)` gives it back."""
        return asdict(self)


def trusted_redirect(sent: Parameters, client: Client) -> str:
    """Where the answer goes. Left out, it is the only one that the client registered. Raises OAuthError."""
    asked = sent.get("redirect_uri")
    if asked is None:
        only = client.redirect_uris
        if len(only) == 1 and not redirects.is_native(only[0]):
            return only[0]
        raise OAuthError(Code.INVALID_REQUEST, "redirect_uri is missing")
    if not redirects.matches(client.redirect_uris, asked):
        raise OAuthError(Code.INVALID_REQUEST, "redirect_uri is none of those that the client registered")
    return asked


def judge(sent: Parameters, *, client: Client, redirect_uri: str, public_url: str) -> AuthorizationRequest:
    """Read a request whose redirect URI is trusted. Raises OAuthError."""
    if sent.require("response_type") != "code":
        raise OAuthError(Code.UNSUPPORTED_RESPONSE_TYPE, "response_type has to be code")
    if sent.get("response_mode") not in (None, "query"):
        raise OAuthError(Code.INVALID_REQUEST, "response_mode has to be query")
    if any(sent.get(name) is not None for name in ("request", "request_uri")):
        raise OAuthError(Code.INVALID_REQUEST, "request objects are not supported")
    challenge = sent.get("code_challenge")
    if challenge is None:
        raise OAuthError(Code.INVALID_REQUEST, "code_challenge is missing; every client has to use PKCE")
    if sent.get("code_challenge_method") != "S256":
        raise OAuthError(Code.INVALID_REQUEST, "code_challenge_method has to be S256")
    if not pkce.is_challenge(challenge):
        raise OAuthError(Code.INVALID_REQUEST, "code_challenge is no SHA-256 in base64url")
    state = sent.get("state")
    if state is not None and not (len(state) <= MAX_STATE and state.isascii() and state.isprintable()):
        raise OAuthError(Code.INVALID_REQUEST, f"state is at most {MAX_STATE} printable ASCII characters")
    resources.check(sent.all("resource"), public_url)
    return AuthorizationRequest(
        client_id=client.id,
        redirect_uri=redirect_uri,
        redirect_given=sent.get("redirect_uri") is not None,
        state=state,
        challenge=challenge,
        scope=scopes.granted(sent.get("scope")),
    )


def answer(redirect_uri: str, *, issuer: str, state: str | None, members: Mapping[str, str]) -> str:
    """The URL that carries an answer to a client."""
    query = urlencode({**members, **({"state": state} if state is not None else {}), "iss": issuer})
    return f"{redirect_uri}{'&' if '?' in redirect_uri else '?'}{query}"
