"""`Universe`: Worlds that share a gateway, and so one URL to join."""

from __future__ import annotations

from typing import Annotated, Any, ClassVar, Literal

from pydantic import Field

from demarkus_operator.api.common import ImageTag, Model, name_rule
from demarkus_operator.api.rules import Rule, whole
from demarkus_operator.api.status import Status, Text

KIND = "Universe"
PLURAL = "universes"

MAX_REPLICAS = 20
_PUBLIC_URL = r"^(https://[a-z0-9]([a-z0-9.-]*[a-z0-9])?|http://(localhost|127[.][0-9]+[.][0-9]+[.][0-9]+|\[::1\]))(:[1-9][0-9]{0,4})?$"
_is_public_url = whole(_PUBLIC_URL)

LabelKey = Annotated[str, Field(min_length=1, max_length=316)]
LabelValue = Annotated[str, Field(max_length=63)]


class Requirement(Model):
    """One condition on labels."""

    RULES: ClassVar[tuple[Rule, ...]] = (
        Rule(
            name="requirement-values",
            field="values",
            expression="self.operator in ['In', 'NotIn'] ? has(self.values) : !has(self.values)",
            message="In and NotIn need values; Exists and DoesNotExist take none",
            holds=lambda self, _: (self["operator"] in ("In", "NotIn")) == ("values" in self),
        ),
    )

    key: LabelKey
    """The label."""
    operator: Literal["In", "NotIn", "Exists", "DoesNotExist"]
    """How its value is compared with `values`."""
    values: Annotated[list[LabelValue], Field(min_length=1, max_length=50)] | None = None
    """The values for In and NotIn."""


class Selector(Model):
    """Labels that are wanted; all parts have to hold. Without any part it selects everything."""

    match_labels: Annotated[dict[LabelKey, LabelValue], Field(max_length=50)] | None = None
    """Labels and the values they must have."""
    match_expressions: Annotated[list[Requirement], Field(max_length=50)] | None = None
    """Conditions on labels."""


class AllowedNamespaces(Model):
    """Namespaces whose Worlds may belong to a Universe, besides its own."""

    selector: Selector
    """Selects namespaces by their labels; `{}` selects all. The label `kubernetes.io/metadata.name` is the name."""


class Worlds(Model):
    """Which Worlds may belong to a Universe."""

    allowed_namespaces: AllowedNamespaces | None = None
    """Namespaces whose Worlds may name this Universe. Default: only its own."""


class Broker(Model):
    """The gateway."""

    RULES: ClassVar[tuple[Rule, ...]] = (
        Rule(
            name="replicas-bounds",
            field="replicas",
            expression=f"!has(self.replicas) || (self.replicas >= 1 && self.replicas <= {MAX_REPLICAS})",
            message=f"a gateway has 1 to {MAX_REPLICAS} replicas; 2 or more keep it reachable while a node is drained",
            holds=lambda self, _: 1 <= self.get("replicas", 1) <= MAX_REPLICAS,
        ),
    )

    replicas: Annotated[int, Field(json_schema_extra={"format": "int32"})] | None = None
    """How many processes share the work. Default: 2."""


class UniverseSpec(Model):
    """What a Universe should be."""

    RULES: ClassVar[tuple[Rule, ...]] = (
        Rule(
            name="public-url",
            field="publicURL",
            expression=f"self.publicURL.matches(r'{_PUBLIC_URL}')",
            message="publicURL is https:// and a host in lower case, with a port if need be, and nothing behind it: "
            "https://mark.example.com; http:// is for loopback addresses only",
            holds=lambda self, _: _is_public_url(self["publicURL"]),
        ),
    )

    public_url: Annotated[str, Field(alias="publicURL", min_length=1, max_length=300)]
    """The URL that people and agents join: scheme and host only. It is the issuer and audience of credentials."""
    version: ImageTag | None = None
    """The version of the gateway and of its Worlds. Default: the operator's own at the time."""
    worlds: Worlds | None = None
    """Which Worlds may belong here."""
    broker: Broker | None = None
    """The gateway."""


class UniverseStatus(Status):
    """What a Universe is."""

    endpoint: Text | None = None
    """The URL of the gateway's MCP endpoint."""
    worlds: Annotated[int, Field(ge=0)] | None = None
    """How many Worlds the gateway leads to."""


class Universe(Model):
    """Worlds that share a gateway: one URL that people and agents join."""

    RULES: ClassVar[tuple[Rule, ...]] = (name_rule(KIND),)

    api_version: str
    kind: Literal["Universe"]
    metadata: dict[str, Any]
    spec: UniverseSpec
    """What the Universe should be."""
    status: UniverseStatus | None = None
    """What the Universe is; written by the operator."""
