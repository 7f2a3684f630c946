"""Certificates from an issuer of cert-manager, as plans of a Universe and its World; cert-manager is played."""

from __future__ import annotations

import base64
from collections.abc import Callable
from datetime import timedelta
from hashlib import sha256
from typing import Any

import pytest

from demarkus_operator.plan.reports import Report
from tests.operator.issuer import Issuer, answer, ready

Build = Callable[..., dict[str, Any]]
CORPORATE = {"name": "corporate", "kind": "ClusterIssuer"}
ISSUER_REF = {"group": "cert-manager.io", "kind": "ClusterIssuer", "name": "corporate"}


def data(cluster: Any, name: str, namespace: str = "acme") -> dict[str, bytes]:
    return {key: base64.b64decode(value) for key, value in cluster.get("Secret", name, namespace)["data"].items()}


def shown(cluster: Any, name: str = "tea") -> str:
    return str(cluster.get("World", name)["status"]["loaded"]["authority"])


def trusted(cluster: Any) -> bytes:
    bundle: str = cluster.get("ConfigMap", "acme-broker-config")["data"]["ca.crt"]
    return bundle.encode()


@pytest.fixture
def asked(settled: Any, a_universe: Build) -> Any:
    """A Universe whose issuer is asked and has not answered."""
    settled.put(a_universe(trust={"issuerRef": CORPORATE}))
    settled.settle()
    return settled


@pytest.fixture
def issuer(asked: Any) -> Issuer:
    return Issuer("corporate", asked.now)


def test_certificate_asks_for_the_names_that_the_worlds_own_has(asked: Any) -> None:
    certificate = asked.get("Certificate", "tea-tls")
    assert certificate["spec"]["dnsNames"] == ["tea.acme.svc", "tea.acme.svc.cluster.local"]
    assert certificate["spec"]["issuerRef"] == ISSUER_REF
    assert certificate["spec"]["secretName"] == "tea-tls-issued"
    assert (certificate["spec"]["duration"], certificate["spec"]["renewBefore"]) == ("2160h0m0s", "720h0m0s")
    assert (certificate["spec"]["privateKey"]["algorithm"], certificate["spec"]["privateKey"]["size"]) == ("ECDSA", 256)
    assert certificate["metadata"]["ownerReferences"][0]["kind"] == "World"


def test_cluster_without_cert_manager_goes_on_with_its_own_authority(
    settled: Any, a_universe: Build, a_world: Build
) -> None:
    before = data(settled, "tea-tls")
    settled.lacking = {"Certificate"}
    settled.put(a_universe(trust={"issuerRef": CORPORATE}))
    settled.settle()
    for kind, name in (("Universe", "acme"), ("World", "tea")):
        status, reason, message = settled.condition(kind, name, "Degraded")
        assert (status, reason) == ("True", "IssuerUnavailable")
        assert "ClusterIssuer corporate of cert-manager can't be asked" in message
        assert settled.plan(kind, name).requeue is not None
    assert data(settled, "tea-tls") == before


def test_what_cert_manager_says_is_told(asked: Any) -> None:
    assert "nothing was issued yet" in asked.condition("World", "tea", "Degraded")[2]
    certificate = asked.get("Certificate", "tea-tls")
    asked.set_status("Certificate", "tea-tls", ready(certificate, status=False, message='issuer "corporate" not found'))
    asked.settle()
    status, reason, message = asked.condition("World", "tea", "Degraded")
    assert (status, reason) == ("True", "IssuerUnavailable")
    assert message.endswith('Certificate acme/tea-tls: issuer "corporate" not found')


