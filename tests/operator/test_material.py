"""Generated material is what the services expect, and nothing but the given randomness decides it."""

from __future__ import annotations

import os
import random
import re
from datetime import UTC, datetime, timedelta

import pytest
from cryptography import x509
from cryptography.hazmat.primitives.asymmetric.ec import SECP256R1, EllipticCurvePublicKey
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey
from cryptography.hazmat.primitives.serialization import load_pem_private_key
from cryptography.x509.verification import PolicyBuilder, Store, VerificationError

from demarkus_broker import keys as broker_keys
from demarkus_operator.material import make
from demarkus_operator.plan.recipes import (
    BrokerKey,
    BrokerKeys,
    CertificateAuthority,
    GrantKey,
    OperatorKey,
    Recipe,
    ServerCertificate,
    Token,
    WorldIdentity,
)

NOW = datetime(2026, 12, 1, 9, 0, tzinfo=UTC)
NAMES = ("tea.acme.svc", "tea.acme.svc.cluster.local", "localhost", "127.0.0.1", "::1")


def _authority() -> dict[str, bytes]:
    return make(CertificateAuthority(common_name="universe acme"), random=os.urandom, now=NOW)


def _server(authority: dict[str, bytes], names: tuple[str, ...] = NAMES) -> dict[str, bytes]:
    recipe = ServerCertificate(
        common_name="tea",
        names=names,
        ca_certificate=authority["ca.crt"],
        ca_key=authority["ca.key"],
        bundle=authority["ca.crt"],
    )
    return make(recipe, random=os.urandom, now=NOW)


def _verify(server: dict[str, bytes], authority: dict[str, bytes], name: x509.GeneralName, at: datetime) -> None:
    store = Store([x509.load_pem_x509_certificate(authority["ca.crt"])])
    verifier = PolicyBuilder().store(store).time(at).build_server_verifier(name)  # type: ignore[arg-type]
    verifier.verify(x509.load_pem_x509_certificate(server["tls.crt"]), [])


def test_identity_is_two_identifiers_and_a_key() -> None:
    data = make(WorldIdentity(), random=os.urandom, now=NOW)
    assert set(data) == {"history", "incarnation", "world.key"}
    assert re.fullmatch(rb"[0-9a-f]{32}", data["history"])
    assert re.fullmatch(rb"[0-9a-f]{32}", data["incarnation"])
    assert data["history"] != data["incarnation"]
    assert isinstance(load_pem_private_key(data["world.key"], password=None), Ed25519PrivateKey)


def test_token_is_64_hex_digits() -> None:
    assert re.fullmatch(rb"[0-9a-f]{64}", make(Token(), random=os.urandom, now=NOW)["token"])


def test_broker_keys_are_those_that_the_gateway_loads() -> None:
    data = make(BrokerKeys(), random=os.urandom, now=NOW)
    loaded = broker_keys.load(data, source="keys")
    assert f"grant-{loaded.grant.kid}.pem" in data
    assert [f"broker-{kid}.pem" for kid in loaded.bearers] == [name for name in data if name.startswith("broker-")]
    assert re.fullmatch(rb"[0-9a-f]{64}", data["cookie.key"])
    more = {**make(BrokerKey(), random=os.urandom, now=NOW), **make(GrantKey(), random=os.urandom, now=NOW)}
    both = broker_keys.load({**data, **more}, source="keys")
    assert (both.grant.kid, len(both.bearers)) == (loaded.grant.kid, 2)
    assert data["cookie.key"] != data["subject.key"]


def test_server_certificate_verifies_for_all_its_names() -> None:
    import ipaddress

    authority = _authority()
    server = _server(authority)
    for name in ("tea.acme.svc", "tea.acme.svc.cluster.local", "localhost"):
        _verify(server, authority, x509.DNSName(name), NOW)
    for address in ("127.0.0.1", "::1"):
        _verify(server, authority, x509.IPAddress(ipaddress.ip_address(address)), NOW)
    assert server["ca.crt"] == authority["ca.crt"]


def test_server_certificate_holds_for_no_other_name_authority_or_time() -> None:
    authority = _authority()
    server = _server(authority)
    with pytest.raises(VerificationError):
        _verify(server, authority, x509.DNSName("coffee.acme.svc"), NOW)
    with pytest.raises(VerificationError):
        _verify(server, _authority(), x509.DNSName("tea.acme.svc"), NOW)
    with pytest.raises(VerificationError):
        _verify(server, authority, x509.DNSName("tea.acme.svc"), NOW + timedelta(days=91))


def test_long_names_fit() -> None:
    authority = make(CertificateAuthority(common_name="universe " + "u" * 40), random=os.urandom, now=NOW)
    name = f"{'w' * 40}.{'n' * 63}.svc"
    _verify(_server(authority, (name,)), authority, x509.DNSName(name), NOW)


def test_authority_outlives_its_servers_by_far_and_signs_only_servers() -> None:
    certificate = x509.load_pem_x509_certificate(_authority()["ca.crt"])
    assert certificate.not_valid_before_utc < NOW
    assert certificate.not_valid_after_utc > NOW + timedelta(days=3600)
    constraints = certificate.extensions.get_extension_for_class(x509.BasicConstraints)
    assert (constraints.critical, constraints.value.ca, constraints.value.path_length) == (True, True, 0)
    key = certificate.public_key()
    assert isinstance(key, EllipticCurvePublicKey)
    assert isinstance(key.curve, SECP256R1)


@pytest.mark.parametrize(
    "recipe",
    [
        WorldIdentity(),
        Token(),
        CertificateAuthority(common_name="x"),
        BrokerKeys(),
        BrokerKey(),
        GrantKey(),
        OperatorKey(),
    ],
    ids=lambda recipe: type(recipe).__name__,
)
def test_same_randomness_makes_the_same_and_other_randomness_another(recipe: Recipe) -> None:
    def data(seed: int) -> dict[str, bytes]:
        return make(recipe, random=random.Random(seed).randbytes, now=NOW)

    assert data(1) == data(1)
    assert not set(data(1).values()) & set(data(2).values())


def test_recipe_shows_no_key() -> None:
    authority = _authority()
    recipe = ServerCertificate(
        common_name="tea",
        names=NAMES,
        ca_certificate=authority["ca.crt"],
        ca_key=authority["ca.key"],
        bundle=authority["ca.crt"],
    )
    assert "PRIVATE" not in repr(recipe)
