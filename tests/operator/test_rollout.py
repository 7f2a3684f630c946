"""A new version gets to one after the other, and no further than it is good."""

from __future__ import annotations

import dataclasses
import itertools
from datetime import UTC, datetime, timedelta

import pytest
from hypothesis import given
from hypothesis import strategies as st

from demarkus_operator.plan.refusal import Refusal
from demarkus_operator.plan.rollout import (
    DEADLINE,
    FIELD,
    GATEWAY,
    Member,
    Policy,
    Progress,
    Rollout,
    advanced,
    aimed,
    data_of,
    rollout_of,
)

START = datetime(2026, 12, 1, 9, 0, tzinfo=UTC)
DEFAULT = Policy(delay=timedelta(seconds=30))


class Universe:
    """Worlds and a gateway that take their version from the record, as their reconciles would."""

    def __init__(self, *names: str, policy: Policy = DEFAULT) -> None:
        self.now = START
        self.policy = policy
        self.target = "1"
        self.record: Rollout | None = Rollout(target="1")
        self.members = {name: Member(name=name, version="1", well_since=START) for name in (*names, GATEWAY)}
        self.bad: set[tuple[str, str]] = set()
        self.got: list[str] = []
        self.most = 0  # who was not well at once because of the rollout

    def step(self, seconds: float = 10.0) -> Progress | None:
        """A reconcile of the Universe, then one of everybody whose version changed."""
        self.now += timedelta(seconds=seconds)
        members = list(self.members.values())
        aimed_at = aimed(self.record, self.target, members, self.now)
        rollout, progress = advanced(aimed_at, members, self.policy, self.now)
        self.record = rollout_of(_stored(rollout), rollout.target)
        for member in members:
            version = rollout.version(member.name)
            if version != member.version and not member.paused:
                self.got.append(member.name)
                well = None if (member.name, version) in self.bad else self.now + timedelta(seconds=5)
                self.members[member.name] = dataclasses.replace(member, version=version, well_since=well)
        return progress

    def run(self, steps: int = 100) -> Progress | None:
        """Until nothing is to be done, or so many steps."""
        for _ in range(steps):
            progress = self.step()
            if progress is None:
                return None
        return progress

    def change(self, name: str, **changes: object) -> None:
        self.members[name] = dataclasses.replace(self.members[name], **changes)  # type: ignore[arg-type]

    def versions(self) -> dict[str, str | None]:
        return {name: member.version for name, member in self.members.items()}


def _stored(rollout: Rollout) -> dict[str, object]:
    metadata = {"name": "acme-record", "namespace": "acme"}
    return {"apiVersion": "v1", "kind": "ConfigMap", "metadata": metadata, "data": data_of(rollout)}


def test_canaries_come_first_then_the_gateway_then_the_others() -> None:
    universe = Universe("a", "b", "c", "d", policy=Policy(canary=["c", "gone"]))
    universe.target = "2"
    assert universe.run() is None
    assert universe.got == ["c", GATEWAY, "a", "b", "d"]
    assert data_of(universe.record or Rollout(target="")) == {}


def test_only_one_at_a_time_and_each_only_after_the_delay() -> None:
    universe = Universe("a", "b", "c")
    universe.target = "2"
    times = {}
    for _ in range(200):
        universe.step(1)
        for name in universe.got:
            times.setdefault(name, universe.now)
    ordered = sorted(times.values())
    assert len(ordered) == 4
    assert all(after - before >= timedelta(seconds=34) for before, after in itertools.pairwise(ordered))


def test_nobody_follows_one_that_does_not_serve_and_that_is_told_after_the_deadline() -> None:
    universe = Universe("a", "b", "c", policy=Policy(canary=["b"]))
    universe.target, universe.bad = "2", {("b", "2")}
    progress = universe.run(10)
    assert progress is not None
    assert not progress.halted
    universe.now += DEADLINE
    progress = universe.run(20)
    assert progress is not None
    assert progress.halted
    assert progress.words == (
        "1 of 4 have version 2: World b does not serve with it; nobody else gets it until it does"
    )
    assert universe.got == ["b"]


def test_it_goes_on_when_the_one_that_was_waited_for_serves() -> None:
    universe = Universe("a", "b", policy=Policy(canary=["b"]))
    universe.target, universe.bad = "2", {("b", "2")}
    universe.now += DEADLINE
    universe.run(5)
    universe.change("b", well_since=universe.now)
    assert universe.run() is None
    assert set(universe.versions().values()) == {"2"}


def test_one_that_falls_ill_later_halts_it_too() -> None:
    universe = Universe("a", "b", "c", "d", policy=Policy(canary=["a"]))
    universe.target = "2"
    while universe.got != ["a", GATEWAY, "b"]:
        universe.step()
    universe.change("a", well_since=None)
    universe.now += DEADLINE
    universe.run(30)
    assert universe.got == ["a", GATEWAY, "b"]


