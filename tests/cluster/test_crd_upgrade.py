"""The CRDs of today take the place of earlier ones: objects stay what they were, and can be changed as before.

Each of `crds-before/` is installed under a group of its own, so that the CRDs that other tests use stay.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import yaml

from demarkus_operator.api.common import GROUP
from dev.cluster.plane import ControlPlane
from tests.cluster.home import ROOT

BEFORE = sorted((ROOT / "tests" / "cluster" / "crds-before").iterdir())

WORLD: dict[str, Any] = {
    "universeRef": {"name": "acme", "namespace": "other"},
    "version": "0.1.0",
    "reads": "universe",
    "access": {
        "readers": [{"emails": ["rosa@example.com"], "domains": ["example.com"], "paths": ["/docs/**"]}],
        "writers": [{"groups": ["tea"], "claims": {"team": ["tea"]}, "operations": ["append"]}],
    },
    "store": {"volume": {"size": "1Gi", "storageClassName": "fast"}},
    "history": "compatible",
    "tokens": [{"name": "robot", "operations": ["read", "publish"], "paths": ["/**"]}],
    "limits": {"rate": {"perSecond": 5, "burst": 9}, "maxStreams": 7, "requestTimeout": "500ms"},
}
LATER: dict[str, Any] = {
    "limits": {**WORLD["limits"], "maxWatches": 3},
    "policy": {"strictness": "ask", "requireTags": ["area"], "allowedValues": {"status": ["draft"]}},
    "seed": [{"path": "/index.md", "text": "# Tea\n"}, {"path": "/.well-known/agent-manifest.md"}],
}
"""What the second of them brought."""
SPECS: dict[str, dict[str, Any]] = {
    "worlds": WORLD,
    "universes": {
        "publicURL": "https://mark.example.com",
        "version": "0.1.0",
        "worlds": {"allowedNamespaces": {"selector": {"matchLabels": {"team": "tea"}}}},
        "broker": {"replicas": 3},
    },
}


def crds(folder: Path, group: str) -> list[dict[str, Any]]:
    """The CRDs of a folder under another group."""
    found = []
    for file in sorted(folder.glob("*.yaml")):
        crd = yaml.safe_load(file.read_text())
        crd["metadata"]["name"] = f"{crd['spec']['names']['plural']}.{group}"
        crd["spec"]["group"] = group
        crd["spec"]["names"].pop("categories")
        crd["spec"]["names"].pop("shortNames", None)
        found.append(crd)
    return found


@pytest.fixture(params=BEFORE, ids=lambda folder: folder.name)
def before(plane: ControlPlane, request: pytest.FixtureRequest) -> Iterator[tuple[Path, str]]:
    """An earlier state of the CRDs, installed, and its group."""
    group = f"{request.param.name}.{GROUP}"
    install(plane, crds(request.param, group))
    yield request.param, group
    for plural in SPECS:
        plane.kubectl("delete", "crd", f"{plural}.{group}", "--wait=false")


def install(plane: ControlPlane, definitions: list[dict[str, Any]]) -> None:
    listed = json.dumps({"apiVersion": "v1", "kind": "List", "items": definitions})
    plane.kubectl("apply", "--server-side", "-f", "-", input=listed)
    names = [definition["metadata"]["name"] for definition in definitions]
    plane.kubectl("wait", "--for=condition=Established", "crd", *names, "--timeout=60s")


def test_old_objects_stay_readable_and_unchanged(plane: ControlPlane, before: tuple[Path, str]) -> None:
    folder, group = before
    kinds = {"worlds": "World", "universes": "Universe"}
    world = SPECS["worlds"] if folder.name == "skeleton" else {**SPECS["worlds"], **LATER}
    given = {**SPECS, "worlds": world}
    objects = [
        {
            "apiVersion": f"{group}/v1alpha1",
            "kind": kinds[plural],
            "metadata": {"name": "tea", "namespace": "default"},
            "spec": spec,
        }
        for plural, spec in given.items()
    ]
    created = json.dumps({"apiVersion": "v1", "kind": "List", "items": objects})
    plane.kubectl("apply", "--validate=strict", "-f", "-", input=created)
    status = {"status": {"observedGeneration": 1, "version": "0.1.0", "endpoint": "mark://tea.default.svc"}}
    for plural in given:
        arguments = ("--subresource=status", "--type=merge", "--patch", json.dumps(status))
        plane.kubectl("patch", f"{plural}.{group}", "tea", *arguments)
    old = {plural: read(plane, plural, group) for plural in given}

    install(plane, crds(ROOT / "crds", group))

    assert {plural: read(plane, plural, group) for plural in given} == old
    for plural, manifest in zip(given, objects, strict=True):
        assert old[plural]["spec"] == manifest["spec"], "nothing was pruned or filled in"
        # What its author applies again changes nothing, and what they change is taken.
        again = plane.kubectl("apply", "--validate=strict", "-f", "-", input=json.dumps(manifest))
        assert "unchanged" in again.stdout
        changed = {**manifest, "spec": {**manifest["spec"], "deletionPolicy": "Delete"}}
        plane.kubectl("apply", "--validate=strict", "-f", "-", input=json.dumps(changed))
        after = read(plane, plural, group)
        assert after["spec"] == changed["spec"]
        assert after["metadata"]["generation"] == old[plural]["metadata"]["generation"] + 1


def read(plane: ControlPlane, plural: str, group: str) -> dict[str, Any]:
    found: dict[str, Any] = json.loads(plane.kubectl("get", f"{plural}.{group}", "tea", "--output=json").stdout)
    return found
