"""The authorization server's metadata (RFC 8414). Pure."""

from __future__ import annotations

from typing import Any

from demarkus_broker.oauth import registration, scopes

AUTHORIZE = "/oauth/authorize"
TOKEN = "/token"
TOKEN_ALIAS = "/device/token"
REGISTER = "/register"
REVOKE = "/token/revoke"
DEVICE_AUTHORIZE = "/device/authorize"
DEVICE = "/device"
CALLBACK = "/auth/callback"
JWKS = "/.well-known/jwks.json"
WELL_KNOWN = "/.well-known/oauth-authorization-server"
WELL_KNOWN_OIDC = "/.well-known/openid-configuration"

AUTHENTICATION = ("none", "client_secret_basic", "client_secret_post")


def document(public_url: str) -> dict[str, Any]:
    """The document; `issuer` is the public URL, exactly."""
    return {
        "issuer": public_url,
        "authorization_endpoint": public_url + AUTHORIZE,
        "token_endpoint": public_url + TOKEN,
        "registration_endpoint": public_url + REGISTER,
        "revocation_endpoint": public_url + REVOKE,
        "device_authorization_endpoint": public_url + DEVICE_AUTHORIZE,
        "jwks_uri": public_url + JWKS,
        "scopes_supported": list(scopes.SUPPORTED),
        "response_types_supported": ["code"],
        "response_modes_supported": ["query"],
        "grant_types_supported": list(registration.GRANT_TYPES),
        "token_endpoint_auth_methods_supported": list(AUTHENTICATION),
        "revocation_endpoint_auth_methods_supported": list(AUTHENTICATION),
        "code_challenge_methods_supported": ["S256"],
        "authorization_response_iss_parameter_supported": True,
        "client_id_metadata_document_supported": True,
    }
