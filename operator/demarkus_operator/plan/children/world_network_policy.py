"""NetworkPolicy of a World: in come Mark from its gateway and health questions from the operator; out goes DNS.

A World without a Universe has no gateway: all pods of its namespace may speak Mark with it.
"""

from __future__ import annotations

from typing import Any

from demarkus_operator.plan import labels
from demarkus_operator.plan.children import peers
from demarkus_operator.plan.children.pods import MARK_PORT
from demarkus_operator.plan.names import WorldNames
from demarkus_operator.plan.owner import Owner
from demarkus_operator.plan.site import Site


def network_policy(owner: Owner, names: WorldNames, site: Site, universe: tuple[str, str] | None) -> dict[str, Any]:
    """The policy. `universe` is namespace and name of the Universe."""
    if universe is None:
        clients = peers.pods_in(owner.namespace, {})
    else:
        clients = peers.pods_in(universe[0], labels.broker_selector(universe[1]))
    spec = {
        "podSelector": {"matchLabels": labels.world_selector(owner.name)},
        "policyTypes": ["Ingress", "Egress"],
        "ingress": [
            {"from": [clients], "ports": [peers.port("UDP", MARK_PORT)]},
            peers.health_from_operator(site),
        ],
        "egress": [peers.names()],
    }
    return owner.owned(names.network_policy, {"spec": spec})
