"""PersistentVolumeClaim of a World: made by us, without an owner, mounted by its name; it outlives the World."""

from __future__ import annotations

from typing import Any

from demarkus_operator.api import quantities
from demarkus_operator.api.store import Volume
from demarkus_operator.plan.names import WorldNames
from demarkus_operator.plan.objects import Manifest
from demarkus_operator.plan.owner import Owner


def claim(owner: Owner, names: WorldNames, volume: Volume, seen: Manifest | None) -> dict[str, Any]:
    """The claim. One that is there already, from an earlier World, keeps its class and its size."""
    size, storage_class = quantities.canonical(volume.size), volume.storage_class_name
    if seen is not None:
        size = seen["spec"]["resources"]["requests"]["storage"]
        storage_class = seen["spec"].get("storageClassName")
    spec: dict[str, Any] = {
        "accessModes": ["ReadWriteOnce"],
        "volumeMode": "Filesystem",
        "resources": {"requests": {"storage": size}},
    }
    if storage_class is not None:
        spec["storageClassName"] = storage_class
    return owner.kept(names.claim, {"spec": spec})
