"""A Universe at a Gateway, with the Gateway API's own HTTPRoute: a kind that a cluster may lack."""

from __future__ import annotations

import json
import os
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from demarkus_operator.plan.names import UniverseNames
from dev.cluster.build import find_go, go
from dev.cluster.plane import ControlPlane
from tests.cluster.home import BUDGET, Home, eventually

MODULE = "sigs.k8s.io/gateway-api@v1.3.0"
KIND = "httproutes.gateway.networking.k8s.io"
CRD = Path("config", "crd", "standard", "gateway.networking.k8s.io_httproutes.yaml")

pytestmark = pytest.mark.go


@pytest.fixture(scope="module")
def gateway_api(plane: ControlPlane) -> Iterator[Path]:
    """The file with the kind; it goes from the cluster at the end."""
    fetched = go(find_go(), "mod", "download", "-json", MODULE, seconds=BUDGET)
    if fetched.returncode:
        reason = f"the Gateway API can't be fetched: {fetched.stdout}{fetched.stderr}"
        if os.environ.get("DEMARKUS_NO_SKIPS"):
            pytest.fail(reason)
        pytest.skip(reason)
    yield Path(json.loads(fetched.stdout)["Dir"]) / CRD
    plane.kubectl("delete", "crd", KIND, "--ignore-not-found", "--wait=false")


def a_universe(**broker: Any) -> dict[str, Any]:
    return {
        "apiVersion": "demarkus.io/v1alpha1",
        "kind": "Universe",
        "metadata": {"name": "acme"},
        "spec": {"publicURL": "https://mark.example.com", "broker": broker},
    }


async def test_a_route_waits_for_its_kind_and_goes_when_it_is_not_wanted(home: Home, gateway_api: Path) -> None:
    operator = await home.operator()
    route = UniverseNames(home.namespace, "acme").http_route
    gateway = {"name": "public", "namespace": "edge", "sectionName": "https"}
    home.apply(a_universe(ingress={"gateway": gateway, "annotations": {"example.com/a": "b"}}))
    refused = await home.reaches(home.universe(), "Refused", type_="Reconciled")
    assert "HTTPRoute" in refused["message"]

    home.plane.kubectl("apply", "--server-side", "--filename", str(gateway_api))
    home.plane.kubectl(
        "wait", "--for=condition=Established", "crd/httproutes.gateway.networking.k8s.io", "--timeout=60s"
    )
    home.kubectl("annotate", "universe/acme", "example.com/look=again")
    await home.reaches(home.universe(), "Applied", type_="Reconciled")
    found = await home.api.get(route)
    assert found["spec"]["hostnames"] == ["mark.example.com"]
    assert found["spec"]["parentRefs"][0]["sectionName"] == "https"
    assert found["metadata"]["annotations"] == {"example.com/a": "b"}

    before = found["metadata"]["resourceVersion"]
    looked = len(operator.lines("reconcile"))
    home.kubectl("annotate", "universe/acme", "example.com/look=once-more", "--overwrite")

    async def looked_again() -> bool:
        return len(operator.lines("reconcile")) > looked

    await eventually("another reconcile", looked_again)
    assert (await home.api.get(route))["metadata"]["resourceVersion"] == before

    home.apply(a_universe())

    async def gone() -> bool:
        return await home.find(route) is None

    await eventually("the route is gone", gone)
