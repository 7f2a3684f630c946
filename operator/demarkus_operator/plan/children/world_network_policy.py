"""NetworkPolicy of a World: in come Mark from its gateway and calls of the operator; out go DNS and, to a bucket,
HTTPS.

A World without a Universe has no gateway: all pods of its namespace may speak Mark with it. One that is exposed outside
the cluster takes Mark from everywhere. What the spec adds is added.
"""

from __future__ import annotations

from typing import Any

from demarkus_operator.api.network import NetworkPolicy, added
from demarkus_operator.api.world import WorldSpec
from demarkus_operator.plan import labels
from demarkus_operator.plan.children import peers
from demarkus_operator.plan.children.pods import MANAGEMENT_PORT, MARK_PORT
from demarkus_operator.plan.names import WorldNames
from demarkus_operator.plan.owner import Owner
from demarkus_operator.plan.site import Site


def network_policy(
    owner: Owner, names: WorldNames, spec: WorldSpec, site: Site, universe: tuple[str, str] | None
) -> dict[str, Any]:
    """The policy. `universe` is namespace and name of the Universe."""
    more = spec.network_policy or NetworkPolicy()
    mark: dict[str, Any] = {"ports": [peers.port("UDP", MARK_PORT)]}
    if spec.expose is not None and spec.expose.type in ("NodePort", "LoadBalancer"):
        pass  # from everywhere
    elif universe is None:
        mark["from"] = [peers.pods_in(owner.namespace, {})]
    else:
        mark["from"] = [peers.pods_in(universe[0], labels.broker_selector(universe[1]))]
    content = {
        "podSelector": {"matchLabels": labels.world_selector(owner.name)},
        "policyTypes": ["Ingress", "Egress"],
        "ingress": [mark, peers.from_operator(site, MANAGEMENT_PORT), *added(more.ingress)],
        "egress": [
            peers.names(),
            *(peers.google() if spec.store.bucket is not None else ()),
            *added(more.egress),
        ],
    }
    return owner.owned(names.network_policy, {"spec": content})
