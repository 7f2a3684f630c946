"""A World's bucket from its making to its end, against a stand-in of the cloud."""

from __future__ import annotations

import json
from collections.abc import AsyncIterator
from typing import Any

import aiohttp
import pytest

from demarkus_base.blobs.gcs import Anonymous
from demarkus_operator.buckets.google import Google
from demarkus_operator.cluster.port import Conflict, TryLater
from demarkus_operator.plan.bucket_facts import BucketQuestion, Change, Make
from demarkus_operator.plan.objects import Ref
from demarkus_operator.reconcile.concern import concern_of
from demarkus_operator.reconcile.loop import Edge, Outcome, reconcile
from demarkus_operator.reconcile.world import world_ref
from dev.gcs.faults import Fault
from dev.gcs.server import Service, serving
from dev.gcs.state import Preconditions
from tests.reconcile.acme import Acme, a_world

TEA = world_ref("acme", "tea")
ACCOUNT = "tea-world@acme-project.iam.gserviceaccount.com"


class Cloud:
    """A cluster in memory, and a cloud."""

    def __init__(self, service: Service, google: Google) -> None:
        self.service = service
        self.google = google
        self.acme = Acme()

    def declare(self, url: str = "gs://acme-tea", *, deletion: str = "Retain", **bucket: Any) -> None:
        world = a_world("tea", universe=None, store={"bucket": {"url": url, **bucket}}, deletionPolicy=deletion)
        self.acme.port.put(world)

    async def reconcile(self) -> Outcome:
        edge = Edge(
            port=self.acme.port,
            site=self.acme.edge.site,
            now=self.acme.now,
            random=self.acme.edge.random,
            buckets=self.google,
        )
        outcome = Outcome()
        await reconcile(edge, TEA, concern_of(edge, TEA), outcome=outcome)
        return outcome

    def put(self, name: str, data: bytes = b"x", *, bucket: str = "acme-tea") -> None:
        self.service.state.insert(bucket, name, data, claimed_crc32c=None, when=Preconditions())

    def history(self) -> str:
        history: str = self.acme.port.objects[TEA]["status"]["history"]
        return history

    def store(self, prefix: str = "", history: str | None = None) -> None:
        """What a World writes first."""
        marker = {"schema": 1, "history": history or self.history(), "incarnation": "1b" * 16}
        self.put(f"{prefix}world.json", json.dumps(marker).encode())
        for number in range(5):
            self.put(f"{prefix}log/{number:016x}.json")

    def names(self, bucket: str = "acme-tea") -> list[str]:
        return sorted(self.service.state.bucket(bucket).objects)

    def condition(self, type_: str = "Ready") -> dict[str, Any]:
        return self.acme.condition(TEA, type_)

    async def delete(self) -> None:
        """The World is deleted, and the operator does its part until the World is gone."""
        self.acme.port.objects[TEA]["metadata"]["deletionTimestamp"] = "2026-12-01T00:00:00Z"
        for _ in range(10):
            outcome = await self.reconcile()
            if outcome.requeue is None:
                break
        assert not self.acme.port.objects[TEA]["metadata"].get("finalizers")


@pytest.fixture
async def cloud() -> AsyncIterator[Cloud]:
    service = Service()
    async with serving(service) as address, aiohttp.ClientSession() as session:
        google = Google(session, project="acme-project", authorization=Anonymous(), service=address, known_seconds=0.0)
        yield Cloud(service, google)


async def test_a_bucket_is_made_whole_and_then_left_in_peace(cloud: Cloud) -> None:
    cloud.declare(serviceAccount=ACCOUNT)
    outcome = await cloud.reconcile()
    assert [word for word in outcome.written if "bucket" in word] == ["make bucket acme-tea", "admit bucket acme-tea"]
    bucket = cloud.service.state.bucket("acme-tea")
    assert bucket.settings["labels"]["demarkus-history"] == cloud.history()
    assert bucket.settings["iamConfiguration"]["uniformBucketLevelAccess"]["enabled"] is True
    assert [binding["members"] for binding in bucket.policy["bindings"]] == [[f"serviceAccount:{ACCOUNT}"]]
    assert Ref("apps/v1", "StatefulSet", "acme", "tea-world") in cloud.acme.port.objects
    cloud.store()
    assert (await cloud.reconcile()).written == []
    assert cloud.condition("Degraded")["status"] == "False"


async def test_settings_that_somebody_changed_are_put_back(cloud: Cloud) -> None:
    cloud.declare()
    await cloud.reconcile()
    opened = {"iamConfiguration": {"uniformBucketLevelAccess": {"enabled": False}}}
    cloud.service.state.patch_bucket("acme-tea", opened, None)
    assert (await cloud.reconcile()).written == ["change bucket acme-tea"]
    settings = cloud.service.state.bucket("acme-tea").settings
    assert settings["iamConfiguration"]["uniformBucketLevelAccess"]["enabled"] is True


async def test_an_empty_bucket_of_somebody_else_is_adopted_and_its_lacks_are_told(cloud: Cloud) -> None:
    cloud.service.state.create_bucket({"name": "acme-tea", "location": "EU"})
    before = cloud.service.state.bucket("acme-tea").metageneration
    cloud.declare()
    await cloud.reconcile()
    degraded = cloud.condition("Degraded")
    assert degraded["reason"] == "BucketIncomplete"
    assert cloud.service.state.bucket("acme-tea").metageneration == before