def test_issued_certificate_is_shown_once_every_gateway_trusts_its_authority(asked: Any, issuer: Issuer) -> None:
    for kind, name in (("StatefulSet", "tea-world"), ("Deployment", "acme-broker")):
        asked.set_status(kind, name, {"readyReplicas": 2, "replicas": 2, "updatedReplicas": 2})
    before = data(asked, "tea-tls")
    old = trusted(asked)
    gateways = [Report(pod="b-0", ready=True, loaded={"caBundle": sha256(old).hexdigest()})]
    asked.reports = {"acme": gateways}
    answer(asked, issuer, "tea-tls")
    asked.settle()
    assert data(asked, "tea-tls") == before, "nobody trusts it yet"
    answer(asked, issuer, "acme-issuer")
    asked.settle()
    assert trusted(asked) != old
    assert trusted(asked).count(b"BEGIN CERTIFICATE") == 2
    assert data(asked, "tea-tls")["tls.crt"] == before["tls.crt"], "the gateway has not loaded it"
    assert "once the gateway trusts it" in asked.condition("Universe", "acme", "Progressing")[2]
    assert "once the gateway trusts" in asked.condition("World", "tea", "Progressing")[2]
    hashed = sha256(trusted(asked)).hexdigest()
    asked.reports = {"acme": [Report(pod="b-0", ready=True, loaded={"caBundle": hashed})]}
    asked.settle()
    issued = data(asked, "tea-tls-issued")
    assert {key: data(asked, "tea-tls")[key] for key in ("tls.crt", "tls.key")} == {
        key: issued[key] for key in ("tls.crt", "tls.key")
    }
    assert data(asked, "tea-tls")["ca.crt"] == trusted(asked)
    assert shown(asked) == issuer.fingerprint
    assert asked.condition("World", "tea", "Degraded")[1] == "AsAsked"
    assert asked.condition("Universe", "acme", "Degraded")[1] == "AsAsked"


@pytest.fixture
def in_use(asked: Any, issuer: Issuer) -> Any:
    """The issuer's certificate is shown."""
    answer(asked, issuer, "tea-tls")
    answer(asked, issuer, "acme-issuer")
    asked.settle()
    assert shown(asked) == issuer.fingerprint
    return asked


def test_nothing_is_written_while_all_is_as_it_should_be(in_use: Any) -> None:
    before = len(in_use.writes)
    in_use.now += timedelta(days=1)
    in_use.settle()
    assert in_use.writes[before:] == []


def test_renewed_certificate_is_taken_over(in_use: Any, issuer: Issuer) -> None:
    before = data(in_use, "tea-tls")["tls.crt"]
    in_use.now += timedelta(days=61)
    in_use.settle()
    assert data(in_use, "tea-tls")["tls.crt"] == before, "it is cert-manager that renews"
    assert in_use.plan("World", "tea").requeue is not None
    answer(in_use, issuer, "tea-tls")
    in_use.settle()
    assert data(in_use, "tea-tls")["tls.crt"] != before
    assert data(in_use, "tea-tls")["tls.crt"] == data(in_use, "tea-tls-issued")["tls.crt"]


def test_own_authority_steps_in_before_an_unrenewed_certificate_ends(in_use: Any) -> None:
    in_use.now += timedelta(days=87)
    in_use.settle()
    assert data(in_use, "tea-tls")["tls.crt"] != data(in_use, "tea-tls-issued")["tls.crt"]
    before = data(in_use, "tea-tls")
    in_use.settle()
    assert data(in_use, "tea-tls") == before


def test_another_authority_of_the_issuer_is_trusted_first_and_the_old_one_goes_last(
    in_use: Any, issuer: Issuer
) -> None:
    new = Issuer("corporate", in_use.now)
    answer(in_use, new, "tea-tls")
    in_use.settle()
    assert shown(in_use) == issuer.fingerprint, "nobody trusts the new one"
    answer(in_use, new, "acme-issuer")
    before = len(in_use.writes)
    in_use.settle()
    assert shown(in_use) == new.fingerprint
    assert trusted(in_use).count(b"BEGIN CERTIFICATE") == 2
    kinds = [ref.kind for ref in in_use.writes[before:]]
    assert kinds.index("ConfigMap") < [ref.name for ref in in_use.writes[before:]].index("tea-tls")


def test_secret_beside_a_world_makes_nobody_trusted(in_use: Any, issuer: Issuer) -> None:
    foreign, before = Issuer("mallory", in_use.now), trusted(in_use)
    answer(in_use, foreign, "tea-tls")
    in_use.settle()
    assert trusted(in_use) == before
    assert shown(in_use) == issuer.fingerprint


