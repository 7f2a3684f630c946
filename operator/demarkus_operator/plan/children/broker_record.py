"""ConfigMap: the Universe's record. It outlives the Universe."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from demarkus_operator.plan import labels
from demarkus_operator.plan.names import UniverseNames
from demarkus_operator.plan.objects import Manifest
from demarkus_operator.plan.owner import Owner
from demarkus_operator.plan.record import Binding, data_of


def record(
    owner: Owner, names: UniverseNames, bindings: Mapping[str, Binding], version: str, seen: Manifest | None
) -> dict[str, Any]:
    """The record, valid only on top of the version that was read: a binding that another process wrote meanwhile
    must not be lost.
    """
    manifest = owner.kept(names.record, {"data": data_of(bindings)}, annotations={labels.VERSION: version})
    if seen is not None and (read := seen["metadata"].get("resourceVersion")):
        manifest["metadata"]["resourceVersion"] = read
    return manifest
