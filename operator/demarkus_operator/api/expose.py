"""How native clients outside the cluster reach a World."""

from __future__ import annotations

from typing import Annotated, ClassVar, Literal

from pydantic import Field

from demarkus_operator.api.common import Model
from demarkus_operator.api.names import Annotations, HostName, keys_rule
from demarkus_operator.api.rules import Rule
from demarkus_operator.api.trust import IssuerRef


class Expose(Model):
    """The Service for native clients."""

    RULES: ClassVar[tuple[Rule, ...]] = (keys_rule("expose-annotations", "annotations"),)

    type: Literal["ClusterIP", "NodePort", "LoadBalancer"] | None = None
    """The Service's type. Default: `ClusterIP`, which is reached in the cluster only."""
    hostnames: (
        Annotated[list[HostName], Field(max_length=20, json_schema_extra={"x-kubernetes-list-type": "set"})] | None
    ) = None
    """Further names by which clients reach it; they stand in its certificate."""
    issuer_ref: IssuerRef | None = None
    """Without a Universe: the issuer of cert-manager that signs the World's certificate, for all its names.

    In a Universe its `trust.issuerRef` counts for these names as well: a World shows one certificate."""
    annotations: Annotations | None = None
    """Annotations of the Service, such as those that load balancers want."""
