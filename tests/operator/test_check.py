"""What is said about objects that can't be."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from demarkus_operator.api.check import problems

Build = Callable[..., dict[str, Any]]


def test_unknown_field_is_named_with_its_path(a_world: Build) -> None:
    (problem,) = problems(a_world(store={"volume": {"size": "1Gi", "colour": "green"}}))
    assert problem.field == ("spec", "store", "volume", "colour")
    assert str(problem) == "spec.store.volume.colour: unknown field; remove it or correct its spelling"


def test_item_of_a_list_is_named_by_its_index(a_world: Build) -> None:
    (problem,) = problems(a_world(access={"readers": [{"emails": ["a@example.com"]}, {"paths": ["/**"]}]}))
    assert problem.field == ("spec", "access", "readers", 1)


def test_missing_field_is_named(a_world: Build) -> None:
    manifest = a_world()
    del manifest["spec"]["store"]
    (problem,) = problems(manifest)
    assert (problem.field, problem.message) == (("spec", "store"), "is missing")


def test_all_problems_are_said_at_once(a_universe: Build) -> None:
    assert len(problems(a_universe(publicURL=5, version="", broker={"replicas": "2"}))) == 3


def test_text_is_not_taken_for_a_number(a_universe: Build) -> None:
    (problem,) = problems(a_universe(broker={"replicas": "2"}))
    assert problem.field == ("spec", "broker", "replicas")


def test_null_means_not_set(a_world: Build) -> None:
    manifest = a_world()
    manifest["spec"].update(version=None, access={"readers": None})
    assert problems(manifest) == ()


def test_status_is_not_judged(a_world: Build) -> None:
    assert problems({**a_world(), "status": {"anything": 1}}) == ()


def test_rejected_value_is_not_repeated(a_world: Build) -> None:
    (problem,) = problems(a_world(version="s3cret/token"))
    assert "s3cret" not in str(problem)


def test_other_kinds_versions_and_nameless_objects_are_refused(a_world: Build) -> None:
    assert [problem.field for problem in problems({"kind": "Pod"})] == [("kind",)]
    assert [problem.field for problem in problems({**a_world(), "apiVersion": "v1"})] == [("apiVersion",)]
    assert [problem.field for problem in problems({**a_world(), "metadata": {}})] == [("metadata", "name")]
    assert [problem.field for problem in problems({**a_world(), "spec": None})] == [("spec",)]


def test_final_line_feed_is_no_part_of_a_name(a_universe: Build) -> None:
    (problem,) = problems(a_universe(name="acme\n"))
    assert problem.field == ("metadata", "name")
    (problem,) = problems(a_universe(publicURL="https://mark.example.com\n"))
    assert problem.field == ("spec", "publicURL")
