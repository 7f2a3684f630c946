"""The texts of a World's seeds: from the spec, or from ConfigMaps that it names."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import yaml

from demarkus_operator.api.world import WorldSpec
from demarkus_operator.plan import references
from demarkus_operator.plan.objects import Manifest, Observed
from demarkus_operator.plan.refusal import Refusal


def seeds(spec: WorldSpec, namespace: str, observed: Observed, config: Manifest | None) -> list[dict[str, Any]]:
    """The seeds as world.yaml has them.

    A ConfigMap that is gone does no harm to a World that knows its text: seeds are for the beginning. `config` is the
    World's configuration as it is. Raises Refusal for a text that was never there.
    """
    found = []
    for index, seed in enumerate(spec.seed or ()):
        entry: dict[str, Any] = {"path": seed.path}
        if seed.text is not None:
            entry["text"] = seed.text
        elif seed.config_map_key_ref is not None:
            source = seed.config_map_key_ref
            ref = references.config_map(namespace, source.name)
            try:
                entry["text"] = references.text(observed, ref, source.key, f"spec.seed[{index}].configMapKeyRef")
            except Refusal:
                known = _known(config).get(seed.path)
                if known is None:
                    raise
                entry["text"] = known
        found.append(entry)
    return found


def _known(config: Manifest | None) -> Mapping[str, str]:
    """The texts in the configuration as it is, by path."""
    try:
        document = yaml.load((config or {}).get("data", {}).get("world.yaml", ""), Loader=yaml.CSafeLoader)
        return {str(seed["path"]): str(seed["text"]) for seed in document.get("seed", ()) if "text" in seed}
    except (yaml.YAMLError, AttributeError, KeyError, TypeError):
        return {}
