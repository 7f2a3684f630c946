"""How the gateway presents itself as a protected resource: its metadata (RFC 9728) and its challenge (RFC 6750).

Pure. Two documents, each with the identifier it was derived from: the path-suffixed one is for `<publicURL>/mcp`, the
root one for `<publicURL>`. The authorization server is the gateway itself, where people can sign in; elsewhere bearers
are handed out by whoever set the universe up, and no `authorization_servers` are named.
"""

from __future__ import annotations

from demarkus_broker.oauth.scopes import SUPPORTED
from demarkus_broker.settings import BrokerSettings

WELL_KNOWN = "/.well-known/oauth-protected-resource"


def metadata(resource: str, *, issuer: str | None) -> dict[str, object]:
    """The metadata document of a resource identifier. `issuer`: where people can sign in."""
    document: dict[str, object] = {
        "resource": resource,
        "resource_name": "Demarkus",
        "bearer_methods_supported": ["header"],
    }
    if issuer is not None:
        document |= {"authorization_servers": [issuer], "scopes_supported": list(SUPPORTED)}
    return document


def challenge(settings: BrokerSettings, *, refused: bool) -> str:
    """The WWW-Authenticate value of a 401. `refused`: something was sent and is not valid; else nothing was sent."""
    error = (
        'error="invalid_token", error_description="The bearer is not valid here; get a new one", ' if refused else ""
    )
    return f'Bearer {error}resource_metadata="{settings.public_url}{WELL_KNOWN}/mcp"'
