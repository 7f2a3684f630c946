"""Who is looked at after an event: all whom it may concern, and nobody for an echo."""

from __future__ import annotations

import copy
from typing import Any

import pytest

from demarkus_operator.plan.objects import Ref
from demarkus_operator.reconcile.routes import Routes, owner_of
from demarkus_operator.reconcile.universe import universe_ref
from demarkus_operator.reconcile.world import world_ref
from tests.reconcile.acme import a_universe, a_world

ACME = universe_ref("acme", "acme")
HANDBOOK = world_ref("acme", "handbook")
PACKAGES = world_ref("acme", "packages")


def seen(manifest: Any, **metadata: Any) -> dict[str, Any]:
    """The object as an event has it."""
    return {**manifest, "metadata": {**manifest["metadata"], "uid": "u", "generation": 1, **metadata}}


def with_status(manifest: dict[str, Any], **status: Any) -> dict[str, Any]:
    return {**copy.deepcopy(manifest), "status": status}


def everybody(heard: tuple[list[Ref], list[Ref]]) -> list[Ref]:
    """Who has to be looked at, then who else may be concerned."""
    return [*heard[0], *heard[1]]


@pytest.fixture
def routes() -> Routes:
    """What is known of a Universe of two Worlds."""
    found = Routes()
    found.listed([seen(a_universe()), seen(a_world()), seen(a_world("packages"))])
    return found


def test_a_listing_is_about_everybody() -> None:
    assert Routes().listed([seen(a_universe()), seen(a_world())]) == [ACME, HANDBOOK]


def test_a_new_world_concerns_its_universe_too() -> None:
    assert everybody(Routes().heard(seen(a_world()))) == [HANDBOOK, ACME]


def test_a_world_without_a_universe_concerns_nobody_else() -> None:
    assert everybody(Routes().heard(seen(a_world(universe=None)))) == [HANDBOOK]


def test_an_echo_of_our_own_status_concerns_nobody(routes: Routes) -> None:
    assert (
        everybody(routes.heard(with_status(seen(a_world()), conditions=[{"type": "Ready"}], observedGeneration=1)))
        == []
    )


@pytest.mark.parametrize(
    "change",
    [
        {"generation": 2},
        {"uid": "another"},
        {"deletionTimestamp": "2026-12-01T00:00:00Z"},
    ],
    ids=lambda change: next(iter(change)),
)
def test_a_change_that_matters_is_heard(routes: Routes, change: dict[str, Any]) -> None:
    assert everybody(routes.heard(seen(a_world(), **change))) == [HANDBOOK, ACME]


def test_a_note_of_its_owner_concerns_a_world_alone(routes: Routes) -> None:
    assert routes.heard(seen(a_world(), annotations={"a": "b"})) == ([HANDBOOK], [])


def test_a_note_on_a_universe_does_not_concern_its_worlds(routes: Routes) -> None:
    assert routes.heard(seen(a_universe(), annotations={"a": "b"})) == ([ACME], [])


def test_a_world_that_knows_its_history_concerns_its_universe(routes: Routes) -> None:
    told = with_status(seen(a_world()), history="a" * 32, incarnation="b" * 32)
    assert ACME in everybody(routes.heard(told))
    assert everybody(routes.heard(told)) == []


def test_a_changed_universe_concerns_its_worlds(routes: Routes) -> None:
    assert everybody(routes.heard(seen(a_universe(), generation=2))) == [ACME, HANDBOOK, PACKAGES]


def test_a_universe_that_is_gone_concerns_its_worlds(routes: Routes) -> None:
    assert everybody(routes.heard(seen(a_universe()), gone=True)) == [ACME, HANDBOOK, PACKAGES]


def test_a_world_that_is_gone_concerns_its_universe_once(routes: Routes) -> None:
    assert everybody(routes.heard(seen(a_world()), gone=True)) == [HANDBOOK, ACME]
    assert routes.worlds_of(ACME) == [PACKAGES]