async def test_a_foreign_marker_is_refused_and_nothing_is_touched(cloud: Cloud) -> None:
    cloud.service.state.create_bucket({"name": "acme-tea"})
    cloud.store(history="77" * 16)
    before = cloud.names()
    cloud.declare(deletion="Delete")
    await cloud.reconcile()
    assert cloud.condition()["reason"] == "StoreForeign"
    await cloud.delete()
    assert cloud.names() == before


async def test_a_history_in_a_bucket_is_taken_over(cloud: Cloud) -> None:
    cloud.service.state.create_bucket({"name": "acme-tea"})
    cloud.store("tea/", history="77" * 16)
    cloud.declare("gs://acme-tea/tea", historyID="77" * 16)
    await cloud.reconcile()
    assert cloud.history() == "77" * 16
    assert cloud.condition()["reason"] == "Starting"


async def test_a_bucket_of_ours_is_emptied_and_removed_with_its_world_if_that_is_asked_for(cloud: Cloud) -> None:
    cloud.declare(deletion="Delete")
    await cloud.reconcile()
    cloud.store()
    await cloud.delete()
    assert "acme-tea" not in cloud.service.state.buckets
    assert Ref("apps/v1", "StatefulSet", "acme", "tea-world") not in cloud.acme.port.objects


@pytest.mark.parametrize("deletion", ["Retain", "Delete"])
async def test_a_bucket_without_our_label_is_never_emptied(cloud: Cloud, deletion: str) -> None:
    cloud.service.state.create_bucket({"name": "acme-tea"})
    cloud.declare(deletion=deletion)
    await cloud.reconcile()
    cloud.store()
    before = cloud.names()
    await cloud.delete()
    assert cloud.names() == before


async def test_retain_keeps_a_bucket_of_ours(cloud: Cloud) -> None:
    cloud.declare()
    await cloud.reconcile()
    cloud.store()
    before = cloud.names()
    await cloud.delete()
    assert cloud.names() == before


async def test_only_what_is_below_the_prefix_goes_and_the_bucket_stays(cloud: Cloud) -> None:
    cloud.declare("gs://acme-tea/tea", deletion="Delete")
    await cloud.reconcile()
    cloud.store("tea/")
    cloud.put("teapot/world.json")
    await cloud.delete()
    assert cloud.names() == ["teapot/world.json"]


async def test_a_change_of_mind_during_the_deletion_keeps_the_bucket(cloud: Cloud) -> None:
    cloud.declare(deletion="Delete")
    await cloud.reconcile()
    cloud.store()
    before = cloud.names()
    cloud.acme.port.objects[TEA]["spec"]["deletionPolicy"] = "Retain"
    await cloud.delete()
    assert cloud.names() == before


async def test_an_emptying_that_fails_in_the_middle_goes_on(cloud: Cloud) -> None:
    cloud.declare(deletion="Delete")
    await cloud.reconcile()
    cloud.store()
    cloud.acme.port.objects[TEA]["metadata"]["deletionTimestamp"] = "2026-12-01T00:00:00Z"
    await cloud.reconcile()  # ends the pods
    cloud.service.faults.replace([Fault(kind="refuse", calls=("delete",), status=503, times=3)])
    with pytest.raises(TryLater):
        await cloud.reconcile()
    assert cloud.acme.port.objects[TEA]["metadata"]["finalizers"]
    cloud.service.faults.replace([])
    await cloud.delete()
    assert "acme-tea" not in cloud.service.state.buckets


async def test_a_cloud_that_is_away_stops_nothing_in_the_cluster(cloud: Cloud) -> None:
    cloud.declare()
    cloud.service.faults.replace([Fault(kind="refuse", calls=("admin",), status=503)])
    await cloud.reconcile()
    assert cloud.condition("Degraded")["reason"] == "BucketUnseen"
    assert Ref("apps/v1", "StatefulSet", "acme", "tea-world") in cloud.acme.port.objects


async def test_a_lost_bucket_is_not_made_again(cloud: Cloud) -> None:
    cloud.declare(historyID="77" * 16)
    await cloud.reconcile()
    assert cloud.condition()["reason"] == "StoreLost"
    assert cloud.service.state.buckets == {}


async def test_a_change_of_a_bucket_that_moved_on_is_a_conflict(cloud: Cloud) -> None:
    await cloud.google.carry_out(Make(bucket="acme-tea", settings={}))
    await cloud.google.carry_out(Make(bucket="acme-tea", settings={}))  # there already: that one counts
    with pytest.raises(Conflict):
        await cloud.google.carry_out(Change(bucket="acme-tea", metageneration="9", settings={"labels": {"a": "b"}}))


async def test_an_answer_is_remembered_until_something_is_changed(cloud: Cloud) -> None:
    async with aiohttp.ClientSession() as session:
        google = Google(
            session, project="p", authorization=Anonymous(), service=cloud.google._base.split("/storage")[0]
        )
        question = BucketQuestion(name="acme-tea")
        for _ in range(3):
            assert await google.look(question) is not None
        assert len(cloud.service.calls) == 1
        await google.carry_out(Make(bucket="acme-tea", settings={}))
        facts = await google.look(question)
        assert facts is not None
        assert facts.there
