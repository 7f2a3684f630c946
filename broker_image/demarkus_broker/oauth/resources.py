"""Which resource a token is asked for (RFC 8707). There is one: the gateway's MCP endpoint. Pure.

Clients pass the identifier through a URL type, which adds slashes and default ports, or send the origin for the
endpoint: all of these mean the gateway. What is signed and answered is one canonical form without a trailing slash.
"""

from __future__ import annotations

from collections.abc import Iterable
from urllib.parse import urlsplit

from demarkus_broker.oauth.errors import Code, OAuthError

_PATHS = frozenset({"", "/", "/mcp", "/mcp/"})
_DEFAULT_PORTS = {"http": 80, "https": 443}


def check(asked: Iterable[str], public_url: str) -> None:
    """Refuse resources that are not this gateway; none at all means it. Raises OAuthError."""
    if not all(is_ours(resource, public_url) for resource in asked):
        raise OAuthError(Code.INVALID_TARGET, f"resource has to be {public_url}/mcp, the one that is served here")


def is_ours(resource: str, public_url: str) -> bool:
    """Whether a resource identifier means this gateway."""
    ours = urlsplit(public_url)
    try:
        parts = urlsplit(resource)
        port = parts.port
    except ValueError:
        return False
    if parts.scheme != ours.scheme or parts.hostname != ours.hostname or "@" in parts.netloc:
        return False
    default = _DEFAULT_PORTS[ours.scheme]
    return (
        (default if port is None else port) == (ours.port or default)
        and parts.path in _PATHS
        and not any(mark in resource for mark in "?#\\\t\r\n ")
    )
