"""Resources of containers, in the spelling of the API server."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from demarkus_operator.api import quantities
from demarkus_operator.api.pods import Amounts, Resources


def resources(given: Resources | None, *, requests: Mapping[str, str]) -> dict[str, Any]:
    """What a container gets: what is given, and of `requests` what nothing is said of.

    Where only a limit is given, that is what is requested, as Kubernetes has it.
    """
    given = given or Resources()
    limits = _spelled(given.limits)
    wanted = {name: amount for name, amount in requests.items() if name not in limits}
    wanted |= _spelled(given.requests)
    found: dict[str, Any] = {"requests": wanted} if wanted else {}
    return {**found, "limits": limits} if limits else found


def _spelled(amounts: Amounts | None) -> dict[str, str]:
    if amounts is None:
        return {}
    given = amounts.model_dump(by_alias=True, exclude_none=True)
    return {
        name: quantities.canonical_cpu(amount) if name == "cpu" else quantities.canonical(amount)
        for name, amount in given.items()
    }