def test_a_world_that_comes_before_its_universe_is_known_to_wait() -> None:
    routes = Routes()
    routes.heard(seen(a_world()))
    assert everybody(routes.heard(seen(a_universe()))) == [ACME, HANDBOOK]


def test_a_world_that_is_made_again_elsewhere_concerns_both_universes(routes: Routes) -> None:
    other = seen(a_world(universe="other"), uid="new")
    assert everybody(routes.heard(other)) == [HANDBOOK, ACME, universe_ref("acme", "other")]
    assert routes.worlds_of(ACME) == [PACKAGES]


def test_what_is_not_in_a_listing_is_forgotten(routes: Routes) -> None:
    routes.listed([seen(a_universe()), seen(a_world("packages"))])
    assert routes.worlds_of(ACME) == [PACKAGES]
    assert everybody(routes.heard(seen(a_world()))) == [HANDBOOK, ACME]


@pytest.mark.parametrize(
    ("kind", "name", "owner"),
    [("PersistentVolumeClaim", "handbook-data", HANDBOOK), ("ConfigMap", "acme-record", ACME)],
)
def test_a_child_that_outlives_its_owner_leads_there_whatever_its_labels_say(kind: str, name: str, owner: Ref) -> None:
    edited = a_child(name=name, labels={"demarkus.io/world": "other", "demarkus.io/universe": "other"})
    assert owner_of({**edited, "kind": kind}) == owner


def a_child(**metadata: Any) -> dict[str, Any]:
    return {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "child", "namespace": "acme", **metadata}}


@pytest.mark.parametrize(
    ("metadata", "owner"),
    [
        ({"ownerReferences": [{"apiVersion": "demarkus.io/v1alpha1", "kind": "World", "name": "handbook"}]}, HANDBOOK),
        ({"ownerReferences": [{"apiVersion": "v1", "kind": "Pod", "name": "p"}]}, None),
        ({"labels": {"demarkus.io/world": "handbook", "demarkus.io/universe": "acme"}}, HANDBOOK),
        ({"labels": {"demarkus.io/universe": "acme"}}, ACME),
        (
            {
                "namespace": "demarkus-system",
                "labels": {"demarkus.io/world": "handbook", "demarkus.io/namespace": "acme"},
            },
            HANDBOOK,
        ),
        ({}, None),
    ],
    ids=[
        "owner",
        "foreign owner",
        "labels of a world",
        "labels of a universe",
        "kept in the operator's namespace",
        "nothing",
    ],
)
def test_a_child_leads_to_its_owner(metadata: dict[str, Any], owner: Ref | None) -> None:
    assert owner_of(a_child(**metadata)) == owner


def of_version(version: str) -> dict[str, Any]:
    return a_child(labels={"demarkus.io/world": "handbook"}, resourceVersion=version)


def test_an_echo_of_what_a_reconcile_saw_or_wrote_concerns_nobody(routes: Routes) -> None:
    routes.saw(of_version("5"))
    assert routes.heard_child(of_version("5")) is None
    assert routes.heard_child(of_version("6")) == HANDBOOK


def test_a_child_that_is_gone_is_news_and_so_is_one_that_comes_after_it(routes: Routes) -> None:
    routes.saw(of_version("5"))
    assert routes.heard_child(of_version("5"), gone=True) == HANDBOOK
    assert routes.heard_child(of_version("5")) == HANDBOOK


def test_a_listing_tells_the_versions_of_children(routes: Routes) -> None:
    routes.saw(of_version("4"))
    routes.listed([seen(a_world())], {Ref.of(of_version("5")): "5"})
    assert routes.heard_child(of_version("5")) is None
    assert routes.heard_child(of_version("4")) == HANDBOOK


def test_what_is_kept_in_the_operators_namespace_leads_home() -> None:
    kept = a_child(
        namespace="demarkus-system", labels={"demarkus.io/world": "handbook", "demarkus.io/namespace": "acme"}
    )
    assert owner_of(kept) == HANDBOOK
