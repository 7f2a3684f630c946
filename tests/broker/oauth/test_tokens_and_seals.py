"""What the authorization server signs, seals and tells of itself."""

from __future__ import annotations

import dataclasses
import json
from typing import Any

import pytest

from demarkus_broker import keys
from demarkus_broker.bearer import MAX_BYTES, BearerError, BearerFault, verify
from demarkus_broker.oauth import metadata
from demarkus_broker.oauth import tokens as access_tokens
from demarkus_broker.oauth.seals import MAX_LENGTH, Purpose, opened, seal
from demarkus_broker.settings import BrokerSettings

URL = "https://mark.example.com"
NOW = 1_800_000_000

# Tokens


@pytest.fixture
def settings() -> BrokerSettings:
    return BrokerSettings.model_validate(
        {
            "publicURL": URL,
            "listen": {"http": "127.0.0.1:0", "health": "127.0.0.1:0"},
            "keys": {"directory": "/keys"},
            "caBundle": "/ca.crt",
            "identity": {
                "issuer": "https://accounts.example.com",
                "clientID": "gateway",
                "clientSecretFile": "/secret",
                "rules": [{"groups": ["Staff"]}, {"claims": {"tid": ["t"]}}],
            },
            "state": {"directory": "/state"},
        }
    )


def issued(key_files: Any, settings: BrokerSettings, **identity: Any) -> str:
    return access_tokens.issue(
        key_files.load(),
        settings,
        identity={"sub": "ann", "email": "ann@example.com", "email_verified": True} | identity,
        client_id="d-1",
        scope="mcp",
        now=NOW,
        jti="j",
    )


def read_back(token: str, key_files: Any, *, now: float = NOW) -> dict[str, Any]:
    return verify(token, key_files.load().bearers, issuer=URL, audience=f"{URL}/mcp", now=now)


def test_f14_a_token_is_good_the_moment_it_is_signed_also_where_the_clock_is_behind(
    key_files: Any, settings: BrokerSettings
) -> None:
    token = issued(key_files, settings)
    for clock in (NOW, NOW - 20, NOW + access_tokens.LIFE - 1):
        assert read_back(token, key_files, now=clock)["sub"] == "ann"
    with pytest.raises(BearerError, match=BearerFault.EXPIRED):
        read_back(token, key_files, now=NOW + access_tokens.LIFE)


def test_a_token_tells_what_is_compared_and_stays_small(key_files: Any, settings: BrokerSettings) -> None:
    groups = [f"group-{n:04d}-of-a-large-company" for n in range(2000)] + ["staff"]
    token = issued(key_files, settings, groups=groups, tid="t", phone="1", iss="https://evil.example")
    claims = read_back(token, key_files)
    assert claims["groups"] == ["staff"]
    assert claims["tid"] == "t"
    assert "phone" not in claims
    assert claims["iss"] == URL
    assert len(token) < MAX_BYTES


def test_f13_tokens_and_seals_outlive_the_process_since_their_keys_are_files(
    key_files: Any, settings: BrokerSettings
) -> None:
    token = issued(key_files, settings)
    before, after = key_files.load(), keys.load(key_files.files(), source="keys")
    assert verify(token, after.bearers, issuer=URL, audience=f"{URL}/mcp", now=NOW)
    sealed = seal({"a": 1}, key=before.cookie, purpose=Purpose.LOGIN, expires=NOW + 60, nonce=bytes(12))
    assert opened(sealed, key=after.cookie, purpose=Purpose.LOGIN, now=NOW) == {"a": 1}
    assert before.label(URL, "ann") == after.label(URL, "ann")


def test_while_keys_are_exchanged_tokens_of_both_are_good(
    key_files: Any, another_key: Any, settings: BrokerSettings
) -> None:
    old = issued(key_files, settings)
    new_files = dataclasses.replace(key_files, broker=another_key)
    new = issued(new_files, settings)
    both = keys.load(
        key_files.files() | new_files.files() | {"signing.json": json.dumps({"broker": new_files.kid}).encode()},
        source="keys",
    )
    for token in (old, new):
        assert verify(token, both.bearers, issuer=URL, audience=f"{URL}/mcp", now=NOW)
    with pytest.raises(BearerError, match=BearerFault.UNKNOWN_KEY):
        verify(old, new_files.load().bearers, issuer=URL, audience=f"{URL}/mcp", now=NOW)
    assert [key["kid"] for key in access_tokens.public_keys(both.bearers)["keys"]] == sorted(both.bearers)


def test_the_published_keys_are_public(key_files: Any) -> None:
    (key,) = access_tokens.public_keys(key_files.load().bearers)["keys"]
    assert set(key) == {"kty", "crv", "x", "y", "kid", "use", "alg"}


# Seals


@pytest.mark.parametrize(
    ("change", "key", "purpose", "now"),
    [
        (lambda s: s, bytes(32), Purpose.DEVICE, NOW),
        (lambda s: s, bytes(31) + b"1", Purpose.LOGIN, NOW),
        (lambda s: s, bytes(32), Purpose.LOGIN, NOW + 60),
        (lambda s: s[:-2] + "AA", bytes(32), Purpose.LOGIN, NOW),
        (lambda s: "B" + s[1:], bytes(32), Purpose.LOGIN, NOW),
        (lambda s: s[:10], bytes(32), Purpose.LOGIN, NOW),
        (lambda s: "", bytes(32), Purpose.LOGIN, NOW),
        (lambda s: s + "ä", bytes(32), Purpose.LOGIN, NOW),
        (lambda s: s * (MAX_LENGTH // 10), bytes(32), Purpose.LOGIN, NOW),
    ],
    ids=["purpose", "key", "over", "altered end", "altered nonce", "cut", "empty", "not ASCII", "too long"],
)
def test_a_seal_opens_only_as_it_was_made(change: Any, key: bytes, purpose: Purpose, now: int) -> None:
    sealed = seal({"sub": "ann"}, key=bytes(32), purpose=Purpose.LOGIN, expires=NOW + 60, nonce=b"\1" * 12)
    assert opened(change(sealed), key=key, purpose=purpose, now=now) is None


# Metadata


def test_f1_metadata_offers_what_clients_look_for() -> None:
    document = metadata.document(URL)
    assert document["issuer"] == URL
    assert document["client_id_metadata_document_supported"] is True
    assert "none" in document["token_endpoint_auth_methods_supported"]
    assert document["code_challenge_methods_supported"] == ["S256"]
    assert document["authorization_response_iss_parameter_supported"] is True
    assert document["revocation_endpoint"] == f"{URL}/token/revoke"
    assert all(value.startswith(URL) for name, value in document.items() if name.endswith("_endpoint"))
