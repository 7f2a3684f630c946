"""What a World or gateway adds to its NetworkPolicy."""

from __future__ import annotations

import ipaddress
from typing import Annotated, Any, ClassVar, Literal

from pydantic import Field

from demarkus_operator.api.common import Model
from demarkus_operator.api.rules import Rule, Value
from demarkus_operator.api.selectors import Selector


def _network(text: str) -> ipaddress.IPv4Network | ipaddress.IPv6Network | None:
    try:
        return ipaddress.ip_network(text, strict=False) if "/" in text else None
    except ValueError:
        return None


def _excepts_inside(self: Value) -> bool:
    outer = _network(self["cidr"])
    return outer is None or all(
        inner is not None and inner.version == outer.version and inner != outer and inner.subnet_of(outer)  # type: ignore[arg-type]
        for inner in map(_network, self.get("except", ()))
    )


class IPBlock(Model):
    """A range of addresses."""

    RULES: ClassVar[tuple[Rule, ...]] = (
        Rule(
            name="block-cidr",
            field="cidr",
            expression="isCIDR(self.cidr)",
            message="cidr is a range of addresses such as 192.0.2.0/24 or 2001:db8::/32",
            holds=lambda self, _: _network(self["cidr"]) is not None,
        ),
        Rule(
            name="block-except",
            field="except",
            expression="!has(self.except) || !isCIDR(self.cidr) || self.except.all(e, isCIDR(e) && "
            "cidr(self.cidr).containsCIDR(e) && cidr(e).prefixLength() > cidr(self.cidr).prefixLength())",
            message="what is excepted is a smaller range inside cidr",
            holds=lambda self, _: _excepts_inside(self),
        ),
    )

    cidr: Annotated[str, Field(min_length=1, max_length=43)]
    """The range, such as `192.0.2.0/24`."""
    except_: Annotated[
        list[Annotated[str, Field(min_length=1, max_length=43)]] | None, Field(alias="except", max_length=20)
    ] = None
    """Ranges inside it that are left out."""


class Peer(Model):
    """Pods or addresses. Both selectors together mean pods so selected in namespaces so selected."""

    RULES: ClassVar[tuple[Rule, ...]] = (
        Rule(
            name="peer-names-somebody",
            expression="has(self.ipBlock) != (has(self.namespaceSelector) || has(self.podSelector))",
            message="a peer is either ipBlock, or namespaceSelector and podSelector, of which one is enough",
            holds=lambda self, _: ("ipBlock" in self) != ("namespaceSelector" in self or "podSelector" in self),
        ),
    )

    namespace_selector: Selector | None = None
    """Selects namespaces; `{}` selects all. Default: the object's own."""
    pod_selector: Selector | None = None
    """Selects pods there. Default: all."""
    ip_block: IPBlock | None = None
    """Addresses, for what is outside the cluster."""


class PolicyPort(Model):
    """A port, or a range of them."""

    RULES: ClassVar[tuple[Rule, ...]] = (
        Rule(
            name="port-range",
            field="endPort",
            expression="!has(self.endPort) || self.endPort >= self.port",
            message="endPort is the last port of a range that begins at port; it can't come before it",
            holds=lambda self, _: self.get("endPort", self["port"]) >= self["port"],
        ),
    )

    protocol: Literal["TCP", "UDP"]
    """The protocol. Mark is UDP; probes and metrics are TCP."""
    port: Annotated[int, Field(ge=1, le=65535, json_schema_extra={"format": "int32"})]
    """The port of the pod, or the first of a range."""
    end_port: Annotated[int, Field(ge=1, le=65535, json_schema_extra={"format": "int32"})] | None = None
    """The last port of a range."""


Peers = Annotated[list[Peer], Field(min_length=1, max_length=20)]
Ports = Annotated[list[PolicyPort], Field(min_length=1, max_length=20)]


class Ingress(Model):
    """Who else may reach the pods, and where."""

    from_: Annotated[list[Peer] | None, Field(alias="from", min_length=1, max_length=20)] = None
    """Who. Absent: everybody."""
    ports: Ports | None = None
    """On which ports. Absent: all."""


class Egress(Model):
    """Whom else the pods may reach, and where."""

    to: Peers | None = None
    """Whom. Absent: everybody."""
    ports: Ports | None = None
    """On which ports. Absent: all."""


class NetworkPolicy(Model):
    """The NetworkPolicy of the pods. What they need is in it; `ingress` and `egress` add to that."""

    enabled: bool | None = None
    """Whether there is one. Default: true."""
    ingress: Annotated[list[Ingress], Field(max_length=20)] | None = None
    """Who else may reach the pods, such as whoever collects metrics at TCP 8081."""
    egress: Annotated[list[Egress], Field(max_length=20)] | None = None
    """Whom else the pods may reach."""


def added(rules: list[Ingress] | list[Egress] | None) -> list[dict[str, Any]]:
    """Rules as a NetworkPolicy spells them."""
    return [rule.model_dump(by_alias=True, exclude_none=True) for rule in rules or ()]
