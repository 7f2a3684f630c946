"""ConfigMap, in the operator's namespace: what was witnessed of a World's history. It outlives the World."""

from __future__ import annotations

from typing import Any

from demarkus_operator.plan import labels
from demarkus_operator.plan.objects import Manifest, Ref
from demarkus_operator.plan.owner import Owner
from demarkus_operator.plan.witness import Record, data_of


def record(owner: Owner, ref: Ref, content: Record, seen: Manifest | None) -> dict[str, Any]:
    """The record, valid only on top of the version that was read: what is in it must not be lost."""
    manifest = owner.retained(ref, {"data": data_of(content)})
    manifest["metadata"]["labels"][labels.HOME] = owner.namespace
    if seen is not None and (read := seen["metadata"].get("resourceVersion")):
        manifest["metadata"]["resourceVersion"] = read
    return manifest
