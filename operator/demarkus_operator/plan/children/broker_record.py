"""ConfigMap: the Universe's record. It outlives the Universe."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from demarkus_operator.api.universe import WorldDefaults
from demarkus_operator.plan.names import UniverseNames
from demarkus_operator.plan.objects import Manifest
from demarkus_operator.plan.owner import Owner
from demarkus_operator.plan.record import Binding, data_of
from demarkus_operator.plan.rollout import Rollout
from demarkus_operator.plan.rollout import data_of as rollout_data


def record(
    owner: Owner,
    names: UniverseNames,
    bindings: Mapping[str, Binding],
    defaults: WorldDefaults | None,
    *,
    version: Mapping[str, str],
    rollout: Rollout,
    seen: Manifest | None,
) -> dict[str, Any]:
    """The record, valid only on top of the version that was read: a binding that another process wrote meanwhile
    must not be lost. It stays whatever becomes of the Universe. `version` are the annotations that name the one in
    force, `rollout` says who has it not yet.
    """
    data = {**data_of(bindings, defaults), **rollout_data(rollout)}
    manifest = owner.retained(names.record, {"data": data}, annotations=version)
    if seen is not None and (read := seen["metadata"].get("resourceVersion")):
        manifest["metadata"]["resourceVersion"] = read
    return manifest