def test_secret_of_somebody_else_is_in_the_way(asked: Any, issuer: Issuer) -> None:
    made = issuer.secret(asked.get("Certificate", "tea-tls"), asked.now)
    asked.put({**made, "metadata": {**made["metadata"], "labels": {}}})
    asked.reconcile("World", "tea")
    assert asked.condition("World", "tea", "Ready")[1] == "NameInUse"


def test_issuer_without_an_authority_of_its_own_is_told(asked: Any, issuer: Issuer) -> None:
    answer(asked, issuer, "tea-tls")
    made = asked.get("Secret", "tea-tls-issued")
    asked.put({**made, "data": {key: value for key, value in made["data"].items() if key != "ca.crt"}})
    asked.settle()
    assert "ca.crt" in asked.condition("World", "tea", "Degraded")[2]


def test_issuer_that_is_not_wanted_any_more_leaves_nothing_behind(
    in_use: Any, a_universe: Build, issuer: Issuer
) -> None:
    in_use.put(a_universe())
    in_use.settle()
    assert not [ref for ref in in_use.objects if ref.kind == "Certificate" or "issue" in ref.name]
    assert shown(in_use) != issuer.fingerprint
    assert trusted(in_use).count(b"BEGIN CERTIFICATE") == 1
    for name, namespace in (("tea-tls", "acme"), ("ca-acme-acme", "demarkus-system")):
        annotations = in_use.get("Secret", name, namespace)["metadata"].get("annotations") or {}
        assert not [key for key in annotations if "issuer" in key]


def test_world_goes_on_with_its_issuer_without_its_universe(in_use: Any, issuer: Issuer) -> None:
    before = data(in_use, "tea-tls")
    in_use.drop("Universe", "acme")
    in_use.settle()
    assert data(in_use, "tea-tls") == before
    assert in_use.has("Certificate", "tea-tls")


def test_own_authority_is_exchanged_beside_the_issuer(in_use: Any, a_universe: Build, issuer: Issuer) -> None:
    in_use.put(a_universe(trust={"issuerRef": CORPORATE, "rotateEvery": "90d"}))
    before = data(in_use, "ca-acme-acme", "demarkus-system")
    in_use.now += timedelta(days=80)
    answer(in_use, issuer, "tea-tls")
    in_use.settle()
    in_use.now += timedelta(days=11)
    in_use.settle()
    in_use.now += timedelta(minutes=3)
    in_use.settle()
    after = data(in_use, "ca-acme-acme", "demarkus-system")
    assert after.keys() == {"ca.crt", "ca.key", "issuer.crt"}
    assert after["ca.crt"] != before["ca.crt"]
    assert shown(in_use) == issuer.fingerprint


def test_world_without_a_universe_asks_the_issuer_that_it_is_exposed_by(cluster: Any, a_world: Build) -> None:
    issuer = Issuer("corporate", cluster.now)
    expose = {"hostnames": ["tea.example.com"], "issuerRef": CORPORATE}
    cluster.put(a_world(universeRef=None, expose=expose))
    cluster.settle()
    assert "tea.example.com" in cluster.get("Certificate", "tea-tls")["spec"]["dnsNames"]
    answer(cluster, issuer, "tea-tls")
    cluster.settle()
    assert data(cluster, "tea-tls")["tls.crt"] == data(cluster, "tea-tls-issued")["tls.crt"]
    assert shown(cluster) == issuer.fingerprint
    assert cluster.condition("World", "tea", "Degraded")[1] == "AsAsked"


def test_world_of_a_universe_is_told_that_its_own_issuer_is_not_used(settled: Any, a_world: Build) -> None:
    settled.put(a_world(expose={"issuerRef": CORPORATE}))
    settled.settle()
    status, reason, message = settled.condition("World", "tea", "Degraded")
    assert (status, reason) == ("True", "IssuerUnavailable")
    assert "spec.trust.issuerRef" in message
    assert not settled.has("Certificate", "tea-tls")
