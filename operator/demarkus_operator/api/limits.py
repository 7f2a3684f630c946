"""Bounds on what clients may ask of a World, and on its size."""

from __future__ import annotations

from typing import Annotated, ClassVar

from pydantic import Field

from demarkus_operator.api import quantities
from demarkus_operator.api.common import Model
from demarkus_operator.api.rules import Rule, whole

_TIMEOUT = r"^([1-9][0-9]{0,4}ms|([1-9][0-9]?|[1-5][0-9][0-9]|600)s|([1-9]|10)m)$"
_is_timeout = whole(_TIMEOUT)


class Rate(Model):
    """How many requests one client may send."""

    per_second: Annotated[int, Field(ge=0, le=1000000)] | None = None
    """Requests in a second, on average; 0 lifts the bound. Default: 50."""
    burst: Annotated[int, Field(ge=1, le=1000000)] | None = None
    """Requests at once, before the average counts. Default: 100."""


class Limits(Model):
    """Bounds on what clients may ask of a World, and on its size."""

    RULES: ClassVar[tuple[Rule, ...]] = (
        Rule(
            name="request-timeout",
            field="requestTimeout",
            expression=f"!has(self.requestTimeout) || self.requestTimeout.matches(r'{_TIMEOUT}')",
            message="requestTimeout is a whole number of ms, s or m, at most ten minutes: '500ms', '10s' or '2m'",
            holds=lambda self, _: "requestTimeout" not in self or _is_timeout(self["requestTimeout"]),
        ),
    )

    rate: Rate | None = None
    """How many requests the holders of one credential may send; without a credential, one address."""
    max_streams: Annotated[int, Field(ge=1, le=10000)] | None = None
    """Requests that one connection may have open at once. Default: 10. A change restarts the server."""
    max_watches: Annotated[int, Field(ge=1, le=100000)] | None = None
    """Watches that the World has open at once; of a connection's requests, half may be watches. Default: 1024."""
    request_timeout: Annotated[str, Field(min_length=1, max_length=16)] | None = None
    """How long a request may take, such as `10s`. Default: 10 seconds."""
    max_documents: Annotated[int, Field(ge=1, le=100000000)] | None = None
    """Documents that the World may have, archived ones too. Default: no bound."""
    max_bytes: Annotated[str, Field(min_length=1, max_length=20, pattern=quantities.PATTERN)] | None = None
    """Space that its versions may take in the store, such as `5Gi`. Default: no bound."""
