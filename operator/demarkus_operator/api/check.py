"""Whether an object is a World or Universe that can be, as the API server would judge it with our CRDs."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from demarkus_operator.api.common import API_VERSION, Model, Problem, problems_of, without_nulls
from demarkus_operator.api.universe import Universe
from demarkus_operator.api.world import World

KINDS: Mapping[str, type[Model]] = {"World": World, "Universe": Universe}


def problems(manifest: Mapping[str, Any], old: Mapping[str, Any] | None = None) -> tuple[Problem, ...]:
    """Everything wrong with an object; with `old`, also with the change from it. Its status is not looked at."""
    model = KINDS.get(str(manifest.get("kind")))
    if model is None:
        return (Problem(("kind",), f"expected one of {', '.join(KINDS)}"),)
    if manifest.get("apiVersion") != API_VERSION:
        return (Problem(("apiVersion",), f"expected {API_VERSION}"),)
    metadata = manifest.get("metadata")
    if not isinstance(metadata, Mapping) or not isinstance(metadata.get("name"), str) or not metadata["name"]:
        return (Problem(("metadata", "name"), "is missing"),)
    return problems_of(model, _desired(manifest), None if old is None else _desired(old), ())


def _desired(manifest: Mapping[str, Any]) -> dict[str, Any]:
    desired = {key: value for key, value in manifest.items() if key != "status"}
    return {**without_nulls(desired), "metadata": dict(manifest["metadata"])}
