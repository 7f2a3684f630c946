"""One control plane for all tests of this folder, one namespace for each.

Where the control plane can't be built (no Go, no module proxy) the tests are skipped with one loud line at the
end; with DEMARKUS_NO_SKIPS=1 that is a failure.
"""

from __future__ import annotations

import json
import os
import secrets
import sys
from collections.abc import AsyncIterator, Iterator
from pathlib import Path

import pytest
from kubernetes.aio.client import Configuration
from kubernetes.aio.config import load_kube_config

from demarkus_operator.cluster import rbac
from demarkus_operator.cluster.kubernetes import Kubernetes
from dev.cluster.build import CannotBuild, build
from dev.cluster.plane import ControlPlane
from tests.cluster.home import BUDGET, OPERATOR_NAMESPACE, ROOT, Home
from tests.conftest import until

_cannot_build = pytest.StashKey[str]()
_failed = pytest.StashKey[bool]()


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    for item in items:
        if item.path.is_relative_to(Path(__file__).parent):
            item.add_marker(pytest.mark.cluster)


def pytest_unconfigure(config: pytest.Config) -> None:
    reason = config.stash.get(_cannot_build, None)
    if reason is not None:
        print(f"!!! NO CLUSTER TESTS RAN: {reason}", file=sys.stderr)


@pytest.hookimpl(wrapper=True)
def pytest_runtest_makereport(item: pytest.Item) -> Iterator[None]:
    report = yield
    if report.when == "call":  # type: ignore[attr-defined]
        item.stash[_failed] = report.failed  # type: ignore[attr-defined]
    return report


@pytest.fixture(scope="session")
def plane(request: pytest.FixtureRequest) -> Iterator[ControlPlane]:
    """The control plane, with our CRDs and the operator's rights."""
    try:
        binary = build()
    except CannotBuild as lacking:
        reason = f"the control plane can't be built here: {lacking}"
        request.config.stash[_cannot_build] = reason
        if os.environ.get("DEMARKUS_NO_SKIPS"):
            pytest.fail(reason)
        pytest.skip(reason)
    with ControlPlane(binary) as started:
        started.kubectl("apply", "--server-side", "--filename", str(ROOT / "crds"))
        started.kubectl("create", "namespace", OPERATOR_NAMESPACE)
        for manifest in rbac.manifests(OPERATOR_NAMESPACE):
            started.kubectl("apply", "--filename", "-", input=json.dumps(manifest))
        started.kubectl("wait", "--for=condition=Established", "crd", "--all", "--timeout=60s")
        # Established, a kind may still answer 429 "storage is (re)initializing" for a moment.
        listing = ("get", "worlds,universes", "--all-namespaces")
        until(
            "Worlds and Universes can be listed",
            lambda: started.kubectl(*listing, check=False).returncode == 0,
            deadline=BUDGET,
        )
        yield started


@pytest.fixture(scope="session")
def operator_kubeconfig(plane: ControlPlane) -> Path:
    """A kubeconfig with a token of the operator's ServiceAccount."""
    return kubeconfig_of(plane, rbac.NAME)


def kubeconfig_of(plane: ControlPlane, account: str) -> Path:
    """A kubeconfig with a token of a ServiceAccount in the operator's namespace."""
    token = plane.kubectl("create", "token", account, "--namespace", OPERATOR_NAMESPACE, "--duration=2h")
    path = plane.folder / f"{account}.kubeconfig"
    plane.write_kubeconfig(path, {"token": token.stdout.strip()})
    return path


@pytest.fixture
async def home(plane: ControlPlane, operator_kubeconfig: Path, request: pytest.FixtureRequest) -> AsyncIterator[Home]:
    """A fresh namespace. Operators that the test started are stopped at its end, then the namespace goes."""
    namespace = f"t-{secrets.token_hex(4)}"
    plane.kubectl("create", "namespace", namespace)
    configuration = Configuration()
    await load_kube_config(str(plane.kubeconfig), client_configuration=configuration, persist_config=False)
    async with Kubernetes(configuration) as api:
        found = Home(plane=plane, api=api, namespace=namespace, kubeconfig=operator_kubeconfig)
        try:
            yield found
        finally:
            if request.node.stash.get(_failed, True):
                print(found.tell())
            for operator in found.operators:
                await operator.stop()
            plane.kubectl("delete", "namespace", namespace, "--wait=false")


@pytest.fixture
def other_namespace(plane: ControlPlane) -> Iterator[str]:
    """A second namespace."""
    namespace = f"t-{secrets.token_hex(4)}"
    plane.kubectl("create", "namespace", namespace)
    yield namespace
    plane.kubectl("delete", "namespace", namespace, "--wait=false")
