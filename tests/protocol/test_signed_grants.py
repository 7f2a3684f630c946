"""Grants: what is signed is what is verified, and nothing else is."""

import base64
import json
from dataclasses import replace
from typing import Any

import pytest
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey
from hypothesis import given
from hypothesis import strategies as st
from joserfc import jws
from joserfc.jwk import OKPKey

from mark_protocol.grants import (
    Allow,
    Grant,
    GrantError,
    KeySet,
    KeySetError,
    key_id,
    looks_like_grant,
    public_jwks,
    sign_grant,
    verify_grant,
)

KEY = Ed25519PrivateKey.from_private_bytes(bytes(range(32)))
OTHER = Ed25519PrivateKey.from_private_bytes(bytes(range(1, 33)))
KEYS = KeySet.from_jwks(json.dumps(public_jwks([KEY.public_key()])).encode())
WORLD = "0a" * 16 + "/" + "1b" * 16
NOW = 1_796_000_000


def a_grant(**changes: Any) -> Grant:
    grant = Grant(
        issuer="https://notes.example",
        audience=WORLD,
        subject="s-" + "5c" * 16,
        user="ada@example.org",
        allow=(Allow(frozenset(["read"]), ("/**",)), Allow(frozenset(["publish"]), ("/notes/**",))),
        issued_at=NOW,
        expires_at=NOW + 300,
        kid=key_id(KEY.public_key()),
    )
    return replace(grant, **changes)


def verify(text: str, *, keys: KeySet = KEYS, now: int = NOW, not_before: int | None = None) -> Grant:
    return verify_grant(text, keys, audience=WORLD, now=now, not_before=not_before)


def refusal(text: str, **arguments: Any) -> str:
    with pytest.raises(GrantError) as caught:
        verify(text, **arguments)
    for part in filter(None, text.split(".")):
        assert part not in str(caught.value)
    return str(caught.value)


def signed(header: dict[str, Any] | None = None, claims: dict[str, Any] | None = None, **changes: Any) -> str:
    """A grant made by hand: any claims, any header."""
    text = sign_grant(a_grant(), KEY)
    payload = json.loads(base64.urlsafe_b64decode(text.split(".")[1] + "==")) if claims is None else claims
    payload |= changes
    payload = {name: value for name, value in payload.items() if value is not ...}
    head = {"alg": "Ed25519", "kid": key_id(KEY.public_key()), "typ": "mark-grant"} | (header or {})
    return jws.serialize_compact(head, json.dumps(payload), OKPKey.import_key(KEY), algorithms=["Ed25519"])


def test_signed_grant_is_verified() -> None:
    for grant in (a_grant(), a_grant(user=None), a_grant(allow=())):
        text = sign_grant(grant, KEY)
        assert looks_like_grant(text)
        assert verify(text) == grant


def test_header_and_claims_have_fixed_names() -> None:
    header, payload, _ = (base64.urlsafe_b64decode(part + "==") for part in sign_grant(a_grant(), KEY).split("."))
    assert json.loads(header) == {"alg": "Ed25519", "kid": key_id(KEY.public_key()), "typ": "mark-grant"}
    assert json.loads(payload) == {
        "iss": "https://notes.example",
        "aud": WORLD,
        "sub": "s-" + "5c" * 16,
        "user": "ada@example.org",
        "allow": [
            {"operations": ["read"], "paths": ["/**"]},
            {"operations": ["publish"], "paths": ["/notes/**"]},
        ],
        "iat": NOW,
        "exp": NOW + 300,
    }


def test_tokens_do_not_look_like_grants() -> None:
    for auth in ("", "tea-party-secret", "ab" * 32, "eyJ", "eyJ.x", "eyJ.x.y.z", "x.y.z"):
        assert not looks_like_grant(auth)


def test_permission_is_operation_and_path_of_one_entry() -> None:
    grant = a_grant()
    assert grant.permits("read", "/a.md")
    assert grant.permits("publish", "/notes/a.md")
    assert not grant.permits("publish", "/a.md")
    assert not grant.permits("prune", "/notes/a.md")


