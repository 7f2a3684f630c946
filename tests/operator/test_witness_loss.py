"""A known history whose store is gone: nothing is begun anew unless its owner says so, once."""

from __future__ import annotations

import base64
import json
from collections.abc import Callable
from typing import Any

import pytest
import yaml
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey
from cryptography.hazmat.primitives.serialization import load_pem_private_key

from demarkus_operator.plan.reports import Report
from demarkus_operator.plan.witness import Record, record_of
from tests.operator.history_log import Log

Build = Callable[..., dict[str, Any]]
SERVES = Report(pod="tea-world-0", ready=True)
LOST = Report(pod="tea-world-0", problems=("StoreLost: the store is empty",))
FOREIGN = Report(pod="tea-world-0", problems=("StoreForeign: the store belongs to history 77",))


def _identity(cluster: Any) -> dict[str, bytes]:
    data = cluster.get("Secret", "tea-identity")["data"]
    return {key: base64.b64decode(value) for key, value in data.items()}


def _key(cluster: Any) -> Ed25519PrivateKey:
    key = load_pem_private_key(_identity(cluster)["world.key"], password=None)
    assert isinstance(key, Ed25519PrivateKey)
    return key


def _record(cluster: Any) -> Record:
    history = _identity(cluster)["history"].decode()
    name = f"witness-{history}"
    seen = (
        cluster.get("ConfigMap", name, "demarkus-system") if cluster.has("ConfigMap", name, "demarkus-system") else None
    )
    return record_of(seen, history=history, key=_key(cluster).public_key())


def _log(cluster: Any) -> Log:
    found = {key: value.decode() for key, value in _identity(cluster).items() if key != "world.key"}
    return Log(history=found["history"], life=found["incarnation"], key=_key(cluster))


def _expected(cluster: Any) -> dict[str, Any] | None:
    text = cluster.get("ConfigMap", "tea-world-config")["data"]["world.yaml"]
    expect: dict[str, Any] | None = yaml.safe_load(text).get("expect")
    return expect


def _serve(cluster: Any, log: Log) -> None:
    """The World serves and proves its history."""
    cluster.set_status("StatefulSet", "tea-world", {"readyReplicas": 1})
    cluster.reports["tea"] = [SERVES]
    cluster.testimony["tea"] = log.testifies(_record(cluster))
    cluster.settle()


def _lose(cluster: Any, report: Report = LOST) -> None:
    """The World's pod finds no store."""
    cluster.set_status("StatefulSet", "tea-world", {"readyReplicas": 0})
    cluster.reports["tea"] = [report]
    cluster.testimony.pop("tea", None)
    cluster.settle()


@pytest.fixture
def served(settled: Any) -> Any:
    """A World that served and proved three entries."""
    _serve(settled, _log(settled).grow("a", "b", "c"))
    return settled


def _accept(cluster: Any, history: str | None) -> None:
    world = cluster.get("World", "tea")
    annotations = {} if history is None else {"demarkus.io/accept-empty-store": history}
    cluster.put({**world, "metadata": {**world["metadata"], "annotations": annotations}})
    cluster.settle()


def test_a_store_may_be_made_until_a_history_was_witnessed(settled: Any) -> None:
    assert _expected(settled) is None
    _serve(settled, _log(settled).grow("a", "b", "c"))
    assert _expected(settled) == {"history": _record(settled).history, "minSize": 3}
    assert settled.condition("World", "tea", "HistoryVerified") == ("True", "Consistent", "")


def test_what_is_expected_grows_with_the_history_and_restarts_nothing(settled: Any) -> None:
    log = _log(settled).grow("a")
    _serve(settled, log)
    template = settled.get("StatefulSet", "tea-world")["spec"]["template"]
    _serve(settled, log.grow("b", "c"))
    assert _expected(settled) == {"history": _record(settled).history, "minSize": 3}
    assert settled.get("StatefulSet", "tea-world")["spec"]["template"] == template


def test_the_record_is_kept_in_the_operators_namespace_without_an_owner(served: Any) -> None:
    record = served.get("ConfigMap", f"witness-{_record(served).history}", "demarkus-system")
    assert "ownerReferences" not in record["metadata"]
    assert record["metadata"]["labels"]["demarkus.io/world"] == "tea"
    assert record["metadata"]["labels"]["demarkus.io/namespace"] == "acme"
    assert json.loads(record["data"]["witness.json"])["newest"]["note"]


def test_a_quiet_history_writes_nothing(served: Any) -> None:
    served.writes.clear()
    _serve(served, _log(served).grow("a", "b", "c"))
    assert [ref for ref in served.writes if ref.kind != "StatefulSet"] == []


def test_a_world_that_comes_back_without_its_volume_is_lost_and_begins_nothing(served: Any, a_world: Build) -> None:
    identity = _identity(served)
    served.drop("World", "tea")
    served.drop("PersistentVolumeClaim", "tea-data")
    served.reports.clear()
    served.testimony.clear()
    served.put(a_world())
    served.settle()
    status, reason, message = served.condition("World", "tea")
    assert (status, reason) == ("False", "StoreLost")
    assert "PersistentVolumeClaim acme/tea-data is gone, and at least 3 entries" in message
    assert not served.has("PersistentVolumeClaim", "tea-data")
    assert _identity(served) == identity
    assert _expected(served) == {"history": identity["history"].decode(), "minSize": 3}


