"""One look at everything: complete, handed out once, and never in the place of something newer."""

from __future__ import annotations

from demarkus_operator.cluster.kinds import Kind
from demarkus_operator.plan.names import WorldNames
from demarkus_operator.plan.objects import Manifest, Ref
from demarkus_operator.reconcile.survey import Survey, survey
from demarkus_operator.reconcile.universe import universe_ref
from demarkus_operator.reconcile.world import world_ref
from tests.reconcile.acme import Acme, a_settled, a_world
from tests.reconcile.memory import MemoryPort

HANDBOOK = world_ref("acme", "handbook")


async def a_survey(acme: Acme, *namespaces: str) -> Survey:
    found = Survey()
    await survey(acme.port, namespaces, into=found)
    return found


def versions(objects: dict[Ref, Manifest]) -> dict[Ref, str]:
    return {ref: one["metadata"]["resourceVersion"] for ref, one in objects.items()}


async def test_every_child_is_found_with_its_owner(acme: Acme) -> None:
    await a_settled(acme)
    found = await a_survey(acme)
    assert {Ref.of(subject) for subject in found.subjects} == {
        universe_ref("acme", "acme"),
        HANDBOOK,
        world_ref("acme", "packages"),
    }
    seen = found.take(HANDBOOK)
    assert seen is not None
    assert seen.subject["metadata"]["resourceVersion"] == acme.port.objects[HANDBOOK]["metadata"]["resourceVersion"]
    there = {ref: one for ref, one in acme.port.objects.items() if ref.name.startswith("handbook")}
    assert versions(dict(seen.children)) == versions(
        {ref: one for ref, one in there.items() if ref.kind not in ("Secret", "World")}
    )


async def test_it_is_handed_out_once(acme: Acme) -> None:
    await a_settled(acme)
    found = await a_survey(acme)
    assert found.take(HANDBOOK) is not None
    assert found.take(HANDBOOK) is None


async def test_what_was_heard_of_since_is_not_handed_out(acme: Acme) -> None:
    await a_settled(acme)
    found = await a_survey(acme)
    found.forget(HANDBOOK)
    assert found.take(HANDBOOK) is None
    assert found.take(world_ref("acme", "packages")) is not None


async def test_what_is_heard_of_while_it_goes_on_is_not_handed_out(acme: Acme) -> None:
    """The event may be of a change after its kind was listed."""
    await a_settled(acme)
    found = Survey()
    acme.port.before = lambda verb, ref: found.forget(HANDBOOK)
    await survey(acme.port, (), into=found)
    assert found.take(HANDBOOK) is None


async def test_nothing_is_handed_out_before_it_is_complete(acme: Acme) -> None:
    await a_settled(acme)
    found = Survey()
    found.add_subjects([acme.port.objects[HANDBOOK]])
    assert found.take(HANDBOOK) is None


async def test_only_named_namespaces_are_looked_at(acme: Acme) -> None:
    acme.port.namespace("other")
    acme.port.put(a_world("theirs", namespace="other", universe=None))
    await a_settled(acme)
    found = await a_survey(acme, "acme")
    assert world_ref("other", "theirs") not in {Ref.of(subject) for subject in found.subjects}


async def test_a_kind_that_the_cluster_lacks_is_left_out() -> None:
    port = MemoryPort()
    lacking = Kind("gateway.networking.k8s.io/v1", "HTTPRoute", "httproutes", optional=True)
    found = Survey()
    await survey(port, (), into=found, kinds=[lacking])
    assert found.complete
    assert not found.versions


async def test_a_world_that_lost_its_labels_is_found_by_its_name(acme: Acme) -> None:
    """A list doesn't have the child; its name does."""
    await a_settled(acme)
    config = WorldNames("acme", "handbook").config
    for label in ("app.kubernetes.io/name", "app.kubernetes.io/instance", "app.kubernetes.io/managed-by"):
        acme.port.edit(config, "metadata", "labels", label, value="other")
    before = acme.port.objects[config]["metadata"]["uid"]
    await acme.converge()
    assert acme.port.objects[config]["metadata"]["uid"] == before
    assert acme.port.objects[config]["metadata"]["labels"]["app.kubernetes.io/instance"] == "handbook"


async def test_a_volume_that_lost_its_labels_is_still_ours(acme: Acme) -> None:
    """It has no owner to tell by; that we applied it tells."""
    await a_settled(acme)
    claim = WorldNames("acme", "handbook").claim
    acme.port.edit(claim, "metadata", "labels", "app.kubernetes.io/instance", value="other")
    await acme.converge()
    assert acme.port.objects[claim]["metadata"]["labels"]["app.kubernetes.io/instance"] == "handbook"
