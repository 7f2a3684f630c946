"""Capability tokens of a World: those that are made for it, and files with hashes of others."""

from __future__ import annotations

from typing import Annotated, ClassVar

from pydantic import Field

from demarkus_operator.api.access import Operation, Paths, paths_rule
from demarkus_operator.api.common import Model
from demarkus_operator.api.durations import DAYS, duration_rule
from demarkus_operator.api.names import SecretKey
from demarkus_operator.api.rules import Rule, whole

_TOKEN_NAME = r"^[a-z0-9]([-a-z0-9]{0,38}[a-z0-9])?$"
_is_token_name = whole(_TOKEN_NAME)


class Token(Model):
    """A capability token for native clients. Its text is in the Secret `<world>-token-<name>`."""

    RULES: ClassVar[tuple[Rule, ...]] = (
        Rule(
            name="token-name",
            field="name",
            expression=f"self.name.matches(r'{_TOKEN_NAME}')",
            message="a token's name is part of a Secret's name: at most 40 lower-case letters, digits and '-', "
            "beginning and ending with a letter or digit",
            holds=lambda self, _: _is_token_name(self["name"]),
        ),
        paths_rule("token-paths"),
        duration_rule(
            "token-rotate-every",
            "rotateEvery",
            DAYS,
            "rotateEvery is a whole number of days or hours, a day or more: '90d' or '36h'",
        ),
    )

    name: Annotated[str, Field(min_length=1, max_length=63)]
    """The token's name, by which the World records who wrote. A name that is removed takes its Secret with it."""
    operations: Annotated[list[Operation], Field(min_length=1, max_length=7)]
    """What it gives: `read`, `append`, `write` (publish and append), `archive`, `publish` (write and archive),
    `prune`, which it takes to set `retention`, or `review`, which with `write` decides proposals of others."""
    paths: Paths
    """Where it holds, as path patterns such as `/**` or `/docs/**`."""
    rotate_every: Annotated[str, Field(min_length=1, max_length=8)] | None = None
    """How often it gets a new text, such as `90d`; the one before is taken for a while longer. Default: never."""


class TokenFile(Model):
    """A file with hashes of capability tokens, as `demarkus-world token` writes it."""

    secret_ref: SecretKey
    """Where it is."""
