"""Whether a Universe takes a World in. Both sides must agree: the World names the Universe, which admits the World's
namespace.
"""

from __future__ import annotations

from collections.abc import Mapping

from demarkus_operator.api.selectors import Requirement, Selector
from demarkus_operator.api.universe import UniverseSpec
from demarkus_operator.plan import labels
from demarkus_operator.plan.objects import Manifest


def universe_of(world: Manifest) -> tuple[str, str] | None:
    """Namespace and name of the Universe that a World names."""
    reference = (world.get("spec") or {}).get("universeRef")
    if reference is None:
        return None
    return reference.get("namespace") or world["metadata"]["namespace"], reference["name"]


def admits(spec: UniverseSpec, home: str, namespace: str, seen: Manifest | None) -> bool:
    """Whether a Universe that lives in `home` admits Worlds of a namespace. `seen` is the Namespace object, if read."""
    if namespace == home:
        return True
    if spec.worlds is None or spec.worlds.allowed_namespaces is None:
        return False
    found = {} if seen is None else seen["metadata"].get("labels") or {}
    return selects(spec.worlds.allowed_namespaces.selector, {**found, labels.NAMESPACE_NAME: namespace})


def selects(selector: Selector, found: Mapping[str, str]) -> bool:
    """Whether labels are what a selector wants, as Kubernetes decides it."""
    wanted = selector.match_labels or {}
    return all(found.get(key) == value for key, value in wanted.items()) and all(
        _meets(requirement, found) for requirement in selector.match_expressions or ()
    )


def _meets(requirement: Requirement, found: Mapping[str, str]) -> bool:
    values = requirement.values or []
    match requirement.operator:
        case "In":
            return found.get(requirement.key) in values
        case "NotIn":
            return found.get(requirement.key) not in values
        case "Exists":
            return requirement.key in found
        case "DoesNotExist":
            return requirement.key not in found
