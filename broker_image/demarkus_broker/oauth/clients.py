"""Clients: who they are, and how they show it. Pure.

Three kinds: hosted clients named in broker.yaml, which have a secret; clients that registered themselves, and clients
whose identifier is the URL of their own description. The latter two have none, and PKCE stands in for it.
"""

from __future__ import annotations

import base64
import hmac
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any
from urllib.parse import unquote_plus

from demarkus_broker.oauth.errors import Code, OAuthError
from demarkus_broker.oauth.parameters import Parameters
from demarkus_broker.settings import WebClientSettings
from demarkus_broker.state.names import digest


@dataclass(frozen=True, slots=True, kw_only=True)
class Client:
    """A client that is known. `secret_hash` is None for a public one."""

    id: str
    name: str
    redirect_uris: tuple[str, ...]
    secret_hash: str | None = field(default=None, repr=False)


@dataclass(frozen=True, slots=True, kw_only=True)
class Credentials:
    """What a client says of itself at the token endpoint. `basic`: it came in the Authorization header."""

    id: str
    secret: str | None = field(default=None, repr=False)
    basic: bool = False


def web_client(settings: WebClientSettings) -> Client:
    """A hosted client of broker.yaml."""
    return Client(
        id=settings.client_id,
        name=settings.name,
        redirect_uris=settings.redirect_uris,
        secret_hash=settings.secret_hash,
    )


def registered_client(client_id: str, metadata: Mapping[str, Any]) -> Client:
    """A client from what was registered."""
    return Client(
        id=client_id, name=str(metadata["client_name"]), redirect_uris=tuple(map(str, metadata["redirect_uris"]))
    )


def credentials(authorization: list[str], form: Parameters) -> Credentials:
    """Who asks, by the Authorization headers or by the form, not by both (RFC 6749, 2.3). Raises OAuthError."""
    client_id, secret = form.get("client_id"), form.get("client_secret")
    if not authorization:
        if client_id is None:
            raise OAuthError(Code.INVALID_CLIENT, "client_id is missing")
        return Credentials(id=client_id, secret=secret)
    if len(authorization) > 1 or secret is not None:
        raise OAuthError(Code.INVALID_REQUEST, "more than one way of authentication is used")
    found = _basic(authorization[0])
    if found is None or (client_id is not None and client_id != found.id):
        raise OAuthError(Code.INVALID_CLIENT, "the Authorization header names no client, or another one than the form")
    return found


def authenticate(client: Client, given: Credentials) -> None:
    """Check a client's secret; a public client has none to show. Raises OAuthError."""
    if client.secret_hash is None:
        if given.basic and given.secret:
            raise OAuthError(Code.INVALID_CLIENT, "this client is public and has no secret")
        return
    if given.secret is None or not hmac.compare_digest(digest(given.secret), client.secret_hash):
        raise OAuthError(Code.INVALID_CLIENT, "the client's secret is missing or wrong")


def _basic(header: str) -> Credentials | None:
    scheme, _, encoded = header.partition(" ")
    if scheme.lower() != "basic":
        return None
    try:
        text = base64.b64decode(encoded.strip(), validate=True).decode("utf-8")
    except ValueError:
        return None
    name, colon, secret = text.partition(":")
    if not colon:
        return None
    return Credentials(id=unquote_plus(name), secret=unquote_plus(secret), basic=True)
