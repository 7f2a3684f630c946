"""The rotation as a machine: its turns one by one, and that nobody is ever refused, whatever happens in which order."""

from __future__ import annotations

import dataclasses
import json
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta

import pytest
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, rule

from demarkus_operator.plan import labels
from demarkus_operator.plan.rotation import Old, Pace, Ring, Seen, Step, Turn, noting, ring_of, step

NOW = datetime(2026, 12, 1, 9, 0, tzinfo=UTC)
DAY = timedelta(days=1)
LIFE = timedelta(minutes=5)
PACE = Pace(every=90 * DAY, linger=LIFE + timedelta(minutes=2))
TOKENS = Pace(every=90 * DAY, linger=DAY, idle=timedelta(hours=1), longest=7 * DAY)
ALL = Seen(known=True, settled=True)


def a_ring(**fields: object) -> Ring:
    return dataclasses.replace(Ring(active="a", since=NOW), **fields)  # type: ignore[arg-type]


# One turn after the other


def test_young_credential_stays_until_it_is_old_enough() -> None:
    due = NOW + 90 * DAY
    assert step(a_ring(), PACE, ALL, now=due - timedelta(seconds=1)) == Step(turn=Turn.WAIT, until=due)
    assert step(a_ring(), PACE, ALL, now=due).turn is Turn.ADD


def test_without_a_period_nothing_is_exchanged() -> None:
    never = dataclasses.replace(PACE, every=None)
    assert step(a_ring(), never, ALL, now=NOW + 3650 * DAY) == Step(turn=Turn.WAIT)


def test_next_one_is_used_once_everybody_who_checks_knows_it() -> None:
    ring = a_ring(coming=("b",))
    assert step(ring, PACE, Seen(known=False, settled=True), now=NOW).turn is Turn.WAIT
    assert step(ring, PACE, Seen(known=True, settled=False), now=NOW) == Step(turn=Turn.USE, name="b")


def test_old_one_goes_when_what_it_made_has_ended_and_everybody_has_gone_on() -> None:
    ring = a_ring(active="b", old=(Old(name="a"),))
    assert step(ring, PACE, Seen(known=True, settled=False), now=NOW + DAY).turn is Turn.WAIT
    assert step(ring, PACE, ALL, now=NOW).turn is Turn.NOTE
    ring = ring.noted(NOW)
    end = NOW + PACE.linger
    assert step(ring, PACE, ALL, now=end - timedelta(seconds=1)) == Step(turn=Turn.WAIT, until=end)
    assert step(ring, PACE, Seen(known=True, settled=False), now=end).turn is Turn.WAIT
    assert step(ring, PACE, ALL, now=end) == Step(turn=Turn.DROP, name="a")


def test_no_exchange_begins_before_the_last_one_is_over() -> None:
    ring = a_ring(active="b", since=NOW - 365 * DAY, old=(Old(name="a"),))
    assert step(ring, PACE, Seen(known=True, settled=False), now=NOW).turn is Turn.WAIT


@pytest.mark.parametrize(
    ("last_use", "end"),
    [
        (NOW - DAY, DAY),
        (NOW + timedelta(hours=23, minutes=30), DAY + timedelta(minutes=30)),
        (NOW + 2 * DAY, 2 * DAY + timedelta(hours=1)),
        (NOW + 8 * DAY, 7 * DAY),
        (None, 7 * DAY),
    ],
    ids=["unused", "used-lately", "used-on", "used-for-ever", "not-known"],
)
def test_token_goes_after_a_day_an_hour_unused_and_a_week_at_the_latest(
    last_use: datetime | None, end: timedelta
) -> None:
    ring = a_ring(active="b", old=(Old(name="a", unused_since=NOW),))
    seen = Seen(known=True, settled=True, last_use=last_use)
    assert step(ring, TOKENS, seen, now=NOW + end - timedelta(seconds=1)) == Step(turn=Turn.WAIT, until=NOW + end)
    assert step(ring, TOKENS, seen, now=NOW + end) == Step(turn=Turn.DROP, name="a")


