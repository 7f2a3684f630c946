"""Certificates from an issuer of cert-manager on the real API server; cert-manager is played."""

from __future__ import annotations

import base64
import json
from collections.abc import Iterator
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest

from demarkus_operator.plan.names import UniverseNames, WorldNames
from demarkus_operator.plan.objects import Manifest, Ref
from dev.cluster.plane import ControlPlane
from tests.cluster.home import OPERATOR_NAMESPACE, Home, eventually
from tests.operator.issuer import Issuer, ready

KIND = "certificates.cert-manager.io"
CRD = Path(__file__).with_name("certificates.yaml")
CORPORATE = {"name": "corporate", "kind": "ClusterIssuer"}


@pytest.fixture
def no_cert_manager(plane: ControlPlane) -> Iterator[ControlPlane]:
    """A control plane without the kind, and again at the end."""
    yield plane
    plane.kubectl("delete", "crd", KIND, "--ignore-not-found", "--timeout=60s")


def data(secret: Manifest | None) -> dict[str, bytes]:
    return {key: base64.b64decode(value) for key, value in ((secret or {}).get("data") or {}).items()}


def manifest(kind: str, name: str, **spec: Any) -> dict[str, Any]:
    metadata = {"name": name}
    return {"apiVersion": "demarkus.io/v1alpha1", "kind": kind, "metadata": metadata, "spec": spec}


async def look(home: Home) -> None:
    """Has both looked at now; by itself the operator would in half a minute."""
    again = f"example.com/look={datetime.now(UTC).timestamp()}"
    home.kubectl("annotate", "universe/acme", "world/tea", again, "--overwrite")


async def answer(home: Home, issuer: Issuer, ref: Ref) -> None:
    """cert-manager makes what a Certificate asks for."""

    async def asked() -> Manifest | None:
        return await home.find(ref)

    certificate = await eventually(f"{ref}", asked)
    assert certificate is not None
    home.kubectl(
        "apply",
        "--server-side",
        "--field-manager=cert-manager-certificates-issuing",
        "--filename=-",
        input=json.dumps(issuer.secret(certificate, datetime.now(UTC))),
    )
    status = json.dumps({"status": ready(certificate)})
    home.kubectl("patch", f"{KIND}/{ref.name}", "--subresource=status", "--type=merge", "--patch", status)


async def test_issuer_signs_once_there_is_one_and_is_left_without_a_trace(
    home: Home, no_cert_manager: ControlPlane
) -> None:
    world, universe = WorldNames(home.namespace, "tea"), UniverseNames(home.namespace, "acme")
    issuer = Issuer("corporate", datetime.now(UTC))
    await home.operator()
    wanted = {"publicURL": "https://mark.example.com", "broker": {"replicas": 1}}
    home.apply(
        manifest("Universe", "acme", **wanted, trust={"issuerRef": CORPORATE}),
        manifest("World", "tea", universeRef={"name": "acme"}, store={"volume": {"size": "1Gi"}}),
    )
    for ref in (home.universe(), home.world("tea")):
        told = await home.reaches(ref, "IssuerUnavailable", type_="Degraded")
        assert "ClusterIssuer corporate of cert-manager can't be asked" in told["message"]
        await home.reaches(ref, "Applied", type_="Reconciled")
    own = data(await home.find(world.certificate))

    no_cert_manager.kubectl("apply", "--filename", str(CRD))
    no_cert_manager.kubectl("wait", "--for=condition=Established", f"crd/{KIND}", "--timeout=60s")
    await look(home)
    for ref in (world.issued_certificate, universe.issuer_certificate):
        await answer(home, issuer, ref)

    async def shown() -> bool:
        await look(home)
        tls = data(await home.find(world.certificate))
        return bool(tls["tls.crt"] == data(await home.find(world.issued))["tls.crt"])

    await eventually("the World shows what the issuer signed", shown)
    config = await home.api.get(universe.config)
    assert data(await home.find(world.certificate))["ca.crt"] == config["data"]["ca.crt"].encode()
    assert config["data"]["ca.crt"].count("BEGIN CERTIFICATE") == 2
    for ref in (home.universe(), home.world("tea")):
        await home.reaches(ref, "AsAsked", type_="Degraded")
    certificate = await home.api.get(world.issued_certificate)
    assert certificate["spec"]["dnsNames"][0] == f"tea.{home.namespace}.svc"
    assert (await home.api.get(world.issued))["metadata"]["ownerReferences"][0]["kind"] == "World"

    before = await home.versions()
    await look(home)
    await home.settled(subjects=[home.universe(), home.world("tea")])
    subjects = {home.universe(), home.world("tea")}
    after = await home.versions()
    assert {ref for ref in before if before[ref] != after[ref]} <= subjects, "what is as it should be is not written"

    home.apply(manifest("Universe", "acme", **wanted))

    async def gone() -> bool:
        await look(home)
        refs = (world.issued_certificate, world.issued, universe.issuer_certificate, universe.issuer)
        return not any([await home.find(ref) for ref in refs])

    await eventually("the Certificates and their Secrets are gone", gone)

    async def own_again() -> bool:
        await look(home)
        config = await home.api.get(universe.config)
        return bool(config["data"]["ca.crt"].count("BEGIN CERTIFICATE") == 1)

    await eventually("the gateway trusts the Universe's own authority alone", own_again)
    assert data(await home.find(world.certificate))["ca.crt"] == own["ca.crt"]
    assert data(await home.find(universe.authority(OPERATOR_NAMESPACE))).keys() == {"ca.crt", "ca.key"}
