"""A World's volume grows in a real control plane, whose admission judges whether it may."""

from __future__ import annotations

import json
from typing import Any

import pytest

from demarkus_operator.plan.names import WorldNames
from dev.cluster.plane import PlaneError
from tests.cluster.home import Home, eventually


def _a_class(name: str, *, expands: bool) -> dict[str, Any]:
    return {
        "apiVersion": "storage.k8s.io/v1",
        "kind": "StorageClass",
        "metadata": {"name": name},
        "provisioner": "example.com/none",
        "allowVolumeExpansion": expands,
    }


def _a_volume(home: Home, storage_class: str) -> dict[str, Any]:
    """A volume for the World's claim, which the cluster binds."""
    return {
        "apiVersion": "v1",
        "kind": "PersistentVolume",
        "metadata": {"name": f"pv-{home.namespace}"},
        "spec": {
            "accessModes": ["ReadWriteOnce"],
            "capacity": {"storage": "1Gi"},
            "claimRef": {"namespace": home.namespace, "name": "tea-data"},
            "hostPath": {"path": "/nowhere"},
            "persistentVolumeReclaimPolicy": "Retain",
            "storageClassName": storage_class,
        },
    }


def _a_world(size: str, storage_class: str) -> dict[str, Any]:
    return {
        "apiVersion": "demarkus.io/v1alpha1",
        "kind": "World",
        "metadata": {"name": "tea"},
        "spec": {"store": {"volume": {"size": size, "storageClassName": storage_class}}},
    }


async def _a_bound_world(home: Home, storage_class: str, *, expands: bool) -> WorldNames:
    names = WorldNames(home.namespace, "tea")
    home.apply(_a_class(storage_class, expands=expands), _a_volume(home, storage_class))
    await home.operator()
    home.apply(_a_world("1Gi", storage_class))

    async def bound() -> bool:
        claim = await home.find(names.claim)
        return claim is not None and claim.get("status", {}).get("phase") == "Bound"

    await eventually("a bound claim", bound)
    await home.reaches(home.world("tea"), "Starting")
    await home.pods_are_ready(names.stateful_set)
    await home.reaches(home.world("tea"), "Serving")
    return names


def _uids(home: Home) -> dict[str, str]:
    found = json.loads(home.kubectl("get", "statefulsets,pods", "--output=json"))["items"]
    return {f"{one['kind']}/{one['metadata']['name']}": one["metadata"]["uid"] for one in found}


async def test_row_1_a_volume_grows_and_statefulset_and_pod_keep_their_uid(home: Home) -> None:
    """A larger size of a StatefulSet's template is refused by the API server; here there is no such template."""
    names = await _a_bound_world(home, f"grows-{home.namespace}", expands=True)
    uids = _uids(home)
    before = (await home.api.get(names.stateful_set))["metadata"]["generation"]
    home.apply(_a_world("2Gi", f"grows-{home.namespace}"))
    await home.reaches(home.world("tea"), "VolumeGrowing", type_="Progressing")
    claim = await home.api.get(names.claim)
    assert claim["spec"]["resources"]["requests"]["storage"] == "2Gi"
    grown = json.dumps({"status": {"capacity": {"storage": "2Gi"}}})
    home.kubectl("patch", "pvc", "tea-data", "--subresource=status", "--type=merge", "--patch", grown)
    await home.reaches(home.world("tea"), "Settled", type_="Progressing")
    assert (await home.condition(home.world("tea")))["reason"] == "Serving"
    assert len(uids) == 2
    assert _uids(home) == uids
    assert (await home.api.get(names.stateful_set))["metadata"]["generation"] == before


async def test_row_1_a_class_without_expansion_is_explained_and_not_tried_over_and_over(home: Home) -> None:
    names = await _a_bound_world(home, f"stays-{home.namespace}", expands=False)
    home.apply(_a_world("2Gi", f"stays-{home.namespace}"))
    degraded = await home.reaches(home.world("tea"), "GrowthRefused", type_="Degraded")
    assert f"let StorageClass stays-{home.namespace} say allowVolumeExpansion: true" in degraded["message"]
    assert "storageclass that provisions the pvc must support resize" in degraded["message"]
    claim = await home.api.get(names.claim)
    assert claim["spec"]["resources"]["requests"]["storage"] == "1Gi"
    assert (await home.condition(home.world("tea")))["reason"] == "Serving"

    def tried() -> int:
        return sum(
            call["verb"] == "patch" and call["objectRef"]["resource"] == "persistentvolumeclaims"
            for call in home.calls()
            if call.get("responseStatus", {}).get("code") == 403
        )

    number = tried()
    assert 0 < number < 10
    home.kubectl("patch", "storageclass", f"stays-{home.namespace}", "--patch", '{"allowVolumeExpansion": true}')
    home.kubectl("annotate", "world", "tea", "example.com/look=again")
    await home.reaches(home.world("tea"), "VolumeGrowing", type_="Progressing")
    assert (await home.condition(home.world("tea"), "Degraded"))["status"] == "False"


async def test_a_volume_that_is_to_shrink_is_refused_with_what_to_do(home: Home) -> None:
    home.apply(_a_world("2Gi", "any"))
    with pytest.raises(PlaneError, match="a volume can't shrink; set size back to what it was or more"):
        home.apply(_a_world("1Gi", "any"))