def test_revoked_credential_goes_at_once_whoever_has_followed() -> None:
    nobody = Seen(known=False, settled=False)
    assert step(a_ring(), PACE, nobody, now=NOW, revoked={"a"}).turn is Turn.ADD
    assert step(a_ring(coming=("b",)), PACE, nobody, now=NOW, revoked={"a"}) == Step(turn=Turn.REPLACE, name="b")
    assert step(a_ring(coming=("b",)), PACE, nobody, now=NOW, revoked={"b"}) == Step(turn=Turn.DROP, name="b")
    assert step(a_ring(old=(Old(name="z"),)), PACE, nobody, now=NOW, revoked={"z"}) == Step(turn=Turn.DROP, name="z")
    assert step(a_ring(), PACE, nobody, now=NOW, revoked={"x"}).turn is Turn.WAIT


# What a Secret keeps of it


def a_secret(**annotations: str) -> dict[str, dict[str, object]]:
    return {"metadata": {"creationTimestamp": "2026-12-01T09:00:00Z", "annotations": annotations}}


def test_ring_comes_back_from_its_note() -> None:
    ring = a_ring(since=NOW + DAY, coming=("c",), old=(Old(name="b", unused_since=NOW + 2 * DAY), Old(name="d")))
    secret = a_secret(**{labels.ROTATION: '{"other":{"since":"2026-12-01T09:00:00Z"}}'})
    note = noting(secret, "grant", ring)
    assert ring_of(a_secret(**note), "grant", active="a", names="abcd") == ring
    assert json.loads(note[labels.ROTATION])["other"] == {"since": "2026-12-01T09:00:00Z", "old": {}}


@pytest.mark.parametrize("text", ["", "no json", "[]", '{"grant":1}', '{"grant":{"since":3,"old":7}}'])
def test_without_a_readable_note_the_age_of_the_secret_counts(text: str) -> None:
    secret = a_secret(**{labels.ROTATION: text})
    assert ring_of(secret, "grant", active="a", names="ab") == Ring(active="a", since=NOW, coming=("b",))


# Whatever happens


@dataclass
class Process:
    """What a process has loaded: the version it read last. One that is down reads anew when it starts."""

    loaded: int = 0
    up: bool = True


@dataclass(frozen=True)
class Signed:
    name: str
    until: datetime


@dataclass
class Files:
    """The versions of the ring that were ever written; a process may be some behind, but never goes back."""

    versions: list[Ring] = field(default_factory=lambda: [a_ring()])

    @property
    def newest(self) -> int:
        return len(self.versions) - 1

    def accepted(self, version: int) -> set[str]:
        ring = self.versions[version]
        return {ring.active, *ring.coming, *(old.name for old in ring.old)}

    def content(self, version: int) -> tuple[str, set[str]]:
        """What a process can tell of it, and so what its hash stands for: notes are not in the files."""
        return self.versions[version].active, self.accepted(version)


