"""What is witnessed of a history, and what a World can't talk the witness out of."""

from __future__ import annotations

import dataclasses
from datetime import datetime, timedelta

import pytest
from hypothesis import given
from hypothesis import strategies as st

from demarkus_operator.plan import witness
from demarkus_operator.plan.refusal import Refusal
from demarkus_operator.plan.witness import (
    FIELD,
    MOST_OLDER,
    Record,
    data_of,
    given_up,
    judged,
    record_of,
    taken_back,
)
from tests.operator.history_log import HISTORY, KEY, LIFE, NOON, OTHER_KEY, OTHER_LIFE, Log


def a_record() -> Record:
    return record_of(None, history=HISTORY, key=KEY.public_key())


def read_back(record: Record) -> Record:
    """The record after it was stored and read."""
    seen = {
        "apiVersion": "v1",
        "kind": "ConfigMap",
        "metadata": {"name": f"witness-{HISTORY}", "namespace": "demarkus-system"},
        "data": data_of(record),
    }
    return record_of(seen, history=HISTORY, key=OTHER_KEY.public_key())


def heard(record: Record, log: Log, *, time: datetime = NOON) -> tuple[Record, str]:
    """The stored record after a testimony, and the reason of the condition."""
    record, condition = judged(record, log.testifies(record, time=time))
    assert condition is not None
    assert (condition.status is True) == (condition.reason == "Consistent")
    return read_back(record), str(condition.reason)


@given(st.lists(st.integers(0, 9), min_size=1, max_size=12))
def test_a_history_that_only_grows_is_verified(steps: list[int]) -> None:
    log, record = Log(), a_record()
    for number, step in enumerate(steps):
        log.grow(*(f"{number} {entry}" for entry in range(step)))
        record, reason = heard(record, log)
        assert reason == "Consistent"
        assert record.size == log.edges[-1].size


@given(size=st.integers(1, 40), changed=st.integers(0, 39), more=st.integers(0, 9))
def test_a_changed_entry_is_a_fork_however_much_follows(size: int, changed: int, more: int) -> None:
    entries = [str(number) for number in range(size)]
    record, _ = heard(a_record(), Log().grow(*entries))
    entries[changed % size] = "something else"
    forked, reason = heard(record, Log().grow(*entries, *map(str, range(more))))
    assert reason == "HistoryForked"
    assert forked.newest == record.newest
    assert forked.doubt is not None


def test_an_older_store_put_back_is_shorter() -> None:
    record, _ = heard(a_record(), Log().grow("a", "b", "c"))
    record, reason = heard(record, Log().grow("a", "b"))
    assert reason == "HistoryShortened"
    assert record.doubt is not None
    assert "ends at entry 2, and 3 were witnessed" in record.doubt.message


def test_another_life_is_not_the_one_that_was_witnessed() -> None:
    record, _ = heard(a_record(), Log().grow("a"))
    _, reason = heard(record, Log(life=OTHER_LIFE).grow("a", "b"))
    assert reason == "HistoryReplaced"


@pytest.mark.parametrize("log", [Log(key=OTHER_KEY), Log(history="9f" * 16)], ids=["key", "history"])
def test_what_is_not_signed_for_this_history_is_no_note(log: Log) -> None:
    record, reason = heard(a_record(), log.grow("a"))
    assert reason == "NoteInvalid"
    assert record.newest is None


def test_a_history_that_comes_back_is_verified_and_the_doubt_is_remembered() -> None:
    log = Log().grow("a", "b")
    record, _ = heard(a_record(), log)
    record, _ = heard(record, Log().grow("a"))
    record, condition = judged(record, log.grow("c").testifies(record))
    assert condition is not None
    assert condition.status is True
    assert "did not hold at 2026-12-01T12:00:00Z (HistoryShortened)" in condition.message
    assert read_back(record).doubts[0].note.startswith(f"{HISTORY}/{LIFE}\n1\n")


def test_silence_takes_no_doubt_away() -> None:
    record, _ = heard(a_record(), Log().grow("a", "b"))
    record, _ = heard(record, Log().grow("a"))
    silent = witness.Testimony(time=NOON, problem="no answer", silent=True)
    assert [judged(record, one)[1].reason for one in (None, silent)] == ["HistoryShortened"] * 2  # type: ignore[union-attr]


def test_a_world_that_was_never_heard_or_not_for_long_is_unknown() -> None:
    quiet = witness.Testimony(time=NOON, problem="no answer from 10.0.0.7:8443")
    record, condition = judged(a_record(), quiet)
    assert condition is not None
    assert (condition.status, condition.reason, condition.message) == (None, "NotWitnessed", quiet.problem)
    record, _ = heard(record, Log().grow("a"))
    assert judged(record, quiet) == (record, None)
    _, condition = judged(record, dataclasses.replace(quiet, silent=True))
    assert condition is not None
    assert condition.status is None


def test_a_doubt_is_kept_as_it_was_first_seen() -> None:
    record, _ = heard(a_record(), Log().grow("a", "b"))
    once, _ = heard(record, Log().grow("x", "y"))
    twice, _ = heard(once, Log().grow("x", "y", "z"), time=NOON + timedelta(minutes=10))
    assert twice == once


def test_an_answer_to_an_older_question_is_no_evidence() -> None:
    log = Log().grow("a")
    record, _ = heard(a_record(), log)
    late = log.grow("b", "c").testifies(record)
    record, _ = heard(record, log)
    log.grow("d")
    stale = dataclasses.replace(log.testifies(a_record()), first=late.first)
    assert judged(record, stale)[0] == record


def test_the_same_note_again_changes_nothing() -> None:
    log = Log().grow("a", "b")
    record, _ = heard(a_record(), log)
    assert heard(record, log, time=NOON + timedelta(minutes=10)) == (record, "Consistent")


def test_an_accepted_loss_begins_anew_and_is_not_forgotten() -> None:
    record, _ = heard(a_record(), Log().grow("a", "b"))
    record = read_back(given_up(record))
    assert (record.size, record.accepted) == (0, True)
    assert record.incarnations == {LIFE}
    record, reason = heard(record, Log(life=OTHER_LIFE))
    assert reason == "Consistent"
    assert record.incarnations == {LIFE, OTHER_LIFE}
    assert not read_back(taken_back(record)).accepted


def test_older_notes_are_thinned_but_reach_back() -> None:
    log, record, time = Log(), a_record(), NOON
    for number in range(3000):  # one every six hours for two years
        log.grow(str(number))
        record, _ = judged(record, log.testifies(record, time=time))
        time += timedelta(hours=6)
    assert len(record.older) < MOST_OLDER
    assert record.older[-1].time.strftime("%Y-%m") == NOON.strftime("%Y-%m")
    assert len(data_of(record)[FIELD]) < 100_000


@pytest.mark.parametrize("content", [None, "", "{}", "[]", '{"history": "x", "keys": []}'])
def test_a_record_that_cant_be_read_is_refused(content: str | None) -> None:
    seen = {
        "apiVersion": "v1",
        "kind": "ConfigMap",
        "metadata": {"name": f"witness-{HISTORY}", "namespace": "demarkus-system"},
        "data": {} if content is None else {FIELD: content},
    }
    with pytest.raises(Refusal, match="restore it"):
        record_of(seen, history=HISTORY, key=KEY.public_key())
