"""What becomes of buckets: found, made, looked after; and what is never touched."""

from __future__ import annotations

from typing import Any

import pytest
import yaml

from demarkus_operator.api.store import Bucket as Spec
from demarkus_operator.plan.bucket import HISTORY, MANAGED_BY, SETTINGS, bucket_of, may_empty
from demarkus_operator.plan.bucket_facts import Admit, BucketFacts, BucketQuestion, Change, Make

OURS, OTHER = "0a" * 16, "77" * 16
ACCOUNT = "tea-world@acme-project.iam.gserviceaccount.com"
ABSENT = BucketFacts()


def a_spec(url: str = "gs://acme-tea", **more: Any) -> Spec:
    return Spec.model_validate({"url": url, **more})


def a_bucket(*, history: str | None = OURS, **more: Any) -> BucketFacts:
    """A bucket with everything; `history` is the label of ours, None for one that somebody else made."""
    labels = {} if history is None else {MANAGED_BY: "demarkus-operator", HISTORY: history}
    resource = {**SETTINGS, "labels": labels, "metageneration": "3", **more.pop("resource", {})}
    return BucketFacts(there=True, resource=resource, policy={"bindings": [], "etag": "e1"}, **more)


def test_a_bucket_that_is_not_there_is_made_for_this_history_alone() -> None:
    (step,) = bucket_of(a_spec(), ABSENT, OURS, known=False).steps
    assert isinstance(step, Make)
    assert step.bucket == "acme-tea"
    assert step.settings["labels"] == {MANAGED_BY: "demarkus-operator", HISTORY: OURS}
    assert step.settings["iamConfiguration"]["uniformBucketLevelAccess"] == {"enabled": True}
    assert step.settings["iamConfiguration"]["publicAccessPrevention"] == "enforced"
    assert int(step.settings["softDeletePolicy"]["retentionDurationSeconds"]) > 0


@pytest.mark.parametrize("spec", [a_spec(), a_spec(historyID=OURS)])
def test_a_bucket_of_a_known_history_is_never_made_again(spec: Spec) -> None:
    for facts in (ABSENT, a_bucket()):
        found = bucket_of(spec, facts, OURS, known=spec.history_id is None)
        assert found.steps == ()
        assert found.missing is not None


def test_a_bucket_with_its_own_history_is_adopted_as_it_is() -> None:
    found = bucket_of(a_spec(), a_bucket(history=None, marker=OURS, empty=False), OURS, known=True)
    assert (found.steps, found.findings, found.foreign, found.missing) == ((), (), None, None)


@pytest.mark.parametrize(
    ("facts", "words"),
    [
        ({"marker": OTHER, "empty": False}, f"holds history {OTHER}"),
        ({"marker": "", "empty": False}, "can't be read"),
        ({"marker": None, "empty": False}, "objects that no World has made"),
    ],
    ids=["another history", "an unreadable marker", "other objects"],
)
@pytest.mark.parametrize("label", [OURS, None], ids=["labelled as ours", "not ours"])
def test_a_foreign_store_is_refused_and_nothing_of_it_is_changed(
    facts: dict[str, Any], words: str, label: str | None
) -> None:
    found = bucket_of(a_spec(), a_bucket(history=label, **facts), OURS, known=False)
    assert found.steps == ()
    assert words in (found.foreign or "")


def test_a_bucket_of_ours_is_brought_back_to_what_it_should_be() -> None:
    open_ = {"iamConfiguration": {"uniformBucketLevelAccess": {"enabled": False}}}
    (step,) = bucket_of(a_spec(), a_bucket(resource=open_), OURS, known=False).steps
    assert step == Change(
        bucket="acme-tea", metageneration="3", settings={"iamConfiguration": SETTINGS["iamConfiguration"]}
    )
    assert bucket_of(a_spec(), a_bucket(), OURS, known=False).steps == ()


def test_only_the_worlds_identity_is_admitted_and_others_stay() -> None:
    others = {"role": "roles/viewer", "members": ["user:ada@example.com"]}
    facts = BucketFacts(there=True, resource=a_bucket().resource, policy={"bindings": [others], "etag": "e7"})
    (step,) = bucket_of(a_spec(serviceAccount=ACCOUNT), facts, OURS, known=False).steps
    assert isinstance(step, Admit)
    assert step.policy["etag"] == "e7"
    assert step.policy["bindings"] == [
        others,
        {"role": "roles/storage.objectUser", "members": [f"serviceAccount:{ACCOUNT}"]},
    ]
    again = BucketFacts(there=True, resource=facts.resource, policy=step.policy)
    assert bucket_of(a_spec(serviceAccount=ACCOUNT), again, OURS, known=False).steps == ()