class Exchange(RuleBasedStateMachine):
    """Signers and checkers that stop, start and reload as they like, and an operator that looks at any time, may die
    after any write, and may act on what it saw a while ago.

    Checkers read a copy that is written some time after the Secret; signers read the Secret.
    """

    SIGNERS = CHECKERS = 3
    EVERY = timedelta(minutes=10)

    @initialize()
    def begin(self) -> None:
        self.now = NOW
        self.files = Files()
        self.copied = 0
        self.signers = [Process() for _ in range(self.SIGNERS)]
        self.checkers = [Process() for _ in range(self.CHECKERS)]
        self.signed: list[Signed] = []
        self.looked: tuple[int, Seen] | None = None
        self.made = 0

    @rule(seconds=st.sampled_from([1, 30, 61, 299, 420, 700]))
    def time_passes(self, seconds: int) -> None:
        self.now += timedelta(seconds=seconds)

    @rule(index=st.integers(0, SIGNERS - 1))
    def signs(self, index: int) -> None:
        signer = self.signers[index]
        if signer.up:
            self.signed.append(Signed(self.files.versions[signer.loaded].active, self.now + LIFE))

    @rule(index=st.integers(0, SIGNERS - 1), behind=st.integers(0, 2))
    def signer_reloads(self, index: int, behind: int) -> None:
        signer = self.signers[index]
        if signer.up:
            signer.loaded = max(signer.loaded, self.files.newest - behind)

    @rule(index=st.integers(0, CHECKERS - 1))
    def checker_reloads(self, index: int) -> None:
        checker = self.checkers[index]
        if checker.up:
            checker.loaded = self.copied

    @rule(index=st.integers(0, SIGNERS - 1))
    def signer_stops_or_starts(self, index: int) -> None:
        signer = self.signers[index]
        self.signers[index] = Process(signer.loaded if signer.up else self.files.newest, up=not signer.up)

    @rule(index=st.integers(0, CHECKERS - 1))
    def checker_stops_or_starts(self, index: int) -> None:
        # One that starts is in service only once it has the files of that time.
        self.checkers[index] = Process(self.copied, up=not self.checkers[index].up)

    @rule()
    def copy_is_written(self) -> None:
        self.copied = self.files.newest

    @rule()
    def operator_looks(self) -> None:
        newest = self.files.newest
        wanted = self.files.content(newest)
        copies = [self.copied, *(one.loaded for one in self.checkers if one.up)]
        known = all(self.files.content(version) == wanted for version in copies)
        settled = all(self.files.content(one.loaded) == wanted for one in self.signers if one.up)
        self.looked = (newest, Seen(known=known, settled=settled))

    @rule()
    def operator_acts(self) -> None:
        """On what it saw last; the guard of the change refuses it if the ring was written since."""
        if self.looked is None or self.looked[0] != self.files.newest:
            return
        ring = self.files.versions[-1]
        taken = step(ring, Pace(every=self.EVERY, linger=PACE.linger), self.looked[1], now=self.now)
        match taken.turn:
            case Turn.ADD:
                self.made += 1
                ring = dataclasses.replace(ring, coming=(f"k{self.made}",))
            case Turn.USE:
                ring = ring.using(taken.name, self.now)
            case Turn.NOTE:
                ring = ring.noted(self.now)
            case Turn.DROP:
                ring = ring.without(taken.name)
            case _:
                return
        self.files.versions.append(ring)

    @rule()
    def all_follow(self) -> None:
        """Everything goes well for a moment, so that exchanges come to their end."""
        self.copied = self.files.newest
        for one in (*self.signers, *self.checkers):
            if one.up:
                one.loaded = self.files.newest
        self.operator_looks()
        self.operator_acts()

    @invariant()
    def nobody_is_refused(self) -> None:
        valid = {one.name for one in self.signed if one.until > self.now}
        shown = {self.files.versions[one.loaded].active for one in self.signers if one.up}
        for checker in self.checkers:
            if checker.up:
                assert valid | shown <= self.files.accepted(checker.loaded)

    @invariant()
    def no_more_than_two_are_accepted(self) -> None:
        assert len(self.files.accepted(self.files.newest)) <= 2


Exchange.TestCase.settings = settings(max_examples=150, stateful_step_count=60, deadline=None)
TestExchange = Exchange.TestCase


def test_exchanges_come_to_an_end_when_everybody_follows() -> None:
    """Without this, a machine that never does anything would keep its promise too."""
    machine = Exchange()
    machine.begin()
    actives = []
    for _ in range(200):
        machine.all_follow()
        machine.time_passes(61)
        machine.nobody_is_refused()
        actives.append(machine.files.versions[-1].active)
    # Each takes its period and the life of what was made, and a minute for each look: 20 minutes or so.
    assert list(dict.fromkeys(actives))[:6] == ["a", "k1", "k2", "k3", "k4", "k5"]
