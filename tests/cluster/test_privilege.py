"""The rights that are shipped are those that are needed, over all namespaces and in some only."""

from __future__ import annotations

import json
from collections.abc import Iterable
from pathlib import Path
from typing import Any
from urllib.parse import quote

from demarkus_operator.cluster import rbac
from demarkus_operator.plan.labels import INSTANCE, MANAGED_BY
from demarkus_operator.plan.names import WorldNames
from tests.cluster.conftest import kubeconfig_of
from tests.cluster.home import EXAMPLE, OPERATOR_NAMESPACE, Home, eventually

Right = tuple[str, str, str]
"""A namespace (empty for all that are looked after), a resource, a verb."""


def granted(rules: dict[str, list[dict[str, Any]]], *, cluster_wide: bool) -> set[Right]:
    """What the roles allow."""
    parts = [("", rules["watched"]), (OPERATOR_NAMESPACE, rules["own"])] + [("", rules["cluster"])] * cluster_wide
    return {
        (scope, resource, verb)
        for scope, group in parts
        for rule in group
        for resource in rule["resources"]
        for verb in rule["verbs"]
    }


def used(calls: Iterable[dict[str, Any]]) -> set[Right]:
    """What calls needed."""
    found = set()
    for call in calls:
        target = call["objectRef"]
        resource = "/".join(filter(None, (target["resource"], target.get("subresource"))))
        scope = OPERATOR_NAMESPACE if target.get("namespace") == OPERATOR_NAMESPACE else ""
        found.add((scope, resource, call["verb"]))
        if call["verb"] == "patch" and call["responseStatus"]["code"] == 201:
            found.add((scope, resource, "create"))  # an apply of something that was absent
    return found


def calls_of(home: Home, account: str) -> list[dict[str, Any]]:
    """All calls of an account about objects."""
    user = f"system:serviceaccount:{OPERATOR_NAMESPACE}:{account}"
    return [call for call in home.plane.audit() if call["user"]["username"] == user and "objectRef" in call]


def denied(calls: Iterable[dict[str, Any]]) -> list[str]:
    """Calls that a right was lacking for; a refusal for another reason was allowed first.

    What is allowed at another time was not lacking: an API server that just started does not know its roles yet.
    """
    calls = list(calls)

    def asked(call: dict[str, Any]) -> tuple[str, ...]:
        target = call["objectRef"]
        return (call["verb"], target["resource"], target.get("subresource", ""), target.get("namespace", ""))

    def allowed(call: dict[str, Any]) -> bool:
        decision = call.get("annotations", {}).get("authorization.k8s.io/decision")
        return decision == "allow" or call["responseStatus"]["code"] != 403

    known = {asked(call) for call in calls if allowed(call)}
    return [f"{call['verb']} {call['requestURI']}" for call in calls if not allowed(call) and asked(call) not in known]


async def a_whole_life(home: Home) -> None:
    """A universe with everything in it: made, changed, drifted, and in part taken away."""
    home.apply_files(sorted(EXAMPLE.iterdir()))
    await home.settled()
    names = WorldNames(home.namespace, "packages")
    for replicas, ingress in ((2, {"className": "nginx"}), (1, None)):
        spec = {"broker": {"replicas": replicas, "ingress": ingress}, "networkPolicy": {"enabled": ingress is not None}}
        home.kubectl("patch", "universe/acme", "--type=merge", "--patch", json.dumps({"spec": spec}))
        await home.settled()
    home.kubectl("patch", "world/packages", "--type=merge", "--patch", json.dumps({"spec": {"tokens": None}}))

    async def gone() -> bool:
        return await home.find(names.token("importer")) is None and not home.kubectl("get", "pdb", "--output=name")

    await eventually("the token and the budget are gone", gone)
    await home.pods_are_ready(names.stateful_set)
    for kind in ("configmap", "deployment", "networkpolicy", "pvc", "service", "serviceaccount", "statefulset"):
        home.kubectl("label", kind, "--all", "demarkus.io/universe=other", "--overwrite")
    await home.settled(subjects=[home.universe(), home.world()])


