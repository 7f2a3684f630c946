"""Where the operator runs and what it brings along: the part of a plan's input that no custom resource says."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True, kw_only=True)
class Images:
    """Image repositories, without a tag: the tag is the version that a Universe or World asks for."""

    world: str = "demarkus/world"
    broker: str = "demarkus/broker"


@dataclass(frozen=True, slots=True, kw_only=True)
class Site:
    """The operator's surroundings.

    Attributes:
        operator_namespace: where the operator runs; certificate authorities are kept there.
        version: the operator's own version, used where neither World nor Universe names one.
        images: where the images of worlds and gateways come from.
        extra_tls_names: further names for every world's certificate (`localhost`, 127.0.0.1 and ::1 on a laptop).
        cluster_domain: the domain behind `svc` in names of Services.
    """

    operator_namespace: str
    version: str
    images: Images = Images()
    extra_tls_names: tuple[str, ...] = ()
    cluster_domain: str = "cluster.local"
