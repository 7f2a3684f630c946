"""What can't be is told to its author, by the API server or in the status; nobody else notices."""

from __future__ import annotations

from typing import Any

from tests.cluster.home import Home


def a_world(name: str, **spec: Any) -> dict[str, Any]:
    content = {"store": {"volume": {"size": "1Gi"}}, **spec}
    return {"apiVersion": "demarkus.io/v1alpha1", "kind": "World", "metadata": {"name": name}, "spec": content}


async def test_a_world_that_can_not_be_realised_says_why_and_disturbs_no_other(home: Home) -> None:
    """An open bracket in a pattern: no rule in the CRD can see it."""
    operator = await home.operator()
    home.apply(a_world("good"))
    await home.settled(subjects=[home.world("good")])
    versions = {ref: v for ref, v in (await home.versions()).items() if ref.name.startswith("good")}
    home.apply(a_world("bad", tokens=[{"name": "robot", "operations": ["read"], "paths": ["/[a"]}]))
    condition = await home.reaches(home.world("bad"), "InvalidSpec")
    assert condition["status"] == "False"
    assert "spec.tokens[0].paths[0]" in condition["message"]
    assert {ref for ref in await home.objects() if ref.name.startswith("bad-")} == set()
    home.kubectl("annotate", "world/good", "example.com/look=again")
    await operator.looked_at(home.world("good"), times=2)
    after = await home.versions()
    assert {ref for ref in versions if versions[ref] != after[ref]} == {home.world("good")}  # by the annotation
    home.apply(a_world("bad", tokens=[{"name": "robot", "operations": ["read"], "paths": ["/a/**"]}]))
    await home.reaches(home.world("bad"), "Starting")


async def test_a_refusal_of_the_cluster_is_told(home: Home) -> None:
    """A quota for volumes that is used up."""
    home.kubectl("create", "quota", "volumes", "--hard=persistentvolumeclaims=1")
    home.kubectl("wait", "quota/volumes", "--for=jsonpath={.status.hard.persistentvolumeclaims}=1", "--timeout=30s")
    await home.operator()
    home.apply(a_world("first"))
    await home.reaches(home.world("first"), "Starting")
    home.apply(a_world("second"))
    condition = await home.reaches(home.world("second"), "Refused", type_="Reconciled")
    assert condition["status"] == "False"
    assert "second-data" in condition["message"]
    assert "exceeded quota" in condition["message"]
    assert (await home.condition(home.world("first"), "Reconciled"))["status"] == "True"
    assert (await home.condition(home.world("second")))["status"] == "False"
