"""A larger volume is asked for last, and what it needs is said."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

Build = Callable[..., dict[str, Any]]


def _sized(a_world: Build, size: str) -> dict[str, Any]:
    return a_world(store={"volume": {"size": size}})


def _claim(cluster: Any) -> dict[str, Any]:
    return dict(cluster.get("PersistentVolumeClaim", "tea-data"))


def test_growing_is_an_attempt_after_everything_else_and_the_claim_stays_as_it_is_until_then(
    settled: Any, a_world: Build
) -> None:
    settled.put(_sized(a_world, "2Gi"))
    plan = settled.plan("World", "tea")
    (applied,) = [manifest for manifest in plan.apply if manifest["kind"] == "PersistentVolumeClaim"]
    (attempt,) = plan.attempts
    assert applied["spec"]["resources"]["requests"]["storage"] == "1Gi"
    assert attempt.manifest["spec"]["resources"]["requests"]["storage"] == "2Gi"
    assert (applied["metadata"], attempt.reason) == (attempt.manifest["metadata"], "GrowthRefused")
    assert "can't grow from 1Gi to 2Gi; let the cluster's default StorageClass say allowVolumeExpansion" in attempt.help


@pytest.mark.parametrize(
    ("there", "wanted", "grows"),
    [("1Gi", "1024Mi", False), ("5Gi", "2Gi", False), ("1073741824", "1Gi", False), ("1Gi", "1025Mi", True)],
)
def test_only_a_larger_size_is_attempted(settled: Any, a_world: Build, there: str, wanted: str, grows: bool) -> None:
    claim = _claim(settled)
    settled.put({**claim, "spec": {**claim["spec"], "resources": {"requests": {"storage": there}}}})
    settled.put(_sized(a_world, wanted))
    assert bool(settled.plan("World", "tea").attempts) == grows


@pytest.mark.parametrize(
    "status",
    [
        {"capacity": {"storage": "1Gi"}},
        {"capacity": {"storage": "2Gi"}, "conditions": [{"type": "FileSystemResizePending", "status": "True"}]},
    ],
    ids=["the volume", "its file system"],
)
def test_a_volume_that_grows_is_on_its_way_and_then_no_more(
    settled: Any, a_world: Build, status: dict[str, Any]
) -> None:
    settled.set_status("StatefulSet", "tea-world", {"readyReplicas": 1})
    settled.put(_sized(a_world, "2Gi"))
    settled.set_status("PersistentVolumeClaim", "tea-data", {"capacity": {"storage": "1Gi"}})
    settled.reconcile("World", "tea")
    settled.set_status("PersistentVolumeClaim", "tea-data", status)
    settled.settle()
    assert settled.condition("World", "tea", "Progressing")[:2] == ("True", "VolumeGrowing")
    assert settled.condition("World", "tea")[:2] == ("True", "Serving")
    settled.set_status("PersistentVolumeClaim", "tea-data", {"capacity": {"storage": "2Gi"}})
    settled.settle()
    assert settled.condition("World", "tea", "Progressing")[0] == "False"
    assert settled.plan("World", "tea").requeue > 86400.0, "only its certificate grows old"


def test_growing_leaves_the_pods_alone(settled: Any, a_world: Build) -> None:
    before = settled.get("StatefulSet", "tea-world")
    settled.put(_sized(a_world, "2Gi"))
    settled.settle()
    assert settled.get("StatefulSet", "tea-world") == before
