"""The keys directory: what is in it, under which names, and what is said when it does not hold."""

from __future__ import annotations

import dataclasses
import json
import re
from typing import Any

import pytest
from cryptography.hazmat.primitives.asymmetric import ec, rsa
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey
from cryptography.hazmat.primitives.serialization import Encoding, NoEncryption, PrivateFormat

from demarkus_base.settings import SettingsError
from demarkus_broker.keys import load
from mark_protocol.grants import key_id


def pem(private: Any) -> bytes:
    return bytes(private.private_bytes(Encoding.PEM, PrivateFormat.PKCS8, NoEncryption()))


def test_a_directory_gives_keys_by_kid(key_files: Any) -> None:
    keys = key_files.load()
    assert list(keys.bearers) == [key_files.kid]
    assert keys.grant.kid == key_id(key_files.grant.public_key())


def two_of_each(key_files: Any, another_key: Any) -> tuple[dict[str, bytes], str, str]:
    """Keys overlap while one is exchanged for the other; the names of the second ones."""
    grant = Ed25519PrivateKey.generate()
    broker_kid, grant_kid = key_id(another_key.public_key()), key_id(grant.public_key())
    more = {f"broker-{broker_kid}.pem": pem(another_key), f"grant-{grant_kid}.pem": pem(grant)}
    return key_files.files() | more, broker_kid, grant_kid


def signing(**kids: str) -> dict[str, bytes]:
    return {"signing.json": json.dumps(kids).encode()}


def test_both_broker_keys_verify_and_the_named_keys_sign(key_files: Any, another_key: Any) -> None:
    files, broker_kid, grant_kid = two_of_each(key_files, another_key)
    old = key_id(key_files.grant.public_key())
    for kid in (old, grant_kid):
        keys = load(files | signing(broker=broker_kid, grant=kid), source="keys")
        assert set(keys.bearers) == {key_files.kid, broker_kid}
        assert (keys.grant.kid, keys.bearer.kid) == (kid, broker_kid)


@pytest.mark.parametrize(
    ("named", "says"),
    [
        ({}, "several broker-<kid>.pem; signing.json has to say which"),
        (signing(), "several broker-<kid>.pem; signing.json has to say which"),
        (signing(broker="x", grant="y"), "there is no broker-x.pem"),
        ({"signing.json": b"[]"}, 'expected {"broker"'),
        ({"signing.json": b'{"broker": 1}'}, 'expected {"broker"'),
        ({"signing.json": b"secret"}, 'expected {"broker"'),
    ],
    ids=["no-file", "no-names", "no-such-key", "no-object", "no-text", "no-json"],
)
def test_of_several_keys_one_has_to_be_named(key_files: Any, another_key: Any, named: Any, says: str) -> None:
    files, _, _ = two_of_each(key_files, another_key)
    with pytest.raises(SettingsError, match=re.escape(says)) as refused:
        load(files | named, source="keys")
    assert "secret" not in str(refused.value)


def test_labels_are_stable_and_tell_people_and_issuers_apart(key_files: Any) -> None:
    keys = key_files.load()
    label = keys.label("https://a.example", "ann")
    assert re.fullmatch(r"s-[0-9a-f]{32}", label)
    assert label == key_files.load().label("https://a.example", "ann")
    assert len({label, keys.label("https://a.example", "bob"), keys.label("https://b.example", "ann")}) == 3


def test_a_label_is_the_hmac_that_every_replica_computes(key_files: Any) -> None:
    """HMAC-SHA-256 of issuer, line feed, subject: worked out once with another tool."""
    keys = dataclasses.replace(key_files.load(), subject=bytes(range(32)))
    assert keys.label("https://mark.example.com", "ann") == "s-81f3821271e4ebf6d25c0d3ee09ac2a5"


@pytest.mark.parametrize(
    ("change", "says"),
    [
        (lambda files, kid: files.pop(f"broker-{kid}.pem"), "no broker-<kid>.pem"),
        (lambda files, kid: [files.pop(name) for name in list(files) if name.startswith("grant-")], "no grant-"),
        (lambda files, kid: files.pop("subject.key"), "subject.key is missing"),
        (lambda files, kid: files.update({"subject.key": b"secret-but-short"}), "subject.key: expected 32 bytes"),
        (lambda files, kid: files.update({"subject.key": b"\xff" * 64}), "subject.key: expected 32 bytes"),
        (lambda files, kid: files.pop("cookie.key"), "cookie.key is missing"),
        (lambda files, kid: files.update({"cookie.key": b"secret"}), "cookie.key: expected 32 bytes"),
        (lambda files, kid: files.update({f"broker-{kid}.pem": b"secret"}), "expected a private key in PEM"),
        (
            lambda files, kid: files.update({"broker-other.pem": files[f"broker-{kid}.pem"]}),
            "broker-other.pem: the name does not carry this key's identifier",
        ),
        (
            lambda files, kid: files.update({"grant-x.pem": files[f"broker-{kid}.pem"]}),
            "grant-x.pem: expected an Ed25519 key",
        ),
        (
            lambda files, kid: files.update({"broker-x.pem": pem(ec.generate_private_key(ec.SECP384R1()))}),
            "broker-x.pem: expected a P-256 key",
        ),
        (
            lambda files, kid: files.update({"broker-x.pem": pem(rsa.generate_private_key(65537, 2048))}),
            "broker-x.pem: expected a P-256 key",
        ),
    ],
    ids=lambda value: value if isinstance(value, str) else "",
)
def test_what_does_not_hold_is_named_without_its_content(key_files: Any, change: Any, says: str) -> None:
    files = key_files.files()
    change(files, key_files.kid)
    with pytest.raises(SettingsError, match=re.escape(says)) as refused:
        load(files, source="/keys")
    assert "secret" not in str(refused.value)


def test_keys_show_nothing_of_themselves(key_files: Any) -> None:
    shown = repr(key_files.load())
    assert key_files.subject.hex() not in shown
    assert "PRIVATE" not in shown
