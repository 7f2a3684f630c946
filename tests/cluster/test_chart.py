"""The chart on a real control plane: what it installs is accepted, and an operator lives on the rights it gives."""

from __future__ import annotations

import json
import secrets
import subprocess
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import yaml

from dev.chart import CHART
from dev.cluster.plane import ControlPlane
from tests.cluster.home import BUDGET


@pytest.fixture
def namespace(plane: ControlPlane) -> Iterator[str]:
    """A namespace for an operator of its own."""
    name = f"o-{secrets.token_hex(4)}"
    plane.kubectl("create", "namespace", name)
    yield name
    plane.kubectl("delete", "namespace", name, "--wait=false")


def run(helm: Path, plane: ControlPlane, *arguments: str | Path) -> str:
    done = subprocess.run(
        [helm, *arguments, "--kubeconfig", plane.kubeconfig], capture_output=True, text=True, timeout=BUDGET
    )
    assert done.returncode == 0, done.stderr
    return done.stdout


def test_everything_is_accepted_as_it_is_written(helm: Path, plane: ControlPlane, namespace: str) -> None:
    rendered = run(helm, plane, "template", "operator", CHART, "--namespace", namespace)
    for document in yaml.safe_load_all(rendered):
        if document:
            plane.kubectl(
                "apply",
                "--server-side",
                "--force-conflicts",
                "--dry-run=server",
                "--validate=strict",
                "--filename=-",
                input=json.dumps(document),
            )


def test_install_upgrade_and_uninstall(helm: Path, plane: ControlPlane, namespace: str) -> None:
    where = ("--namespace", namespace, "--set=crds.enabled=false")
    run(helm, plane, "install", "operator", CHART, *where)
    before = deployment(plane, namespace)
    run(helm, plane, "upgrade", "operator", CHART, *where)
    assert deployment(plane, namespace)["metadata"]["generation"] == before["metadata"]["generation"]
    run(helm, plane, "upgrade", "operator", CHART, *where, "--set=replicas=1", "--set=logLevel=debug")
    assert deployment(plane, namespace)["spec"]["replicas"] == 1
    run(helm, plane, "uninstall", "operator", "--namespace", namespace)
    left = plane.kubectl(
        "get", "deploy,role,rolebinding,sa,pdb,netpol", "--namespace", namespace, "--output=name"
    ).stdout
    assert set(left.split()) <= {"serviceaccount/default"}  # which Kubernetes makes, sooner or later
    assert f"demarkus-operator-{namespace}" not in plane.kubectl("get", "clusterrole", "--output=name").stdout


def deployment(plane: ControlPlane, namespace: str) -> Any:
    found = plane.kubectl("get", "deployment/demarkus-operator", "--namespace", namespace, "--output=json")
    return json.loads(found.stdout)
