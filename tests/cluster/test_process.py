"""The process: the election, its end, and the rights it has and uses."""

from __future__ import annotations

import json
import re
from collections.abc import Iterable
from typing import Any

import pytest

from demarkus_operator.cluster import rbac
from demarkus_operator.plan.names import WorldNames
from dev.cluster.plane import ControlPlane
from tests.cluster.home import EXAMPLE, OPERATOR_NAMESPACE, Home, OperatorProcess, eventually


async def test_one_of_two_acts_and_the_other_takes_over(home: Home) -> None:
    first = await home.operator()
    second = home.start_operator()

    async def waits() -> bool:
        return bool(second.lines("waiting for the lease"))

    await eventually("a second operator that waits", waits)
    home.apply_files(sorted(EXAMPLE.iterdir()))
    await home.settled()
    assert not second.lines("leading")
    assert not second.lines("reconcile")
    await first.stop()
    await second.leads()
    await second.looked_at(home.universe())


async def test_a_signal_ends_it_in_order(home: Home) -> None:
    operator = await home.operator()
    home.apply_files(sorted(EXAMPLE.iterdir()))
    await operator.stop()
    assert operator.status == 0
    assert not [line for line in operator.lines("reconcile") if line["result"] == "bug"]
    lease = home.plane.kubectl("get", "lease", home.namespace, "--namespace", OPERATOR_NAMESPACE, "--output=json")
    assert not json.loads(lease.stdout)["spec"].get("holderIdentity")


async def test_probes_and_metrics_answer(home: Home) -> None:
    operator = await home.operator()
    home.apply_files(sorted(EXAMPLE.iterdir()))
    await home.settled()
    assert operator.ask("/livez") == "ok\n"
    assert json.loads(operator.ask("/readyz?verbose")) == {"ready": True, "reasons": [], "leads": True}
    metrics = operator.ask("/metrics")
    assert "demarkus_operator_leader 1.0" in metrics
    assert re.search(r'demarkus_operator_reconcile_total{kind="World",result="changed"} [1-9]', metrics)
    assert "demarkus_operator_queue_depth " in metrics


async def test_an_operator_whose_lease_was_taken_ends(home: Home) -> None:
    operator = await home.operator()
    taken = json.dumps({"spec": {"holderIdentity": "somebody"}})
    home.plane.kubectl(
        "patch", "lease", home.namespace, "--namespace", OPERATOR_NAMESPACE, "--type=merge", "--patch", taken
    )
    assert await operator.ended() == 1
    assert "held by somebody" in operator.lines("ending")[0]["error"]


async def test_an_operator_without_rights_says_which_it_lacks(home: Home, plane: ControlPlane) -> None:
    token = plane.kubectl("create", "token", "default", "--namespace", home.namespace).stdout.strip()
    kubeconfig = plane.folder / f"{home.namespace}.kubeconfig"
    plane.write_kubeconfig(kubeconfig, {"token": token})
    operator = OperatorProcess(
        kubeconfig, plane.folder / f"{home.namespace}-denied.log", watch=[home.namespace], lease=home.namespace
    )
    assert await operator.ended() == 1
    (line,) = operator.lines("ending")
    assert "can't list Worlds and Universes" in line["error"]
    assert 'cannot list resource "universes"' in line["error"]


@pytest.fixture
def granted() -> set[tuple[str, str, str]]:
    """What the roles allow, as (namespace or empty, resource, verb)."""
    found = set()
    for manifest in rbac.manifests(OPERATOR_NAMESPACE):
        for rule in manifest.get("rules", ()):
            scope = manifest["metadata"].get("namespace", "")
            found |= {(scope, resource, verb) for resource in rule["resources"] for verb in rule["verbs"]}
    return found


def used(calls: Iterable[dict[str, Any]]) -> set[tuple[str, str, str]]:
    """What calls needed, in the same form."""
    found = set()
    for call in calls:
        target = call["objectRef"]
        resource = "/".join(filter(None, (target["resource"], target.get("subresource"))))
        scope = OPERATOR_NAMESPACE if resource == "leases" else ""
        found.add((scope, resource, call["verb"]))
        if call["verb"] == "patch" and call["responseStatus"]["code"] == 201:
            found.add((scope, resource, "create"))  # an apply of something that was absent
    return found


async def test_rights_are_what_is_needed_and_no_more(home: Home, granted: set[tuple[str, str, str]]) -> None:
    """A life of a universe with everything in it; then the roles against the API server's log of calls."""
    operator = await home.operator()
    home.apply_files(sorted(EXAMPLE.iterdir()))
    await home.settled()
    names = WorldNames(home.namespace, "packages")
    one_replica = json.dumps({"spec": {"broker": {"replicas": 1}}})
    home.kubectl("patch", "universe/acme", "--type=merge", "--patch", one_replica)
    no_tokens = json.dumps({"spec": {"tokens": None}})
    home.kubectl("patch", "world/packages", "--type=merge", "--patch", no_tokens)

    async def gone() -> bool:
        return await home.find(names.token("importer")) is None and not home.kubectl("get", "pdb", "--output=name")

    await eventually("the token and the budget are gone", gone)
    for kind in ("configmap", "deployment", "networkpolicy", "pvc", "service", "serviceaccount", "statefulset"):
        home.kubectl("label", kind, "--all", "demarkus.io/universe=other", "--overwrite")
    await home.settled()
    await operator.stop()
    calls = home.plane.audit()
    account = f"system:serviceaccount:{OPERATOR_NAMESPACE}:{rbac.NAME}"
    ours = [call for call in calls if call["user"]["username"] == account and "objectRef" in call]
    assert [call["requestURI"] for call in ours if call["responseStatus"]["code"] == 403 and not quota(call)] == []
    needed = used(ours)
    unused = {right for right in granted if right[1] not in ("worlds/finalizers", "universes/finalizers")} - needed
    # A Namespace is read only for a World that lives in another than its Universe.
    assert unused - {("", "namespaces", "get")} == set()
    assert not {verb for _, resource, verb in needed if resource == "secrets"} & {"list", "watch"}


def quota(call: dict[str, Any]) -> bool:
    """Whether a refusal was not about rights."""
    return call.get("annotations", {}).get("authorization.k8s.io/decision") == "allow"
