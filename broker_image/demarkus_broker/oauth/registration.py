"""What a client may register (RFC 7591): a name and redirect URIs, never a secret. Pure."""

from __future__ import annotations

import json
from dataclasses import dataclass
from typing import Any

from demarkus_broker.oauth import redirects
from demarkus_broker.oauth.errors import Code, OAuthError

LIFE = 90 * 86400
"""Seconds for which a registration lasts."""
MAX_BYTES = 16 << 10
MOST_REDIRECTS = 8
MAX_NAME = 128

GRANT_TYPES = ("authorization_code", "refresh_token", "urn:ietf:params:oauth:grant-type:device_code")


@dataclass(frozen=True, slots=True, kw_only=True)
class Registration:
    """What is kept of what a client says of itself."""

    name: str
    redirect_uris: tuple[str, ...]

    def facts(self) -> dict[str, Any]:
        """As it is kept."""
        return {"client_name": self.name, "redirect_uris": list(self.redirect_uris)}

    def answer(self, client_id: str, *, now: int) -> dict[str, Any]:
        """The answer to the client: everything that is registered, also where it differs from what was asked for."""
        return {
            "client_id": client_id,
            "client_id_issued_at": now,
            **self.facts(),
            "token_endpoint_auth_method": "none",
            "grant_types": list(GRANT_TYPES),
            "response_types": ["code"],
        }


def read(body: bytes) -> Registration:
    """Take in a registration request. Raises OAuthError."""
    if len(body) > MAX_BYTES:
        raise _metadata(f"at most {MAX_BYTES} bytes of metadata")
    try:
        asked = json.loads(body)
    except (ValueError, RecursionError):
        asked = None
    if not isinstance(asked, dict):
        raise _metadata("the metadata is a JSON object")
    return described(asked)


def described(asked: dict[str, Any]) -> Registration:
    """What counts of a client's metadata. Raises OAuthError."""
    uris = asked.get("redirect_uris")
    if uris is None and _only_device(asked.get("grant_types")):
        uris = []
    elif not isinstance(uris, list) or not 1 <= len(uris) <= MOST_REDIRECTS:
        raise OAuthError(Code.INVALID_REDIRECT_URI, f"redirect_uris is a list of 1 to {MOST_REDIRECTS}")
    for uri in uris:
        reason = redirects.why_not(uri) if isinstance(uri, str) else "a redirect URI is text"
        if reason:
            raise OAuthError(Code.INVALID_REDIRECT_URI, reason)
    types = asked.get("response_types", ["code"])
    if not isinstance(types, list) or "code" not in (types or ["code"]):
        raise _metadata("response_types has to name code")
    return Registration(name=_name(asked.get("client_name")), redirect_uris=tuple(uris))


def _name(name: object) -> str:
    if name is None:
        return "A client without a name"
    if not isinstance(name, str) or not name.strip() or len(name) > MAX_NAME or not name.isprintable():
        raise _metadata(f"client_name is printable text of at most {MAX_NAME} characters")
    return name.strip()


def _only_device(grant_types: object) -> bool:
    return isinstance(grant_types, list) and GRANT_TYPES[2] in grant_types and GRANT_TYPES[0] not in grant_types


def _metadata(description: str) -> OAuthError:
    return OAuthError(Code.INVALID_CLIENT_METADATA, description)
