"""Who is let in: only whose bearer one of the broker's own keys signed, for this gateway, for now."""

from __future__ import annotations

import base64
import hashlib
import hmac
import json
import time
from typing import Any

import pytest
from cryptography.hazmat.primitives.serialization import Encoding, PublicFormat

from demarkus_broker.bearer import MAX_BYTES, BearerError, BearerFault, verify


def check(key_files: Any, token: str, *, now: float | None = None) -> dict[str, Any]:
    return verify(
        token,
        key_files.load().bearers,
        issuer=key_files.public_url,
        audience=f"{key_files.public_url}/mcp",
        now=time.time() if now is None else now,
    )


def part(content: Any) -> str:
    raw = content if isinstance(content, bytes) else json.dumps(content).encode()
    return base64.urlsafe_b64encode(raw).decode().rstrip("=")


def test_a_good_bearer_gives_its_claims(key_files: Any) -> None:
    claims = check(key_files, key_files.bearer(sub="bob", groups=["cooks"]))
    assert (claims["sub"], claims["groups"]) == ("bob", ["cooks"])


def test_the_audience_may_be_one_of_a_list(key_files: Any) -> None:
    assert check(key_files, key_files.bearer(aud=["https://other.example", f"{key_files.public_url}/mcp"]))


@pytest.mark.parametrize(
    ("claims", "fault"),
    [
        ({"iss": "https://evil.example"}, BearerFault.ISSUER),
        ({"iss": None}, BearerFault.ISSUER),
        ({"iss": "https://mark.example.com/"}, BearerFault.ISSUER),
        ({"aud": "https://mark.example.com"}, BearerFault.AUDIENCE),
        ({"aud": "https://mark.example.com/mcp/"}, BearerFault.AUDIENCE),
        ({"aud": []}, BearerFault.AUDIENCE),
        ({"aud": {"https://mark.example.com/mcp": 1}}, BearerFault.AUDIENCE),
        ({"aud": None}, BearerFault.AUDIENCE),
        ({"sub": ""}, BearerFault.MALFORMED),
        ({"sub": 7}, BearerFault.MALFORMED),
        ({"sub": "a\nb"}, BearerFault.MALFORMED),
        ({"sub": "a\u202eb"}, BearerFault.MALFORMED),
        ({"exp": None}, BearerFault.MALFORMED),
        ({"exp": "4102444800"}, BearerFault.MALFORMED),
        ({"exp": True}, BearerFault.MALFORMED),
        ({"exp": 1e300}, BearerFault.MALFORMED),
        ({"exp": 1}, BearerFault.EXPIRED),
        ({"iat": None}, BearerFault.MALFORMED),
        ({"iat": time.time() + 3600}, BearerFault.NOT_YET_VALID),
        ({"nbf": time.time() + 3600}, BearerFault.NOT_YET_VALID),
    ],
    ids=str,
)
def test_claims_that_do_not_fit_are_refused(key_files: Any, claims: dict[str, Any], fault: BearerFault) -> None:
    with pytest.raises(BearerError) as refused:
        check(key_files, key_files.bearer(**claims))
    assert refused.value.fault is fault


@pytest.mark.parametrize("name", ["iss", "aud", "sub", "exp", "iat"])
def test_a_missing_claim_is_refused(key_files: Any, name: str) -> None:
    claims = key_files.claims()
    del claims[name]
    with pytest.raises(BearerError):
        check(key_files, key_files.bearer(claims))


def test_a_bearer_ends_at_its_second(key_files: Any) -> None:
    token = key_files.bearer(iat=1000, exp=2000)
    assert check(key_files, token, now=1999.9)
    with pytest.raises(BearerError) as refused:
        check(key_files, token, now=2000)
    assert refused.value.fault is BearerFault.EXPIRED