def test_the_volume_that_comes_back_is_adopted(served: Any, a_world: Build) -> None:
    claim = served.get("PersistentVolumeClaim", "tea-data")
    history = served.get("World", "tea")["status"]["history"]
    served.drop("World", "tea")
    served.drop("PersistentVolumeClaim", "tea-data")
    served.reports.clear()
    served.testimony.clear()
    served.put(a_world())
    served.settle()
    served.put(claim)
    served.settle()
    assert served.condition("World", "tea")[1] == "Starting"
    assert served.get("World", "tea")["status"]["history"] == history
    assert served.get("PersistentVolumeClaim", "tea-data")["metadata"]["uid"] == claim["metadata"]["uid"]


@pytest.mark.parametrize(("report", "reason"), [(LOST, "StoreLost"), (FOREIGN, "StoreForeign")])
def test_what_the_process_says_of_its_store_is_why_the_world_is_not_ready(
    served: Any, report: Report, reason: str
) -> None:
    _lose(served, report)
    assert served.condition("World", "tea")[:2] == ("False", reason)
    assert served.plan("World", "tea").requeue is not None


def test_an_accepted_loss_begins_another_life_of_the_same_history(served: Any) -> None:
    before = _identity(served)
    _lose(served)
    _accept(served, before["history"].decode())
    after = _identity(served)
    assert after["incarnation"] != before["incarnation"]
    assert {**after, "incarnation": b""} == {**before, "incarnation": b""}
    assert _expected(served) is None
    assert served.condition("World", "tea")[1] == "Starting"
    _serve(served, _log(served))
    assert _expected(served) == {"history": before["history"].decode(), "minSize": 0}
    assert len(_record(served).given_up) == 1
    assert served.condition("World", "tea", "HistoryVerified")[1] == "Consistent"


def test_an_accepted_loss_of_a_claim_makes_a_new_one(served: Any) -> None:
    served.drop("PersistentVolumeClaim", "tea-data")
    _lose(served)
    _accept(served, _record(served).history)
    assert served.has("PersistentVolumeClaim", "tea-data")


def test_one_annotation_accepts_one_loss(served: Any) -> None:
    history = _record(served).history
    _lose(served)
    _accept(served, history)
    _serve(served, _log(served).grow("x"))
    incarnation = _identity(served)["incarnation"]
    _lose(served)
    status, reason, message = served.condition("World", "tea")
    assert (status, reason) == ("False", "StoreLost")
    assert "was acted on before" in message
    assert _identity(served)["incarnation"] == incarnation
    _accept(served, None)
    assert "annotate the World with demarkus.io/accept-empty-store" in served.condition("World", "tea")[2]
    _accept(served, history)
    assert _identity(served)["incarnation"] != incarnation


@pytest.mark.parametrize("history", ["77" * 16, ""])
def test_an_annotation_for_another_history_accepts_nothing(served: Any, history: str) -> None:
    before = _identity(served)
    _lose(served)
    _accept(served, history)
    assert served.condition("World", "tea")[1] == "StoreLost"
    assert _identity(served) == before


def test_a_foreign_store_is_never_accepted(served: Any) -> None:
    before = _identity(served)
    _lose(served, FOREIGN)
    _accept(served, before["history"].decode())
    assert served.condition("World", "tea")[1] == "StoreForeign"
    assert _identity(served) == before
    assert _expected(served) is not None


def test_an_annotation_on_a_world_that_serves_takes_nothing_away(served: Any) -> None:
    _accept(served, _record(served).history)
    assert _expected(served) is not None
    assert not _record(served).accepted


def test_a_death_between_the_steps_of_an_acceptance_is_taken_up(served: Any) -> None:
    history = _record(served).history
    _lose(served)
    world = served.get("World", "tea")
    annotations = {"demarkus.io/accept-empty-store": history}
    served.put({**world, "metadata": {**world["metadata"], "annotations": annotations}})
    (change,) = served.plan("World", "tea").change
    served._change(change)  # and nothing else of this reconcile
    incarnation = _identity(served)["incarnation"]
    assert _expected(served) is not None
    served.settle()
    assert _identity(served)["incarnation"] == incarnation
    assert _expected(served) is None


def test_no_identity_is_drawn_where_a_volume_has_a_history(cluster: Any, a_world: Build, a_universe: Build) -> None:
    """Row 13: what is restored in parts waits for the rest."""
    cluster.put(a_world(universeRef=None))
    cluster.settle()
    identity = cluster.get("Secret", "tea-identity")
    cluster.drop("World", "tea")
    cluster.drop("Secret", "tea-identity")
    cluster.put(a_world(universeRef=None))
    cluster.settle()
    status, reason, message = cluster.condition("World", "tea")
    assert (status, reason) == ("False", "MaterialInvalid")
    assert "Secret acme/tea-identity is gone" in message
    assert not cluster.has("Secret", "tea-identity")
    cluster.put(identity)
    cluster.settle()
    assert cluster.condition("World", "tea")[1] == "Starting"
    assert _identity(cluster) == {k: base64.b64decode(v) for k, v in identity["data"].items()}


def test_no_identity_is_drawn_for_a_name_that_belongs_to_a_history(settled: Any, a_world: Build) -> None:
    settled.drop("World", "tea")
    settled.drop("Secret", "tea-identity")
    settled.drop("PersistentVolumeClaim", "tea-data")
    settled.put(a_world())
    settled.settle()
    assert settled.condition("World", "tea")[1] == "NameTaken"
    assert "Secret acme/tea-identity is gone; restore that Secret" in settled.condition("World", "tea")[2]
    assert not settled.has("Secret", "tea-identity")
