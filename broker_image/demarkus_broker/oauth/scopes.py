"""Scopes: one, and the word for staying. What a person may do is decided by access entries, not by scopes. Pure."""

from __future__ import annotations

import re

from demarkus_broker.oauth.errors import Code, OAuthError

MCP = "mcp"
SUPPORTED = (MCP, "offline_access")

_SCOPE = re.compile(r"[\x21\x23-\x5b\x5d-\x7e]+( [\x21\x23-\x5b\x5d-\x7e]+)*")


def granted(asked: str | None) -> str:
    """The scope that is given where `asked` was asked for: what is known of it, at least `mcp` (RFC 6749, 3.3).

    Raises OAuthError for what is no scope.
    """
    if asked is None:
        return MCP
    if not _SCOPE.fullmatch(asked):
        raise OAuthError(Code.INVALID_SCOPE, "scope is a list of words with single spaces between")
    words = asked.split(" ")
    return " ".join(word for word in SUPPORTED if word == MCP or word in words)


def narrowed(held: str, asked: str | None) -> str:
    """The scope of a refreshed token. Raises OAuthError where more is asked for than is held (RFC 6749, 6).

    Words that were left out when the scope was granted may be sent again.
    """
    if asked is None:
        return held
    scope = granted(asked)
    if not set(scope.split(" ")) <= set(held.split(" ")):
        raise OAuthError(Code.INVALID_SCOPE, "scope goes beyond what was granted")
    return scope