def test_a_clock_that_runs_a_little_ahead_is_forgiven(key_files: Any) -> None:
    token = key_files.bearer(iat=1030, exp=2000)
    assert check(key_files, token, now=1000)
    with pytest.raises(BearerError):
        check(key_files, token, now=999)


def test_a_key_that_is_not_ours_is_unknown(key_files: Any, another_key: Any) -> None:
    with pytest.raises(BearerError) as refused:
        check(key_files, key_files.bearer(key=another_key))
    assert refused.value.fault is BearerFault.UNKNOWN_KEY


def test_another_key_under_our_kid_does_not_sign(key_files: Any, another_key: Any) -> None:
    with pytest.raises(BearerError) as refused:
        check(key_files, key_files.bearer(key=another_key, header={"kid": key_files.kid}))
    assert refused.value.fault is BearerFault.SIGNATURE


@pytest.mark.parametrize("alg", ["none", "None", "NONE", "", None, "ES384", "RS256", "HS256", "EdDSA"])
def test_every_other_algorithm_is_refused_unsigned(key_files: Any, alg: str | None) -> None:
    header, claims = {"alg": alg, "kid": key_files.kid}, key_files.claims()
    for signature in ("", part(b"x" * 64)):
        with pytest.raises(BearerError) as refused:
            check(key_files, f"{part(header)}.{part(claims)}.{signature}")
        assert refused.value.fault in (BearerFault.ALGORITHM, BearerFault.MALFORMED)


def test_hs256_with_the_public_key_as_secret_is_refused(key_files: Any) -> None:
    """The classic confusion: the public key is public, so anyone could sign with it as an HMAC secret."""
    public = key_files.broker.public_key().public_bytes(Encoding.PEM, PublicFormat.SubjectPublicKeyInfo)
    signed = f"{part({'alg': 'HS256', 'kid': key_files.kid})}.{part(key_files.claims())}"
    mac = hmac.new(public, signed.encode(), hashlib.sha256).digest()
    with pytest.raises(BearerError) as refused:
        check(key_files, f"{signed}.{part(mac)}")
    assert refused.value.fault is BearerFault.ALGORITHM


@pytest.mark.parametrize(
    "extra",
    [{"jwk": {"kty": "EC"}}, {"jku": "https://evil.example/keys"}, {"x5u": "https://evil.example"}, {"crit": ["exp"]}],
    ids=str,
)
def test_a_header_that_names_keys_or_rules_of_its_own_is_refused(key_files: Any, extra: dict[str, Any]) -> None:
    header = {"alg": "ES256", "kid": key_files.kid} | extra
    with pytest.raises(BearerError) as refused:
        check(key_files, f"{part(header)}.{part(key_files.claims())}.{part(b'x' * 64)}")
    assert refused.value.fault is BearerFault.MALFORMED


@pytest.mark.parametrize(
    "token",
    [
        "",
        "x",
        "..",
        "a.b",
        "a.b.c.d.e",
        "é.é.é",
        f"{part([])}.{part({})}.x",
        f"{part(b'[' * 300)}.{part({})}.x",
        "e30.e30.e30",
        "A" * (MAX_BYTES + 1),
    ],
)
def test_garbage_is_malformed_or_unusable_and_never_an_accident(key_files: Any, token: str) -> None:
    with pytest.raises(BearerError):
        check(key_files, token)


def test_a_changed_claim_breaks_the_signature(key_files: Any) -> None:
    header, _, signature = key_files.bearer().split(".")
    with pytest.raises(BearerError) as refused:
        check(key_files, f"{header}.{part(key_files.claims(sub='bob'))}.{signature}")
    assert refused.value.fault is BearerFault.SIGNATURE


def test_no_error_carries_a_piece_of_the_token(key_files: Any) -> None:
    token = key_files.bearer(iss="https://evil.example")
    with pytest.raises(BearerError) as refused:
        check(key_files, token)
    assert str(refused.value) == "issuer"
    assert refused.value.__cause__ is None
