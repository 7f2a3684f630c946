"""Labels and annotations we put on objects, and whether an object is ours.

Tools outside depend on these names: NetworkPolicies of a platform team, dashboards, `kubectl -l`.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from demarkus_operator.plan.objects import Manifest

NAME = "app.kubernetes.io/name"
INSTANCE = "app.kubernetes.io/instance"
COMPONENT = "app.kubernetes.io/component"
APP_VERSION = "app.kubernetes.io/version"
MANAGED_BY = "app.kubernetes.io/managed-by"
WORLD = "demarkus.io/world"
UNIVERSE = "demarkus.io/universe"

MANAGER = "demarkus-operator"
WORLD_APP = "demarkus-world"
BROKER_APP = "demarkus-broker"
OPERATOR_APP = "demarkus-operator"

CONFIG_HASH = "demarkus.io/config-hash"
"""On pods: a hash of the configuration that a running process does not take over, so that a change restarts it."""
VERSION = "demarkus.io/version"
"""On the Universe's record and a World's identity: the version in force while no spec names one."""
DIGESTS = "demarkus.io/digests"
"""Beside the version: the digests of its images, as JSON, if the operator brought them."""
PAUSED = "demarkus.io/paused"
"""On a World or Universe, by its owner: changes of the spec are not carried out while it is there."""
RESTARTED_AT = "kubectl.kubernetes.io/restartedAt"
"""On a World or Universe, by its owner, and from there on the pods: another value restarts them."""
WORKLOAD_IDENTITY = "iam.gke.io/gcp-service-account"
"""On a ServiceAccount: the Google service account that its pods act as."""
RELEASE_NAME = "demarkus.io/release-name"
"""On a Universe, by its owner: the name of a World that is gone and whose name may be given away."""
ROTATION = "demarkus.io/rotation"
"""On Secrets: since when their credentials are used, and which are old. What is in force stands in the data."""
REVOKE_KEY = "demarkus.io/revoke-key"
"""On a Universe or World, by its owner: names (of a key, or hashes of tokens) that must not be accepted any longer."""
SYNCED = "demarkus.io/synced"
"""On pods: a hash of what they should have loaded. A change of it makes the kubelet look at their volumes at once."""
ACCEPT_EMPTY_STORE = "demarkus.io/accept-empty-store"
"""On a World, by its owner: the history whose loss is accepted, so that it may begin anew."""
FINALIZER = "demarkus.io/outside-the-cluster"
"""The finalizer on a World whose deletion is to remove something outside the cluster: its bucket."""
ISSUER = "demarkus.io/issuer"
"""On a World's certificate and a Universe's authority: the issuer of cert-manager that is asked, as JSON."""
TRUSTED_ISSUERS = "demarkus.io/trusted-issuers"
"""On a Universe's authority: which authorities of issuers its gateway trusts, by their fingerprints, with commas."""
HOME = "demarkus.io/namespace"
"""On what is kept in the operator's namespace: the namespace of the World or Universe that it is about."""

NAMESPACE_NAME = "kubernetes.io/metadata.name"
"""The label that the API server puts on every Namespace: its name."""


def world_selector(world: str) -> dict[str, str]:
    """The labels by which a World's pods are selected."""
    return {NAME: WORLD_APP, INSTANCE: world}


def broker_selector(universe: str) -> dict[str, str]:
    """The labels by which the pods of a Universe's gateway are selected."""
    return {NAME: BROKER_APP, INSTANCE: universe}


def world_labels(world: str, universe: str | None) -> dict[str, str]:
    """The labels of everything that belongs to a World."""
    labels = {**world_selector(world), COMPONENT: "world", MANAGED_BY: MANAGER, WORLD: world}
    return labels if universe is None else {**labels, UNIVERSE: universe}


def universe_labels(universe: str) -> dict[str, str]:
    """The labels of everything that belongs to a Universe."""
    return {**broker_selector(universe), COMPONENT: "broker", MANAGED_BY: MANAGER, UNIVERSE: universe}


def is_ours(seen: Manifest, wanted: Mapping[str, str], owner_uid: str) -> bool:
    """Whether an object that bears the name of a child is that child.

    It is if it says so by its labels (a Secret that outlived its World), by its owner (a child whose labels somebody
    edited), or, having none, by our entry in its record of managed fields (a volume or record whose labels somebody
    edited). The last is no proof for a Secret: there the name of one child may be made like that of another.
    """
    metadata: Mapping[str, Any] = seen["metadata"]
    labels = metadata.get("labels") or {}
    if all(labels.get(key) == wanted[key] for key in (NAME, INSTANCE, MANAGED_BY)):
        return True
    owners = metadata.get("ownerReferences") or ()
    if owners or seen["kind"] == "Secret":
        return any(owner.get("uid") == owner_uid for owner in owners)
    entries = metadata.get("managedFields") or ()
    return any((entry.get("manager"), entry.get("operation")) == (MANAGER, "Apply") for entry in entries)