NOT_HERE = {
    # An owner reference needs it; the API server asks for it itself.
    ("", "worlds/finalizers", "update"),
    ("", "universes/finalizers", "update"),
    # A World's finalizer is written only where it has a bucket.
    ("", "worlds", "patch"),
    # What is done for processes that answer, of which there are none on this control plane: what was witnessed is kept,
    # pods are told that a file changed, an authority's successor is added.
    (OPERATOR_NAMESPACE, "configmaps", "create"),
    (OPERATOR_NAMESPACE, "configmaps", "patch"),
    (OPERATOR_NAMESPACE, "secrets", "patch"),
    ("", "pods", "patch"),
    # This control plane has no Gateway API, and no cert-manager.
    *(("", "httproutes", verb) for verb in ("create", "delete", "get", "list", "patch", "watch")),
    *(("", "certificates", verb) for verb in ("create", "delete", "get", "patch")),
}


async def test_rights_are_what_is_needed_and_no_more(home: Home, other_namespace: str) -> None:
    """The shipped roles against the API server's log of all calls that operators made so far in this run."""
    operator = await home.operator(namespaces=[home.namespace, other_namespace])
    await a_whole_life(home)
    everywhere: dict[str, Any] = {"worlds": {"allowedNamespaces": {"selector": {}}}}
    home.kubectl("patch", "universe/acme", "--type=merge", "--patch", json.dumps({"spec": everywhere}))
    guest = {
        "apiVersion": "demarkus.io/v1alpha1",
        "kind": "World",
        "metadata": {"name": "guest"},
        "spec": {"store": {"volume": {"size": "1Gi"}}, "universeRef": {"name": "acme", "namespace": home.namespace}},
    }
    home.plane.kubectl("--namespace", other_namespace, "apply", "--filename", "-", input=json.dumps(guest))
    await home.reaches(home.world_in(other_namespace, "guest"), "Starting")
    await operator.stop()
    calls = calls_of(home, rbac.NAME)
    assert denied(calls) == []
    needed = used(calls)
    shipped = granted(rbac.rules(), cluster_wide=True)
    assert shipped - needed - NOT_HERE == set(), "granted and not used"
    assert not {verb for _, resource, verb in needed if resource == "secrets"} & {"list", "watch"}


async def test_row_21_nothing_of_others_is_ever_loaded(home: Home) -> None:
    """However many objects a cluster has: every list and watch of a kind that is not ours selects by our label."""
    operator = await home.operator()
    home.apply_files(sorted(EXAMPLE.iterdir()))
    await home.settled()
    await operator.stop()
    ours = ("worlds", "universes")
    asked = [
        call["requestURI"]
        for call in calls_of(home, rbac.NAME)
        if call["verb"] in ("list", "watch") and call["objectRef"]["resource"] not in ours
    ]
    assert len(asked) > 10
    selects = [f"{quote(label, safe='/')}%3D" for label in (MANAGED_BY, INSTANCE)]
    assert [uri for uri in asked if not any(label in uri for label in selects)] == []


async def test_an_install_in_some_namespaces_needs_roles_only(home: Home) -> None:
    """The operator's account has no right on the cluster; the second namespace is one nobody gave it."""
    account = f"narrow-{home.namespace}"
    kubeconfig = roles_only(home, account)
    operator = home.start_operator(kubeconfig=kubeconfig)
    await operator.leads()
    await a_whole_life(home)
    await operator.stop()
    calls = calls_of(home, account)
    assert denied(calls) == []
    assert used(calls) <= granted(rbac.rules(), cluster_wide=False)
    assert not {verb for _, resource, verb in used(calls) if resource == "secrets"} & {"list", "watch"}
    assert {call["objectRef"].get("namespace") for call in calls} == {home.namespace, OPERATOR_NAMESPACE}


def roles_only(home: Home, account: str) -> Path:
    """A kubeconfig of an account with Roles in one namespace and in the operator's."""
    rules = rbac.rules()
    home.plane.kubectl("create", "serviceaccount", account, "--namespace", OPERATOR_NAMESPACE)
    subject = {"kind": "ServiceAccount", "name": account, "namespace": OPERATOR_NAMESPACE}
    api = "rbac.authorization.k8s.io/v1"
    for namespace, allowed in ((home.namespace, rules["watched"]), (OPERATOR_NAMESPACE, rules["own"])):
        metadata = {"name": account, "namespace": namespace}
        role = {"apiVersion": api, "kind": "Role", "metadata": metadata, "rules": allowed}
        reference = {"apiGroup": "rbac.authorization.k8s.io", "kind": "Role", "name": account}
        binding = {"apiVersion": api, "kind": "RoleBinding", "metadata": metadata, "roleRef": reference}
        for manifest in (role, {**binding, "subjects": [subject]}):
            home.plane.kubectl("apply", "--filename", "-", input=json.dumps(manifest))
    return kubeconfig_of(home.plane, account)
