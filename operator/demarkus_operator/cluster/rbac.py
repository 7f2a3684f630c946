"""The rights the operator needs, next to the code that needs them; what it is not granted here it does not do.

An apply needs `create` too, for objects that are absent. Secrets are read by name, never listed or watched.
"""

from __future__ import annotations

from typing import Any

from demarkus_operator.cluster.kinds import (
    CERTIFICATE,
    CONFIG_MAP,
    DEPLOYMENT,
    EVENT,
    HTTP_ROUTE,
    INGRESS,
    LEASE,
    NAMESPACE,
    NETWORK_POLICY,
    PERSISTENT_VOLUME_CLAIM,
    POD,
    POD_DISRUPTION_BUDGET,
    SECRET,
    SERVICE,
    SERVICE_ACCOUNT,
    STATEFUL_SET,
    UNIVERSE,
    WORLD,
    Kind,
)
from demarkus_operator.plan.objects import Manifest

NAME = "demarkus-operator"
"""Of the ServiceAccount, the roles and their bindings."""

_API = "rbac.authorization.k8s.io/v1"
_CHILD = ("create", "get", "list", "patch", "watch")
_OPTIONAL = ("create", "delete", "get", "list", "patch", "watch")

RIGHTS: tuple[tuple[Kind, tuple[str, ...]], ...] = (
    (CERTIFICATE, ("create", "delete", "get", "patch")),
    (CONFIG_MAP, _CHILD),
    (DEPLOYMENT, _CHILD),
    (EVENT, ("create",)),
    (HTTP_ROUTE, ("create", "delete", "get", "list", "patch")),
    (INGRESS, _OPTIONAL),
    (NETWORK_POLICY, _OPTIONAL),
    (PERSISTENT_VOLUME_CLAIM, _CHILD),
    (POD, ("list", "patch", "watch")),
    (POD_DISRUPTION_BUDGET, _OPTIONAL),
    (SECRET, ("create", "delete", "get", "patch")),
    (SERVICE, _CHILD),
    (SERVICE_ACCOUNT, _CHILD),
    (STATEFUL_SET, _CHILD),
    (UNIVERSE, ("get", "list", "watch")),
    (WORLD, ("get", "list", "patch", "watch")),
)
"""In every namespace that is looked after."""

CLUSTER: tuple[tuple[Kind, tuple[str, ...]], ...] = ((NAMESPACE, ("get",)),)
"""Where all namespaces are looked after; a Role can't give it."""

STATUS = (UNIVERSE, WORLD)
"""Kinds whose status is written (`patch`)."""

OWNERS = (UNIVERSE, WORLD)
"""Kinds that own children: clusters that guard `blockOwnerDeletion` want `update` on their finalizers for that."""

OWN_NAMESPACE: tuple[tuple[Kind, tuple[str, ...]], ...] = (
    (CONFIG_MAP, ("create", "get", "patch")),
    (LEASE, ("create", "get", "patch")),
    (SECRET, ("create", "get", "patch")),
)
"""In the operator's namespace: what was witnessed, who acts, authorities and the operator's key."""


def rules() -> dict[str, list[dict[str, Any]]]:
    """The rules of the roles: `watched` for every namespace that is looked after, `cluster` besides these if that is
    all of them, `own` for the operator's namespace.
    """
    return {
        "watched": [
            *(_rule(kind, verbs) for kind, verbs in RIGHTS),
            *(_rule(kind, ("patch",), "status") for kind in STATUS),
            *(_rule(kind, ("update",), "finalizers") for kind in OWNERS),
        ],
        "cluster": [_rule(kind, verbs) for kind, verbs in CLUSTER],
        "own": [_rule(kind, verbs) for kind, verbs in OWN_NAMESPACE],
    }


def manifests(namespace: str) -> list[Manifest]:
    """ServiceAccount, roles and bindings for an operator that runs in `namespace` and looks after all namespaces."""
    made = rules()
    labels = {"app.kubernetes.io/name": NAME}
    account = {"kind": "ServiceAccount", "name": NAME, "namespace": namespace}
    everywhere, own = {"name": NAME, "labels": labels}, {"name": NAME, "namespace": namespace, "labels": labels}
    return [
        {"apiVersion": "v1", "kind": "ServiceAccount", "metadata": own},
        {
            "apiVersion": _API,
            "kind": "ClusterRole",
            "metadata": everywhere,
            "rules": made["watched"] + made["cluster"],
        },
        _binding("ClusterRole", everywhere, account),
        {"apiVersion": _API, "kind": "Role", "metadata": own, "rules": made["own"]},
        _binding("Role", own, account),
    ]


def _rule(kind: Kind, verbs: tuple[str, ...], subresource: str = "") -> dict[str, Any]:
    resource = f"{kind.plural}/{subresource}" if subresource else kind.plural
    return {"apiGroups": [kind.group], "resources": [resource], "verbs": list(verbs)}


def _binding(role: str, metadata: dict[str, Any], account: dict[str, Any]) -> Manifest:
    return {
        "apiVersion": _API,
        "kind": f"{role}Binding",
        "metadata": metadata,
        "roleRef": {"apiGroup": "rbac.authorization.k8s.io", "kind": role, "name": NAME},
        "subjects": [account],
    }
