"""What stays when a World is deleted, and what goes with it, by Kubernetes' own garbage collection."""

from __future__ import annotations

from typing import Any

from demarkus_operator.plan.names import WorldNames
from tests.cluster.home import Home, eventually


def a_world(**spec: Any) -> dict[str, Any]:
    token = {"name": "robot", "operations": ["read"], "paths": ["/**"]}
    content = {"store": {"volume": {"size": "1Gi"}}, "tokens": [token], **spec}
    return {"apiVersion": "demarkus.io/v1alpha1", "kind": "World", "metadata": {"name": "tea"}, "spec": content}


async def left(home: Home) -> set[str]:
    """The objects of World tea in its namespace, by kind and name."""
    found = await home.objects()
    return {f"{ref.kind}/{ref.name}" for ref in found if ref.namespace == home.namespace and ref.name.startswith("tea")}


async def test_everything_goes_with_a_world_that_says_delete_also_if_it_said_so_late(home: Home) -> None:
    await home.operator()
    home.apply(a_world())
    await home.settled(subjects=[home.world("tea")])
    identity = (await home.api.get(WorldNames(home.namespace, "tea").identity))["data"]
    home.apply(a_world(deletionPolicy="Delete"))

    async def owned() -> bool:
        secret = await home.api.get(WorldNames(home.namespace, "tea").identity)
        claim = await home.api.get(WorldNames(home.namespace, "tea").claim)
        return all("ownerReferences" in one["metadata"] for one in (secret, claim))

    await eventually("the identity and the claim belong to the World", owned)
    await home.settled(subjects=[home.world("tea")])
    assert (await home.api.get(WorldNames(home.namespace, "tea").identity))["data"] == identity
    home.kubectl("delete", "world/tea", "--wait=false")

    async def gone() -> bool:
        return await left(home) == set()

    await eventually("nothing of the World is left", gone)


async def test_what_a_world_can_not_be_made_again_without_stays(home: Home) -> None:
    await home.operator()
    home.apply(a_world(deletionPolicy="Delete"))
    await home.settled(subjects=[home.world("tea")])
    home.apply(a_world())
    kept = {"Secret/tea-identity", "Secret/tea-tls", "Secret/tea-tokens", "Secret/tea-token-robot"}
    kept.add("PersistentVolumeClaim/tea-data")

    async def free() -> bool:
        found = await home.objects()
        ours = [one for ref, one in found.items() if f"{ref.kind}/{ref.name}" in kept]
        return len(ours) == len(kept) and not any(one["metadata"].get("ownerReferences") for one in ours)

    await eventually("Secrets and claim belong to nobody again", free)
    home.kubectl("delete", "world/tea", "--wait=false")

    async def the_rest_is_gone() -> bool:
        return await left(home) == kept

    await eventually("only Secrets and claim are left", the_rest_is_gone)
