"""NetworkPolicy of the gateway: in come HTTP from anywhere in the cluster and health questions from the operator;
out go Mark to the Universe's Worlds and DNS.
"""

from __future__ import annotations

from typing import Any

from demarkus_operator.plan import labels
from demarkus_operator.plan.children import peers
from demarkus_operator.plan.children.pods import HTTP_PORT, MARK_PORT
from demarkus_operator.plan.names import UniverseNames
from demarkus_operator.plan.owner import Owner
from demarkus_operator.plan.site import Site


def network_policy(owner: Owner, names: UniverseNames, site: Site) -> dict[str, Any]:
    """The policy."""
    worlds = {
        "namespaceSelector": {},
        "podSelector": {"matchLabels": {labels.NAME: labels.WORLD_APP, labels.UNIVERSE: owner.name}},
    }
    spec = {
        "podSelector": {"matchLabels": labels.broker_selector(owner.name)},
        "policyTypes": ["Ingress", "Egress"],
        "ingress": [
            {"from": [{"namespaceSelector": {}}], "ports": [peers.port("TCP", HTTP_PORT)]},
            peers.health_from_operator(site),
        ],
        "egress": [{"to": [worlds], "ports": [peers.port("UDP", MARK_PORT)]}, peers.names()],
    }
    return owner.owned(names.network_policy, {"spec": spec})
