"""What stands in Git stays what stands in the cluster: no default and no write of the operator differs from it."""

from __future__ import annotations

from typing import Any

import pytest
import yaml

from tests.cluster.home import EXAMPLE, Home

MINIMAL: tuple[dict[str, Any], ...] = (
    {
        "apiVersion": "demarkus.io/v1alpha1",
        "kind": "World",
        "metadata": {"name": "tea"},
        "spec": {"store": {"volume": {"size": "1024Mi"}}},
    },
    {
        "apiVersion": "demarkus.io/v1alpha1",
        "kind": "Universe",
        "metadata": {"name": "acme"},
        "spec": {"publicURL": "https://mark.example.com", "broker": {"ingress": {}, "template": {}}},
    },
)


async def test_row_5_a_minimal_manifest_is_all_that_the_live_object_says(home: Home) -> None:
    """The operator has acted on it, and its spec, labels and annotations are those of the manifest."""
    await home.operator()
    home.apply(*MINIMAL)
    subjects = [home.world("tea"), home.universe()]
    await home.settled(subjects=subjects)
    for manifest, ref in zip(MINIMAL, subjects, strict=True):
        live = await home.api.get(ref)
        assert live["spec"] == manifest["spec"]
        annotations = live["metadata"].get("annotations", {})
        assert set(annotations) == {"kubectl.kubernetes.io/last-applied-configuration"}
        assert not {"labels", "finalizers", "ownerReferences"} & set(live["metadata"])


@pytest.mark.parametrize("server_side", [False, True], ids=["client-side", "server-side"])
async def test_row_26_examples_stay_in_sync_however_they_are_applied(home: Home, server_side: bool) -> None:
    """`kubectl diff` after the operator has acted finds nothing, and a second apply changes nothing."""
    flags = ("--server-side",) if server_side else ()
    files = [argument for file in sorted(EXAMPLE.iterdir()) for argument in ("--filename", str(file))]
    await home.operator()
    home.kubectl("apply", *flags, *files)
    await home.settled()
    assert home.kubectl("diff", *flags, *files) == ""
    before = await home.versions()
    home.kubectl("apply", *flags, *files)
    assert await home.versions() == before
    for file in sorted(EXAMPLE.iterdir()):
        manifest = yaml.safe_load(file.read_text())
        ref = home.universe() if manifest["kind"] == "Universe" else home.world(manifest["metadata"]["name"])
        assert (await home.api.get(ref))["spec"] == manifest["spec"]
