"""NetworkPolicy of the gateway: in come HTTP from anywhere in the cluster and health questions from the operator; out
go Mark to the Universe's Worlds, DNS, HTTPS, and calls of the API server. What the spec adds is added.
"""

from __future__ import annotations

from typing import Any

from demarkus_operator.api.network import NetworkPolicy, added
from demarkus_operator.api.universe import UniverseSpec
from demarkus_operator.plan import labels
from demarkus_operator.plan.children import peers
from demarkus_operator.plan.children.pods import HTTP_PORT, MARK_PORT
from demarkus_operator.plan.names import UniverseNames
from demarkus_operator.plan.owner import Owner
from demarkus_operator.plan.site import Site


def network_policy(owner: Owner, names: UniverseNames, spec: UniverseSpec, site: Site) -> dict[str, Any]:
    """The policy."""
    more = spec.network_policy or NetworkPolicy()
    worlds = {
        "namespaceSelector": {},
        "podSelector": {"matchLabels": {labels.NAME: labels.WORLD_APP, labels.UNIVERSE: owner.name}},
    }
    in_a_bucket = spec.broker is not None and spec.broker.state is not None and spec.broker.state.gcs is not None
    content = {
        "podSelector": {"matchLabels": labels.broker_selector(owner.name)},
        "policyTypes": ["Ingress", "Egress"],
        "ingress": [
            {"from": [{"namespaceSelector": {}}], "ports": [peers.port("TCP", HTTP_PORT)]},
            peers.from_operator(site),
            *added(more.ingress),
        ],
        "egress": [
            {"to": [worlds], "ports": [peers.port("UDP", MARK_PORT)]},
            peers.names(),
            # The provider that signs people in, documents of clients, the API server.
            {"ports": [peers.port("TCP", number) for number in sorted({peers.HTTPS, site.api_server_port})]},
            *([peers.metadata_server()] if in_a_bucket else ()),
            *added(more.egress),
        ],
    }
    return owner.owned(names.network_policy, {"spec": content})