def test_a_version_set_back_repairs_at_once_who_was_broken() -> None:
    universe = Universe("a", "b", "c", policy=Policy(canary=["b", "c"]))
    universe.target, universe.bad = "2", {("c", "2")}
    while universe.got != ["b", "c"]:
        universe.step()
    universe.target = "1"
    universe.step()
    assert universe.versions()["c"] == "1"
    assert universe.run() is None
    assert set(universe.versions().values()) == {"1"}
    assert sorted(universe.got) == ["b", "b", "c", "c"]


def test_another_version_on_the_way_takes_over_from_where_everybody_is() -> None:
    universe = Universe("a", "b", "c", policy=Policy(canary=["a"]))
    universe.target = "2"
    while universe.got != ["a"]:
        universe.step()
    universe.target = "3"
    assert universe.run() is None
    assert set(universe.versions().values()) == {"3"}
    assert universe.got == ["a", "a", GATEWAY, "b", "c"]


def test_who_was_not_well_before_comes_last_and_is_not_waited_for() -> None:
    universe = Universe("a", "b", "c")
    universe.change("a", well_since=None)
    universe.target, universe.bad = "2", {("a", "2")}
    assert universe.run() is None
    assert universe.got == [GATEWAY, "b", "c", "a"]


def test_who_is_suspended_is_not_waited_for() -> None:
    universe = Universe("a", "b")
    universe.change("a", suspended=True)
    universe.target, universe.bad = "2", {("a", "2")}
    assert universe.run() is None
    assert set(universe.versions().values()) == {"2"}


def test_who_is_paused_is_passed_over_and_gets_it_afterwards() -> None:
    universe = Universe("a", "b")
    universe.change("a", paused=True)
    universe.target = "2"
    progress = universe.run()
    assert progress is not None
    assert progress.reason == "RolloutPaused"
    assert "World a" in progress.message
    assert universe.got == [GATEWAY, "b"]
    universe.change("a", paused=False)
    assert universe.run() is None
    assert universe.got == [GATEWAY, "b", "a"]


def test_a_paused_rollout_gives_nobody_the_version() -> None:
    universe = Universe("a", policy=Policy(paused=True))
    universe.target = "2"
    progress = universe.run(10)
    assert progress is not None
    assert (progress.reason, progress.requeue) == ("RolloutPaused", None)
    assert universe.got == []
    universe.policy = Policy()
    assert universe.run() is None


def test_a_new_world_gets_the_version_that_is_asked_for() -> None:
    universe = Universe("a")
    universe.target, universe.policy = "2", Policy(paused=True)
    universe.step()
    universe.members["z"] = Member(name="z", version=None, well_since=None)
    universe.step()
    assert universe.versions() == {"a": "1", GATEWAY: "1", "z": "2"}


def test_who_is_gone_is_not_waited_for() -> None:
    universe = Universe("a", "b", policy=Policy(canary=["a"]))
    universe.target, universe.bad = "2", {("a", "2")}
    universe.step()
    del universe.members["a"]
    assert universe.run() is None


def test_a_new_universe_has_nothing_to_roll_out() -> None:
    rollout = aimed(None, "1", [], START)
    assert advanced(rollout, [], Policy(), START) == (Rollout(target="1"), None)


@given(
    bad=st.sets(st.tuples(st.sampled_from("abcd"), st.sampled_from("23"))),
    targets=st.lists(st.sampled_from("123"), min_size=1, max_size=4),
    canary=st.lists(st.sampled_from("abcd"), max_size=2, unique=True),
    steps=st.integers(1, 40),
)
def test_at_most_one_world_is_ever_broken_by_a_version(
    bad: set[tuple[str, str]], targets: list[str], canary: list[str], steps: int
) -> None:
    universe = Universe(*"abcd", policy=Policy(canary=canary))
    universe.bad = bad
    for target in targets:
        universe.target = target
        for _ in range(steps):
            universe.step()
            assert sum(member.well_since is None for member in universe.members.values()) <= 1
    universe.bad, universe.target = set(), "1"
    for member in list(universe.members.values()):
        if member.version == "1":
            universe.change(member.name, well_since=universe.now)
    assert universe.run(200) is None
    assert set(universe.versions().values()) == {"1"}


def test_who_is_behind_stays_pinned_to_the_digests_it_has() -> None:
    member = Member(name="a", version="1", well_since=START)
    first = aimed(Rollout(target="1"), "2", [member], START, digests={"world": "sha256:1"})
    assert rollout_of(_stored(first), "2") == first
    second = aimed(first, "3", [member], START, digests={"world": "sha256:2"})
    assert second.digests == {"1": {"world": "sha256:1"}}
    done, _ = advanced(second, [member], Policy(), START)
    assert done.version("a") == "3"


@pytest.mark.parametrize("text", ["", "{}", '{"behind": [], "moved": []}', '{"behind": {}, "moved": [{}]}'])
def test_what_cant_be_read_is_named(text: str) -> None:
    record = {**_stored(Rollout(target="1")), "data": {FIELD: text}}
    with pytest.raises(Refusal, match=r"acme-record can't be read in its field rollout\.json"):
        rollout_of(record, "1")
