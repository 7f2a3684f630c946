"""What the cluster does not let us have is told, and is in nobody's way."""

from __future__ import annotations

from demarkus_operator.cluster.port import Forbidden
from demarkus_operator.plan.objects import Ref
from demarkus_operator.reconcile.world import world_ref
from tests.reconcile.acme import Acme, a_settled, a_world

HANDBOOK = world_ref("acme", "handbook")
CLAIM = Ref("v1", "PersistentVolumeClaim", "acme", "handbook-data")


def _refuse_to_grow(verb: str, ref: Ref | None) -> None:
    if verb == "apply" and ref == CLAIM:
        raise Forbidden("apply PersistentVolumeClaim acme/handbook-data: 403: the class does not support resize")


async def test_a_refused_attempt_is_told_and_the_rest_is_carried_out() -> None:
    acme = await a_settled(Acme(), [a_world(universe=None)])
    acme.port.put(a_world(universe=None, store={"volume": {"size": "2Gi"}}, limits={"maxStreams": 7}))
    acme.port.before = _refuse_to_grow
    await acme.reconcile(HANDBOOK)
    degraded = acme.condition(HANDBOOK, "Degraded")
    assert (degraded["status"], degraded["reason"]) == ("True", "GrowthRefused")
    assert "allowVolumeExpansion: true" in degraded["message"]
    assert degraded["message"].endswith("the class does not support resize")
    assert acme.condition(HANDBOOK, "Reconciled")["status"] == "True"
    config = Ref("v1", "ConfigMap", "acme", "handbook-world-config")
    assert "maxStreams: 7" in acme.port.objects[config]["data"]["world.yaml"]
    assert (await acme.reconcile(HANDBOOK)).written == []


async def test_an_attempt_that_works_later_takes_the_word_away() -> None:
    acme = await a_settled(Acme(), [a_world(universe=None)])
    acme.port.put(a_world(universe=None, store={"volume": {"size": "2Gi"}}))
    before, acme.port.before = acme.port.before, _refuse_to_grow
    await acme.reconcile(HANDBOOK)
    acme.port.before = before
    await acme.reconcile(HANDBOOK)
    assert acme.condition(HANDBOOK, "Degraded")["status"] == "False"
    assert acme.port.objects[CLAIM]["spec"]["resources"]["requests"]["storage"] == "2Gi"
