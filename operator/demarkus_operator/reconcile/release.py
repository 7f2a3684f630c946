"""Lets go of a World's bucket before the World goes: emptied if that was asked for and it is ours, else left alone."""

from __future__ import annotations

from demarkus_operator.api.check import problems
from demarkus_operator.api.world import WorldSpec
from demarkus_operator.cluster.kinds import POD
from demarkus_operator.cluster.port import NotFound, TryLater
from demarkus_operator.plan.bucket import may_empty
from demarkus_operator.plan.bucket_facts import BucketQuestion
from demarkus_operator.plan.labels import world_selector
from demarkus_operator.plan.names import WorldNames
from demarkus_operator.plan.objects import Manifest
from demarkus_operator.reconcile.loop import Edge

AGAIN = 2.0
"""Seconds until the next look, while pods end or objects are left."""


async def release(edge: Edge, world: Manifest) -> float | None:
    """One step: the pods end first, then the bucket is emptied. See `Concern.release`. Raises `PortError`."""
    history = (world.get("status") or {}).get("history")
    if problems(world) or not history:
        return None  # nothing was ever made for it
    spec = WorldSpec.model_validate(world["spec"])
    if spec.store.bucket is None or spec.deletion_policy != "Delete":
        return None
    metadata = world["metadata"]
    names = WorldNames(metadata["namespace"], metadata["name"])
    try:
        pods = await edge.port.get(names.stateful_set)
    except NotFound:
        pods = None
    if pods is not None:
        await edge.port.delete(names.stateful_set, uid=pods["metadata"]["uid"])
        return AGAIN
    selector = world_selector(names.name)
    if await edge.port.list(POD.api_version, POD.kind, namespace=names.namespace, labels=selector):
        return AGAIN
    question = BucketQuestion.of(spec.store.bucket)
    facts = await edge.buckets.look(question, anew=True)
    if facts is None:
        return None
    if facts.problem:
        raise TryLater(f"{question.url}: {facts.problem}; to keep the bucket, set spec.deletionPolicy: Retain")
    if not may_empty(facts, history):
        return None
    return None if await edge.buckets.empty(question, remove=not question.prefix) else AGAIN
