"""The process: the election, its end, and the rights it has and uses."""

from __future__ import annotations

import json
import re

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
