"""Where the operator runs and what it brings along: the part of a plan's input that no custom resource says."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

API_SERVER_PORT = 6443


@dataclass(frozen=True, slots=True, kw_only=True)
class Images:
    """Image repositories, without a tag: the tag is the version that a Universe or World asks for.

    Attributes:
        world: of worlds.
        broker: of gateways.
        digests: `world` and `broker` to the digest (`sha256:...`) of the image of the operator's own version.
        pull_secrets: names of Secrets with credentials for the registry, in the namespaces of Worlds and Universes.
    """

    world: str = "demarkus/world"
    broker: str = "demarkus/broker"
    digests: Mapping[str, str] = field(default_factory=dict)
    pull_secrets: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class Site:
    """The operator's surroundings.

    Attributes:
        operator_namespace: where the operator runs; certificate authorities are kept there.
        version: the operator's own version, used where neither World nor Universe names one.
        images: where the images of worlds and gateways come from.
        extra_tls_names: further names for every world's certificate (`localhost`, 127.0.0.1 and ::1 on a laptop).
        cluster_domain: the domain behind `svc` in names of Services.
        api_server_port: the port at which the API server's own addresses answer, for network policies.
    """

    operator_namespace: str
    version: str
    images: Images = Images()
    extra_tls_names: tuple[str, ...] = ()
    cluster_domain: str = "cluster.local"
    api_server_port: int = API_SERVER_PORT
