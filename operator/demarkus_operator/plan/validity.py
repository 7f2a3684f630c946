"""Whether the spec of a World holds: what the API server judges, and what only our own parsers can."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

from demarkus_operator.api.check import problems
from demarkus_operator.api.conditions import Reason
from demarkus_operator.api.world import WorldSpec
from demarkus_operator.plan.refusal import Refusal
from mark_protocol.patterns import PatternError, check_pattern


def spec_of(world: Mapping[str, Any]) -> WorldSpec:
    """The spec, if it holds. Raises Refusal naming every field that does not."""
    found = [str(problem) for problem in problems(world)]
    if not found:
        spec = WorldSpec.model_validate(world["spec"])
        found = list(_pattern_problems(spec))
        if not found:
            return spec
    raise Refusal(Reason.INVALID_SPEC, "; ".join(found))


def _pattern_problems(spec: WorldSpec) -> Iterable[str]:
    """Patterns that only their own parser can judge, such as those with an open bracket."""
    access, retention = spec.access, spec.retention
    groups = [(f"spec.tokens[{index}]", token.paths) for index, token in enumerate(spec.tokens or ())]
    for kind, entries in (("readers", access and access.readers), ("writers", access and access.writers)):
        groups += [(f"spec.access.{kind}[{index}]", entry.paths or []) for index, entry in enumerate(entries or ())]
    holds = (retention and retention.holds) or ()
    groups += [(f"spec.retention.holds[{index}]", hold.paths) for index, hold in enumerate(holds)]
    for place, patterns in groups:
        for index, pattern in enumerate(patterns):
            try:
                check_pattern(pattern)
            except PatternError as error:
                yield f"{place}.paths[{index}]: {error}"
