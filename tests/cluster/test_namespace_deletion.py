"""Row 7: a namespace that is deleted goes, with the operator there and without it."""

from __future__ import annotations

import json
import secrets
from collections.abc import Iterator

import pytest

from demarkus_operator.plan.labels import FINALIZER
from tests.cluster.home import EXAMPLE, ROOT, Home, eventually

RELEASE = """kubectl patch world NAME --namespace NAMESPACE --type=merge --patch '{"metadata":{"finalizers":null}}'"""


@pytest.fixture
def doomed(home: Home) -> Iterator[str]:
    """A namespace that the test deletes."""
    name = f"t-{secrets.token_hex(4)}"
    home.plane.kubectl("create", "namespace", name)
    yield name
    home.plane.kubectl("delete", "namespace", name, "--wait=false", "--ignore-not-found", check=False)


def apply_example(home: Home, namespace: str) -> None:
    for file in sorted(EXAMPLE.iterdir()):
        home.plane.kubectl("--namespace", namespace, "apply", "--filename", str(file))


async def gone(home: Home, namespace: str) -> None:
    async def probe() -> bool:
        return home.plane.kubectl("get", "namespace", namespace, check=False).returncode != 0

    await eventually(f"namespace {namespace} is gone", probe)


async def test_row_7_with_the_operator_it_goes_and_nothing_is_made_anew(home: Home, doomed: str) -> None:
    operator = await home.operator(namespaces=[home.namespace, doomed])
    apply_example(home, doomed)
    await home.reaches(home.world_in(doomed, "packages"), "Starting")
    home.plane.kubectl("delete", "namespace", doomed, "--wait=false")
    await gone(home, doomed)
    assert operator.status is None
    assert not [line for line in operator.lines("reconcile") if line["result"] == "bug"]


async def test_row_7_without_it_only_worlds_with_something_outside_hang_until_they_are_released(
    home: Home, doomed: str
) -> None:
    operator = await home.operator(namespaces=[home.namespace, doomed])
    apply_example(home, doomed)
    await home.reaches(home.world_in(doomed, "packages"), "Starting")
    await operator.stop()
    held = json.dumps({"metadata": {"finalizers": [FINALIZER]}})
    home.plane.kubectl("--namespace", doomed, "patch", "world", "packages", "--type=merge", "--patch", held)
    home.plane.kubectl("delete", "namespace", doomed, "--wait=false")

    async def only_that_one() -> bool:
        left = home.plane.kubectl("--namespace", doomed, "get", "worlds,universes", "--output=name").stdout.split()
        return left == ["world.demarkus.io/packages"]

    await eventually("only the World with something outside the cluster is left", only_that_one)
    assert RELEASE in (ROOT / "docs" / "how-to" / "install-on-a-cluster.md").read_text()
    command = RELEASE.replace("NAMESPACE", doomed).replace("NAME", "packages").removeprefix("kubectl ")
    *arguments, patch = command.split(" ")
    home.plane.kubectl(*arguments, patch.strip("'"))
    await gone(home, doomed)