def test_what_a_bucket_of_somebody_else_lacks_is_told_and_not_changed() -> None:
    facts = BucketFacts(there=True, resource={"metageneration": "1"}, policy={"bindings": []}, marker=OURS, empty=False)
    found = bucket_of(a_spec(serviceAccount=ACCOUNT), facts, OURS, known=True)
    assert found.steps == ()
    ((reason, words),) = found.findings
    assert reason == "BucketIncomplete"
    for lack in ("uniform bucket-level access", "soft delete or object versioning", f"serviceAccount:{ACCOUNT}"):
        assert lack in words


def test_a_bucket_that_cant_be_seen_is_told_and_used_as_it_is() -> None:
    found = bucket_of(a_spec(), BucketFacts(problem="read bucket acme-tea: 403"), OURS, known=True)
    assert (found.steps, found.missing, found.foreign) == ((), None, None)
    assert found.findings == (("BucketUnseen", "gs://acme-tea: read bucket acme-tea: 403"),)


@pytest.mark.parametrize(
    ("facts", "may"),
    [
        (a_bucket(marker=OURS, empty=False), True),
        (a_bucket(), True),
        (a_bucket(history=None, marker=OURS, empty=False), False),
        (a_bucket(history=OTHER, marker=OURS, empty=False), False),
        (a_bucket(marker=OTHER, empty=False), False),
        (ABSENT, False),
    ],
    ids=["ours", "ours and empty", "not labelled", "labelled for another", "another store in it", "absent"],
)
def test_only_what_is_ours_by_label_and_marker_may_be_emptied(facts: BucketFacts, may: bool) -> None:
    assert may_empty(facts, OURS) is may


def test_a_prefix_is_part_of_the_question() -> None:
    assert BucketQuestion.of(a_spec("gs://acme/tea/green")) == BucketQuestion(name="acme", prefix="tea/green/")
    assert BucketQuestion.of(a_spec("gs://acme")).url == "gs://acme"


def _bucket_world(a_world: Any, **more: Any) -> dict[str, Any]:
    manifest: dict[str, Any] = a_world(store={"bucket": {"url": "gs://acme-tea", **more}})
    return manifest


def test_a_world_with_a_foreign_bucket_is_not_ready_and_says_why(cluster: Any, a_world: Any, a_universe: Any) -> None:
    cluster.put(a_universe())
    cluster.put(_bucket_world(a_world))
    cluster.buckets["tea"] = a_bucket(history=None, marker=OTHER, empty=False)
    cluster.settle()
    status, reason, message = cluster.condition("World", "tea")
    assert (status, reason) == ("False", "StoreForeign")
    assert f"historyID: {OTHER}" in message


def test_a_history_that_is_taken_over_is_the_worlds_own_and_expected(
    cluster: Any, a_world: Any, a_universe: Any
) -> None:
    cluster.put(a_universe())
    cluster.put(_bucket_world(a_world, historyID=OTHER))
    cluster.buckets["tea"] = a_bucket(history=None, marker=OTHER, empty=False)
    cluster.settle()
    assert cluster.get("World", "tea")["status"]["history"] == OTHER
    config = yaml.safe_load(cluster.get("ConfigMap", "tea-world-config")["data"]["world.yaml"])
    assert config["expect"] == {"history": OTHER, "minSize": 0}
    assert cluster.condition("World", "tea")[1] == "Starting"


def test_a_history_that_is_to_be_taken_over_and_is_not_there_is_lost(
    cluster: Any, a_world: Any, a_universe: Any
) -> None:
    cluster.put(a_universe())
    cluster.put(_bucket_world(a_world, historyID=OTHER))
    cluster.buckets["tea"] = ABSENT
    cluster.settle()
    assert cluster.condition("World", "tea")[1] == "StoreLost"
    assert cluster.plan("World", "tea").outside == ()


def test_only_a_bucket_that_is_to_be_deleted_holds_the_world(cluster: Any, a_world: Any, a_universe: Any) -> None:
    cluster.put(a_universe())
    held = {}
    for policy in ("Retain", "Delete"):
        for kind, store in (("bucket", {"url": "gs://acme-tea"}), ("volume", {"size": "1Gi"})):
            name = f"{kind}-{policy.lower()}"
            cluster.put(a_world(name, store={kind: store}, deletionPolicy=policy))
            cluster.settle()
            held[name] = cluster.plan("World", name).holds
    assert held == {"bucket-retain": False, "volume-retain": False, "bucket-delete": True, "volume-delete": False}