def test_other_world_or_incarnation() -> None:
    assert "another world" in refusal(sign_grant(a_grant(audience="0a" * 16 + "/" + "2c" * 16), KEY))


@pytest.mark.parametrize(
    ("issued_at", "expires_at", "reason"),
    [
        (NOW - 299, NOW + 1, None),
        (NOW - 300, NOW, "expired"),
        (NOW + 30, NOW + 330, None),
        (NOW + 31, NOW + 331, "from the future"),
        (NOW, NOW + 301, "life"),
        (NOW, NOW, "life"),
        (NOW + 10, NOW + 5, "life"),
    ],
)
def test_times(issued_at: int, expires_at: int, reason: str | None) -> None:
    text = sign_grant(a_grant(issued_at=issued_at, expires_at=expires_at), KEY)
    if reason is None:
        verify(text)
    else:
        assert reason in refusal(text)


def test_revoked_ages() -> None:
    text = sign_grant(a_grant(), KEY)
    verify(text, not_before=NOW)
    assert "revoked" in refusal(text, not_before=NOW + 1)


def test_key_that_is_not_in_the_set() -> None:
    assert "not in the key set" in refusal(sign_grant(a_grant(kid=key_id(OTHER.public_key())), OTHER))
    assert "not in the key set" in refusal(sign_grant(a_grant(), KEY), keys=KeySet())


def test_signature_of_another_key_under_a_known_name() -> None:
    other = sign_grant(a_grant(kid=key_id(OTHER.public_key())), OTHER).split(".")
    mine = sign_grant(a_grant(), KEY).split(".")
    assert "signature" in refusal(".".join([mine[0], mine[1], other[2]]))


def test_changed_claims() -> None:
    header, payload, signature = sign_grant(a_grant(), KEY).split(".")
    changed = base64.urlsafe_b64decode(payload + "==").replace(b"read", b"prun")
    text = f"{header}.{base64.urlsafe_b64encode(changed).decode().rstrip('=')}.{signature}"
    assert "signature" in refusal(text)


@pytest.mark.parametrize(
    "header", [{"typ": "JWT"}, {"typ": None}, {"crit": ["b64"], "b64": False}, {"jku": "https://x"}]
)
def test_other_headers(header: dict[str, Any]) -> None:
    parts = signed().split(".")
    head = json.loads(base64.urlsafe_b64decode(parts[0] + "==")) | header
    parts[0] = base64.urlsafe_b64encode(json.dumps(head).encode()).decode().rstrip("=")
    assert "header" in refusal(".".join(parts))


def test_unsigned_and_symmetric_algorithms() -> None:
    for algorithm in ("none", "HS256", "EdDSA"):
        header = json.dumps({"alg": algorithm, "kid": key_id(KEY.public_key()), "typ": "mark-grant"}).encode()
        parts = signed().split(".")
        parts[0] = base64.urlsafe_b64encode(header).decode().rstrip("=")
        assert "header" in refusal(".".join(parts))


@pytest.mark.parametrize(
    "changes",
    [
        {"iss": ...},
        {"iss": 1},
        {"aud": [WORLD]},
        {"sub": "ada"},
        {"sub": None},
        {"user": 1},
        {"iat": "1"},
        {"iat": 1.5},
        {"iat": True},
        {"exp": ...},
        {"allow": ...},
        {"allow": None},
        {"allow": [1]},
        {"allow": [{}]},
        {"allow": {"operations": [], "paths": []}},
        {"allow": [{"operations": "read", "paths": ["/**"]}]},
        {"allow": [{"operations": ["read"], "paths": "/**"}]},
        {"allow": [{"operations": [1], "paths": ["/**"]}]},
        {"allow": [{"operations": ["read"], "paths": ["/["]}]},
    ],
    ids=str,
)
def test_claims_of_other_shapes(changes: dict[str, Any]) -> None:
    assert "claims" in refusal(signed(**changes))


