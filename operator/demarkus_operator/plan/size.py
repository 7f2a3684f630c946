"""Whether a configuration fits into the object that carries it."""

from __future__ import annotations

from collections.abc import Mapping

from demarkus_operator.api.conditions import Reason
from demarkus_operator.plan.objects import Manifest, Ref
from demarkus_operator.plan.refusal import Refusal

MAX_BYTES = 1_000_000
"""A ConfigMap holds 1 MiB; a little is left for its names and labels."""


def check_size(manifest: Manifest, help_: str) -> None:
    """Refuses a ConfigMap that the API server would not take. `help_` says what makes it smaller."""
    size = bytes_of(manifest["data"])
    if size > MAX_BYTES:
        raise Refusal(
            Reason.CONFIG_TOO_LARGE, f"{Ref.of(manifest)} would have {size} bytes, and {MAX_BYTES} fit; {help_}"
        )


def bytes_of(data: Mapping[str, str]) -> int:
    """What the content of a ConfigMap takes."""
    return sum(len(key.encode()) + len(value.encode()) for key, value in data.items())
