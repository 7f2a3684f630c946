"""`Universe`: Worlds that share a gateway, and so one URL to join."""

from __future__ import annotations

from typing import Annotated, Any, ClassVar, Literal

from pydantic import Field

from demarkus_operator.api.common import ImageTag, Label, Model, name_rule
from demarkus_operator.api.durations import SPAN, duration_rule
from demarkus_operator.api.gateway import Broker
from demarkus_operator.api.identity import Identity
from demarkus_operator.api.limits import Limits
from demarkus_operator.api.network import NetworkPolicy
from demarkus_operator.api.pods import WorldTemplate
from demarkus_operator.api.policy import Policy
from demarkus_operator.api.retention import Retention
from demarkus_operator.api.rules import Rule, whole
from demarkus_operator.api.selectors import Selector
from demarkus_operator.api.status import Status, Text
from demarkus_operator.api.trust import Trust

KIND = "Universe"
PLURAL = "universes"

_PUBLIC_URL = r"^(https://[a-z0-9]([a-z0-9.-]*[a-z0-9])?|http://(localhost|127[.][0-9]+[.][0-9]+[.][0-9]+|\[::1\]))(:[1-9][0-9]{0,4})?$"
_is_public_url = whole(_PUBLIC_URL)
_ROUTED_URL = r"^https://([a-z0-9]([-a-z0-9]{0,61}[a-z0-9])?[.])*[a-z]([-a-z0-9]{0,61}[a-z0-9])?(:[1-9][0-9]{0,4})?$"
_is_routed_url = whole(_ROUTED_URL)


class AllowedNamespaces(Model):
    """Namespaces whose Worlds may belong to a Universe, besides its own."""

    selector: Selector
    """Selects namespaces by their labels; `{}` selects all. The label `kubernetes.io/metadata.name` is the name."""


class WorldDefaults(Model):
    """What holds for a World that does not say otherwise. Each of these is taken as a whole."""

    limits: Limits | None = None
    """Bounds on what clients may ask of a World."""
    retention: Retention | None = None
    """What of a World's history may go."""
    policy: Policy | None = None
    """What a World asks of its documents."""
    network_policy: NetworkPolicy | None = None
    """What is added to a World's NetworkPolicy."""
    template: WorldTemplate | None = None
    """What is said of a World's pods."""


class Worlds(Model):
    """Which Worlds may belong to a Universe, and what they begin with."""

    allowed_namespaces: AllowedNamespaces | None = None
    """Namespaces whose Worlds may name this Universe. Default: only its own."""
    defaults: WorldDefaults | None = None
    """What holds for a World that does not say otherwise."""


class Rollout(Model):
    """How a new version reaches the Worlds: one after the other, and no further when one does not get ready."""

    RULES: ClassVar[tuple[Rule, ...]] = (
        duration_rule("rollout-delay", "delay", SPAN, "delay is a whole number of s, m, h or d: '30s', '10m' or '1h'"),
    )

    canary: Annotated[list[Label], Field(max_length=50, json_schema_extra={"x-kubernetes-list-type": "set"})] | None = (
        None
    )
    """Names of the Worlds that get it first."""
    delay: Annotated[str, Field(min_length=1, max_length=8)] | None = None
    """How long each World has to be ready before the next one follows. Default: `30s`."""
    paused: bool | None = None
    """Whether no further World gets it for now. Default: false."""


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
        Rule(
            name="ingress-host",
            field="publicURL",
            expression=f"!has(self.broker) || !has(self.broker.ingress) || self.publicURL.matches(r'{_ROUTED_URL}')",
            message="broker.ingress leads to the host of publicURL, which has to be a name, over https; remove ingress "
            "or give publicURL a name such as https://mark.example.com",
            holds=lambda self, _: "ingress" not in self.get("broker", {}) or _is_routed_url(self["publicURL"]),
        ),
        Rule(
            name="identity-needs-state",
            field="identity",
            expression="!has(self.identity) || (has(self.broker) && has(self.broker.state))",
            message="identity needs broker.state: where logins are kept",
            holds=lambda self, _: "identity" not in self or "state" in self.get("broker", {}),
        ),
    )

    public_url: Annotated[str, Field(alias="publicURL", min_length=1, max_length=300)]
    """The URL that people and agents join: scheme and host only. It is the issuer and audience of credentials."""
    version: ImageTag | None = None
    """The version of the gateway and of its Worlds. Default: the operator's own at the time."""
    identity: Identity | None = None
    """Who may sign in. Without it nobody can; only bearers that are signed with the gateway's key are taken."""
    worlds: Worlds | None = None
    """Which Worlds may belong here, and what they begin with."""
    broker: Broker | None = None
    """The gateway."""
    trust: Trust | None = None
    """The Universe's authority and keys."""
    rollout: Rollout | None = None
    """How a new version reaches the Worlds."""
    network_policy: NetworkPolicy | None = None
    """What is added to the NetworkPolicy of the gateway."""
    deletion_policy: Literal["Retain", "Delete"] | None = None
    """Whether keys and the record of names are deleted with the Universe. Default: `Retain`."""


class RolloutStatus(Model):
    """A version on its way to the Worlds and the gateway."""

    version: Text
    """The version."""
    updated: Annotated[int, Field(ge=0)]
    """How many have it."""
    total: Annotated[int, Field(ge=0)]
    """How many there are: Worlds that take their version from the Universe, and the gateway."""
    reason: Annotated[str, Field(max_length=316)]
    """`RollingOut`, `RolloutPaused` or `RolloutHalted`."""
    message: Text
    """Who gets it, or what it waits for."""


class UniverseStatus(Status):
    """What a Universe is."""

    endpoint: Text | None = None
    """The URL of the gateway's MCP endpoint."""
    worlds: Annotated[int, Field(ge=0)] | None = None
    """How many Worlds the gateway leads to."""
    rollout: RolloutStatus | None = None
    """The version that is on its way; absent when everybody has it."""


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
