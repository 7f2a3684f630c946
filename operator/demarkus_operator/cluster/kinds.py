"""The kinds the operator touches, and where the API server keeps them.

A table rather than discovery: the list is short, it is what the roles in `rbac.py` are made from, and a kind that is
not here is a bug that shows at once.
"""

from __future__ import annotations

from dataclasses import dataclass

from demarkus_operator.api import common, universe, world


@dataclass(frozen=True, slots=True)
class Kind:
    """A kind of object: its name, and its name in paths. `namespaced` is False for what lives in no namespace,
    `optional` True for a kind that a cluster may lack.
    """

    api_version: str
    kind: str
    plural: str
    namespaced: bool = True
    optional: bool = False

    @property
    def group(self) -> str:
        """The API group; empty for the core group."""
        return self.api_version.rpartition("/")[0]

    def path(self, namespace: str | None = None, name: str | None = None, subresource: str | None = None) -> str:
        """The path below the server's address: of an object, or without `name` of a list."""
        steps = ["apis" if self.group else "api", self.api_version]
        steps += ["namespaces", namespace] if namespace else []
        return "/" + "/".join([*steps, self.plural, *(step for step in (name, subresource) if step)])


WORLD = Kind(common.API_VERSION, world.KIND, world.PLURAL)
UNIVERSE = Kind(common.API_VERSION, universe.KIND, universe.PLURAL)
CERTIFICATE = Kind("cert-manager.io/v1", "Certificate", "certificates", optional=True)
CONFIG_MAP = Kind("v1", "ConfigMap", "configmaps")
DEPLOYMENT = Kind("apps/v1", "Deployment", "deployments")
EVENT = Kind("events.k8s.io/v1", "Event", "events")
HTTP_ROUTE = Kind("gateway.networking.k8s.io/v1", "HTTPRoute", "httproutes", optional=True)
INGRESS = Kind("networking.k8s.io/v1", "Ingress", "ingresses")
LEASE = Kind("coordination.k8s.io/v1", "Lease", "leases")
NAMESPACE = Kind("v1", "Namespace", "namespaces", namespaced=False)
NETWORK_POLICY = Kind("networking.k8s.io/v1", "NetworkPolicy", "networkpolicies")
PERSISTENT_VOLUME_CLAIM = Kind("v1", "PersistentVolumeClaim", "persistentvolumeclaims")
POD = Kind("v1", "Pod", "pods")
POD_DISRUPTION_BUDGET = Kind("policy/v1", "PodDisruptionBudget", "poddisruptionbudgets")
SECRET = Kind("v1", "Secret", "secrets")
SERVICE = Kind("v1", "Service", "services")
SERVICE_ACCOUNT = Kind("v1", "ServiceAccount", "serviceaccounts")
STATEFUL_SET = Kind("apps/v1", "StatefulSet", "statefulsets")

WATCHED_CHILDREN = (
    CONFIG_MAP,
    DEPLOYMENT,
    INGRESS,
    NETWORK_POLICY,
    PERSISTENT_VOLUME_CLAIM,
    POD,
    POD_DISRUPTION_BUDGET,
    SERVICE,
    SERVICE_ACCOUNT,
    STATEFUL_SET,
)
"""Children whose changes we hear of. Secrets are not among them: they are only ever read by name. Nor are HTTPRoutes
and Certificates: many clusters do not know these kinds, and a watch of one could not go on.
"""

_ALL = (WORLD, UNIVERSE, CERTIFICATE, EVENT, HTTP_ROUTE, LEASE, NAMESPACE, SECRET, *WATCHED_CHILDREN)
_TABLE = {(kind.api_version, kind.kind): kind for kind in _ALL}


def kind_of(api_version: str, kind: str) -> Kind:
    """The row of the table; raises `KeyError` for a kind that the operator does not touch."""
    return _TABLE[api_version, kind]
