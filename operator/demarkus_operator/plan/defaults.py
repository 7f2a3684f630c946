"""What holds for a World that does not say otherwise: the defaults of its Universe."""

from __future__ import annotations

from demarkus_operator.api.policy import POLICY_DOCUMENT
from demarkus_operator.api.universe import WorldDefaults
from demarkus_operator.api.world import WorldSpec


def with_defaults(spec: WorldSpec, defaults: WorldDefaults | None) -> WorldSpec:
    """The spec with what the Universe says of each field that the World leaves out.

    A policy is no default for a World that brings its own as a document.
    """
    if defaults is None:
        return spec
    missing = {
        name: value
        for name in WorldDefaults.model_fields
        if getattr(spec, name) is None and (value := getattr(defaults, name)) is not None
    }
    if any(seed.path == POLICY_DOCUMENT for seed in spec.seed or ()):
        missing.pop("policy", None)
    return spec.model_copy(update=missing)
