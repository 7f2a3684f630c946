"""The rules of the work queue, with times as numbers."""

from __future__ import annotations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from demarkus_operator.reconcile.schedule import FIRST_RETRY, LONGEST_RETRY, Schedule, retry_delay


def a_schedule(*, chance: float = 0.0, limit: int = 100) -> Schedule[str]:
    return Schedule(chance=lambda: chance, limit=limit)


def test_keys_come_in_the_order_in_which_they_were_added() -> None:
    schedule = a_schedule()
    for key in "abc":
        schedule.add(key, 0)
    assert [schedule.take(1) for _ in range(4)] == ["a", "b", "c", None]


def test_a_key_is_in_line_only_once() -> None:
    schedule = a_schedule()
    for _ in range(3):
        schedule.add("a", 0)
    assert [schedule.take(0), schedule.take(0)] == ["a", None]


def test_a_key_that_is_heard_of_while_it_is_worked_on_has_another_turn_and_not_before() -> None:
    schedule = a_schedule()
    schedule.add("a", 0)
    schedule.take(0)
    schedule.add("a", 1)
    schedule.add("a", 1)
    assert schedule.take(1) is None
    schedule.succeeded("a", 2)
    assert [schedule.take(2), schedule.take(2)] == ["a", None]


def test_a_key_comes_at_the_earliest_of_its_times() -> None:
    schedule = a_schedule()
    schedule.add_at("a", 30)
    schedule.add_at("a", 10)
    schedule.add_at("a", 20)
    assert schedule.next_time() == 10
    assert (schedule.take(9.9), schedule.take(10), schedule.next_time()) == (None, "a", None)


def test_a_turn_makes_earlier_appointments_void() -> None:
    schedule = a_schedule()
    schedule.add_at("a", 30)
    schedule.add("a", 0)
    schedule.take(0)
    schedule.succeeded("a", 1)
    assert schedule.take(31) is None


def test_an_appointment_made_during_a_turn_holds() -> None:
    schedule = a_schedule()
    schedule.add("a", 0)
    schedule.take(0)
    schedule.add_at("a", 5)
    schedule.succeeded("a", 1, again_in=30)
    assert schedule.next_time() == 5


def test_a_turn_can_ask_for_another_one() -> None:
    schedule = a_schedule()
    schedule.add("a", 0)
    schedule.take(0)
    schedule.succeeded("a", 1, again_in=30)
    assert (schedule.take(30.9), schedule.take(31)) == (None, "a")


def test_failures_in_a_row_are_tried_again_ever_later() -> None:
    schedule = a_schedule()
    now, delays = 0.0, []
    schedule.add("a", now)
    for _ in range(12):
        assert schedule.take(now) == "a"
        delays.append(schedule.failed("a", now))
        now += delays[-1]
    assert delays[:5] == [1, 2, 4, 8, 16]
    assert delays[-1] == LONGEST_RETRY
    schedule.take(now)
    schedule.succeeded("a", now)
    assert schedule.failures("a") == 0


def test_a_failure_that_got_further_does_not_make_the_next_wait_longer() -> None:
    schedule = a_schedule()
    now, delays = 0.0, []
    schedule.add("a", now)
    for got_further in (False, False, True, True, False):
        assert schedule.take(now) == "a"
        delays.append(schedule.failed("a", now, got_further=got_further))
        now += delays[-1]
    assert delays == [1, 2, 2, 2, 4]


def test_a_server_that_names_a_delay_is_obeyed() -> None:
    schedule = a_schedule()
    schedule.add("a", 0)
    schedule.take(0)
    assert schedule.failed("a", 0, not_before=40) == 40
    assert schedule.next_time() == 40


def test_news_of_a_failed_key_does_not_wait_for_the_retry() -> None:
    """Whoever corrects a spec is served at once."""
    schedule = a_schedule()
    schedule.add("a", 0)
    schedule.take(0)
    schedule.failed("a", 0)
    schedule.add("a", 0.1)
    assert schedule.take(0.1) == "a"
    assert schedule.failures("a") == 1


@settings(deadline=None)
@given(st.integers(1, 10_000), st.floats(0, 1, exclude_max=True))
def test_retry_delay_is_bounded(failures: int, chance: float) -> None:
    assert FIRST_RETRY <= retry_delay(failures, chance) <= LONGEST_RETRY


def test_keys_that_fail_together_do_not_come_back_together() -> None:
    assert retry_delay(3, 0.0) == 4
    assert retry_delay(3, 0.5) == 5


def test_a_full_line_refuses_new_keys_only() -> None:
    schedule = a_schedule(limit=2)
    assert [schedule.add(key, 0) for key in "abca"] == [True, True, False, True]
    assert [schedule.add_at(key, 9) for key in "abca"] == [True, True, False, True]


def test_the_wait_of_the_first_in_line_is_known() -> None:
    schedule = a_schedule()
    assert schedule.oldest(5) == 0
    schedule.add("a", 1)
    schedule.add("b", 2)
    assert (schedule.oldest(5), schedule.waiting) == (4, 2)
    schedule.take(5)
    assert (schedule.oldest(5), schedule.waiting, schedule.running) == (3, 1, 1)


@settings(deadline=None)
@given(
    st.lists(st.tuples(st.sampled_from(["add", "at", "take", "ok", "fail"]), st.sampled_from("abc"), st.floats(0, 9)))
)
def test_no_order_of_calls_loses_or_doubles_a_key(steps: list[tuple[str, str, float]]) -> None:
    """Against a plain model: after every step each key is where it should be, and in the end all are served."""
    schedule, now = a_schedule(chance=0.3), 0.0
    running: set[str] = set()
    owed: set[str] = set()  # keys that must still get a turn
    for verb, key, number in steps:
        now += number / 10
        if verb == "add":
            schedule.add(key, now)
            owed.add(key)
        elif verb == "at":
            schedule.add_at(key, now + number)
            owed.add(key)
        elif verb == "take" and (taken := schedule.take(now)) is not None:
            assert taken not in running
            running.add(taken)
            owed.discard(taken)
        elif key in running:
            running.remove(key)
            if verb == "ok":
                schedule.succeeded(key, now)
            elif verb == "fail":
                schedule.failed(key, now)
                owed.add(key)
            else:
                running.add(key)
    for key in running:
        schedule.succeeded(key, now)
    served: set[str] = set()
    while (taken := schedule.take(now + 10_000)) is not None:
        schedule.succeeded(taken, now + 10_000)
        served.add(taken)
    assert served == owed
    assert schedule.next_time() is None


def test_a_key_that_nobody_asks_for_costs_nothing() -> None:
    schedule = a_schedule()
    schedule.add("a", 0)
    schedule.take(0)
    schedule.succeeded("a", 0)
    assert (schedule.waiting, schedule.running, schedule.next_time()) == (0, 0, None)


def test_taking_from_an_empty_schedule_is_fine() -> None:
    assert a_schedule().take(0) is None


@pytest.mark.parametrize("order", [(1, 2), (2, 1)])
def test_an_appointment_that_was_moved_counts_once(order: tuple[int, int]) -> None:
    schedule = a_schedule()
    for time in order:
        schedule.add_at("a", time)
    assert [schedule.take(5), schedule.take(5)] == ["a", None]