def test_payload_that_is_no_object() -> None:
    key = OKPKey.import_key(KEY)
    header = {"alg": "Ed25519", "kid": key_id(KEY.public_key()), "typ": "mark-grant"}
    for payload in (b"[]", b"1", b"", b"\xff", b"[" * 5000):
        text = jws.serialize_compact(dict(header), payload, key, algorithms=["Ed25519"])
        assert "claims" in refusal(text)


@pytest.mark.parametrize(
    "text",
    [
        "",
        "eyJ..",
        "eyJ.e30.x",
        "eyJhbGciOiJub25lIn0.e30.",
        "e30.e30.e30",
        "\u00e9.\u00e9.\u00e9",
        "eyJ" + "x" * 20_000 + "..",
    ],
)
def test_what_is_no_grant(text: str) -> None:
    refusal(text)


@given(st.text(max_size=60) | st.text(alphabet="eyJhbGciOi.-_", max_size=60))
def test_any_text_is_refused(text: str) -> None:
    with pytest.raises(GrantError):
        verify(text)


def test_grant_is_signed_only_with_the_key_it_names() -> None:
    with pytest.raises(ValueError, match="another key"):
        sign_grant(a_grant(), OTHER)


def test_names_of_keys() -> None:
    name = key_id(KEY.public_key())
    assert len(base64.urlsafe_b64decode(name + "=")) == 8
    p256 = ec.derive_private_key(1, ec.SECP256R1()).public_key()
    assert len(key_id(p256)) == 11
    assert len({name, key_id(OTHER.public_key()), key_id(p256)}) == 3


def test_key_set_holds_public_keys_in_order() -> None:
    p256 = ec.derive_private_key(1, ec.SECP256R1()).public_key()
    document = public_jwks([KEY.public_key(), OTHER.public_key(), p256])
    assert document == public_jwks([p256, OTHER.public_key(), KEY.public_key()])
    assert all("d" not in entry and entry["use"] == "sig" for entry in document["keys"])
    keys = KeySet.from_jwks(json.dumps(document).encode())
    assert keys.key_ids == tuple(sorted([key_id(KEY.public_key()), key_id(OTHER.public_key())]))


def test_empty_key_set_verifies_nothing() -> None:
    assert KeySet.from_jwks(b'{"keys": []}').key_ids == ()


GOOD_X = public_jwks([KEY.public_key()])["keys"][0]["x"]


@pytest.mark.parametrize(
    "entry",
    [
        1,
        {"kty": "OKP", "crv": "Ed25519", "x": GOOD_X},
        {"kty": "OKP", "crv": "Ed25519", "kid": "", "x": GOOD_X},
        {"kty": "OKP", "crv": "Ed25519", "kid": "a"},
        {"kty": "OKP", "crv": "Ed25519", "kid": "a", "x": "AA"},
        {"kty": "OKP", "crv": "Ed25519", "kid": "a", "x": 1},
        {"kty": "OKP", "crv": "Ed25519", "kid": "a", "x": "\u00e9"},
        {"kty": "OKP", "crv": "Ed25519", "kid": "a", "x": GOOD_X, "d": "c2VjcmV0"},
        {"kty": "oct", "kid": "a", "k": "c2VjcmV0"},
    ],
    ids=str,
)
def test_broken_keys_are_named_by_their_place(entry: Any) -> None:
    document = {"keys": [{"kty": "EC", "crv": "P-256"}, entry]}
    with pytest.raises(KeySetError, match="key 2 of the key set") as caught:
        KeySet.from_jwks(json.dumps(document).encode())
    assert "c2VjcmV0" not in str(caught.value)


@pytest.mark.parametrize("data", [b"", b"{}", b"[]", b'{"keys": {}}', b"\xff", b"[" * 5000])
def test_what_is_no_key_set(data: bytes) -> None:
    with pytest.raises(KeySetError):
        KeySet.from_jwks(data)


def test_two_keys_of_one_name() -> None:
    entry = public_jwks([KEY.public_key()])["keys"][0]
    with pytest.raises(KeySetError, match="key 2"):
        KeySet.from_jwks(json.dumps({"keys": [entry, entry]}).encode())
