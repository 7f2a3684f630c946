"""How the authorization server says no: the error codes of the RFCs, each with its HTTP status."""

from __future__ import annotations

from enum import StrEnum


class Code(StrEnum):
    """RFC 6749 (4.1.2.1, 5.2), RFC 7009 (2.2.1), RFC 7591 (3.2.2), RFC 8628 (3.5), RFC 8707 (2)."""

    INVALID_REQUEST = "invalid_request"
    INVALID_CLIENT = "invalid_client"
    INVALID_GRANT = "invalid_grant"
    UNAUTHORIZED_CLIENT = "unauthorized_client"
    UNSUPPORTED_GRANT_TYPE = "unsupported_grant_type"
    UNSUPPORTED_RESPONSE_TYPE = "unsupported_response_type"
    INVALID_SCOPE = "invalid_scope"
    INVALID_TARGET = "invalid_target"
    ACCESS_DENIED = "access_denied"
    SERVER_ERROR = "server_error"
    TEMPORARILY_UNAVAILABLE = "temporarily_unavailable"
    AUTHORIZATION_PENDING = "authorization_pending"
    SLOW_DOWN = "slow_down"
    EXPIRED_TOKEN = "expired_token"
    INVALID_REDIRECT_URI = "invalid_redirect_uri"
    INVALID_CLIENT_METADATA = "invalid_client_metadata"


_STATUS = {Code.INVALID_CLIENT: 401, Code.SERVER_ERROR: 500, Code.TEMPORARILY_UNAVAILABLE: 503}


class OAuthError(Exception):
    """A refusal. `description` is for whoever builds the client: ASCII, and nothing that was sent is in it."""

    def __init__(self, code: Code, description: str) -> None:
        super().__init__(f"{code}: {description}")
        self.code = code
        self.description = description

    @property
    def status(self) -> int:
        """The HTTP status of an answer with this error; 400 unless the RFCs say otherwise."""
        return _STATUS.get(self.code, 400)

    def body(self) -> dict[str, str]:
        """The error as members of an answer."""
        return {"error": self.code.value, "error_description": self.description}
