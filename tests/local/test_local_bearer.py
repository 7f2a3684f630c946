"""The bearer says who the person at this machine is, in the gateway's own words."""

from __future__ import annotations

import base64
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest
from joserfc import jwt
from joserfc.jwk import ECKey

from demarkus_operator import material
from demarkus_operator.local import bearer
from demarkus_operator.plan.recipes import BrokerKeys
from demarkus_operator.plan.refusal import Refusal

NOW = datetime(2026, 11, 30, 9, tzinfo=UTC)
URL = "http://127.0.0.1:8080"
KEYS = {"apiVersion": "v1", "kind": "Secret", "metadata": {"name": "acme-broker-keys", "namespace": "acme"}}


def broker_keys(*, seed: int = 0) -> dict[str, Any]:
    data = material.make(BrokerKeys(), random=lambda count: bytes(range(seed, seed + count)), now=NOW)
    return {
        **KEYS,
        "data": {key: base64.b64encode(value).decode() for key, value in data.items()},
    }


def a_world(**access: Any) -> dict[str, Any]:
    return {"spec": {"access": access} if access else {}}


def test_claims_are_those_of_a_signed_in_person() -> None:
    key = bearer.signing_key(broker_keys())
    text = bearer.sign(email="Ann@example.com", public_url=URL, key=key, now=NOW)
    token = jwt.decode(text, ECKey.import_key(key.pem.decode()), algorithms=["ES256"])
    assert token.header == {"alg": "ES256", "kid": key.kid, "typ": "JWT"}
    subject = token.claims.pop("sub")
    assert subject.startswith("local-")
    assert "ann" not in subject
    assert token.claims == {
        "iss": URL,
        "aud": f"{URL}/mcp",
        "email": "Ann@example.com",
        "email_verified": True,
        "groups": [],
        "hd": "example.com",
        "iat": 1796029200,
        "exp": 1796029200 + 12 * 3600,
    }


def test_the_subject_is_the_same_at_every_start_however_the_address_is_written() -> None:
    key = bearer.signing_key(broker_keys())

    def subject(email: str) -> Any:
        text = bearer.sign(email=email, public_url=URL, key=key, now=NOW)
        return jwt.decode(text, ECKey.import_key(key.pem.decode()), algorithms=["ES256"]).claims["sub"]

    assert subject("Ann@example.com") == subject("ann@EXAMPLE.com") != subject("bob@example.com")


def test_keys_without_a_signing_key_are_named() -> None:
    with pytest.raises(Refusal, match="acme-broker-keys holds no broker-<kid>"):
        bearer.signing_key({**KEYS, "data": {}})


def test_of_two_keys_the_one_in_use_signs() -> None:
    one, another = broker_keys(), broker_keys(seed=7)
    both = {**KEYS, "data": {**another["data"], **one["data"]}}
    assert bearer.signing_key(both).kid == bearer.signing_key(one).kid
    both = {**KEYS, "data": {**one["data"], **another["data"]}}
    assert bearer.signing_key(both).kid == bearer.signing_key(another).kid


@pytest.mark.parametrize(
    ("worlds", "person"),
    [
        ([], None),
        ([a_world()], None),
        ([a_world(writers=[{"domains": ["example.com"]}])], None),
        ([a_world(readers=[{"emails": ["r@example.com"]}])], "r@example.com"),
        (
            [
                a_world(readers=[{"emails": ["r@example.com"]}], writers=[{"groups": ["g"]}]),
                a_world(writers=[{"domains": ["d"]}, {"emails": ["w@example.com", "x@example.com"]}]),
            ],
            "w@example.com",
        ),
    ],
    ids=["none", "open", "domain", "reader", "writer-before-reader"],
)
def test_it_names_the_first_writer(worlds: list[dict[str, Any]], person: str | None) -> None:
    assert bearer.first_writer(worlds) == person


def test_it_is_signed_anew_at_half_its_life_and_when_it_should_say_something_else() -> None:
    signed = bearer.Signed(email="ann@example.com", public_url=URL, kid="k", at=NOW)

    def due(*, later: timedelta = timedelta(), **changed: str) -> bool:
        says = {"email": "ann@example.com", "public_url": URL, "kid": "k"} | changed
        return not signed.stands_for(bearer.Signed(**says, at=NOW + later))

    assert not due()
    assert not due(later=timedelta(hours=5, minutes=59))
    assert due(later=timedelta(hours=6))
    assert due(email="bob@example.com")
    assert due(public_url="http://127.0.0.1:9")
    assert due(kid="other")
