"""Who signs certificates, and how often keys are exchanged."""

from __future__ import annotations

from typing import Annotated, ClassVar, Literal

from pydantic import Field

from demarkus_operator.api.common import Model
from demarkus_operator.api.durations import DAYS, duration_rule
from demarkus_operator.api.names import HostName, ObjectName
from demarkus_operator.api.rules import Rule


class IssuerRef(Model):
    """An issuer of cert-manager."""

    name: ObjectName
    """Its name."""
    kind: Literal["Issuer", "ClusterIssuer"] | None = None
    """Its kind. Default: `Issuer`, in the same namespace."""
    group: HostName | None = None
    """Its group. Default: `cert-manager.io`."""


class Trust(Model):
    """The Universe's own authority and keys."""

    RULES: ClassVar[tuple[Rule, ...]] = (
        duration_rule(
            "trust-rotate-every",
            "rotateEvery",
            DAYS,
            "rotateEvery is a whole number of days or hours, a day or more: '90d' or '36h'",
        ),
    )

    issuer_ref: IssuerRef | None = None
    """The issuer of cert-manager that signs the certificates of Worlds. It has to tell its authority (`ca.crt`), which
    the gateway trusts as well. An `Issuer` is that of each World's own namespace, and has to be the same in all.

    Default: an authority of the Universe's own."""
    rotate_every: Annotated[str, Field(min_length=1, max_length=8)] | None = None
    """How often the keys that sign grants and bearers, and the authority, are exchanged, such as `90d`.

    Default: the keys never by themselves, the authority when two thirds of its ten years are over."""
