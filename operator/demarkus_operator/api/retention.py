"""What of a World's history may go, and what may not."""

from __future__ import annotations

from typing import Annotated, ClassVar, Literal

from pydantic import Field

from demarkus_operator.api.access import Paths, paths_rule
from demarkus_operator.api.common import Model
from demarkus_operator.api.durations import SPAN, duration_rule
from demarkus_operator.api.rules import Rule

_HELP = "is a whole number of s, m, h or d: '30m', '24h' or '90d'"


class Hold(Model):
    """Documents of which nothing can go."""

    RULES: ClassVar[tuple[Rule, ...]] = (paths_rule("hold-paths"),)

    paths: Paths
    """Which, as path patterns such as `/contracts/**`."""
    reason: Annotated[str, Field(min_length=1, max_length=500)]
    """Why; told to whoever tries."""


class Retention(Model):
    """Floors and holds on the history. They bind everybody."""

    RULES: ClassVar[tuple[Rule, ...]] = (
        duration_rule("retention-keep-for", "keepFor", SPAN, f"keepFor {_HELP}"),
        duration_rule("retention-grace", "grace", SPAN, f"grace {_HELP}"),
    )

    key: Literal["refuse", "ignore"] | None = None
    """What becomes of a `retention` key from a sender without the right `prune`: the write is refused, or the key is
    stored and not acted on. Default: `refuse`."""
    keep_versions: Annotated[int, Field(ge=0, le=1000000)] | None = None
    """As many of the newest versions of each document stay. Default: 0."""
    keep_for: Annotated[str, Field(min_length=1, max_length=8)] | None = None
    """What was written within this time stays, such as `90d`. Default: `0s`."""
    grace: Annotated[str, Field(min_length=1, max_length=8)] | None = None
    """Time from a sweep to the deletion of what it found. Default: `24h`."""
    holds: Annotated[list[Hold], Field(max_length=100)] | None = None
    """Documents of which nothing can be pruned or swept."""
