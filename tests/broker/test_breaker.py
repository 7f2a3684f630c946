"""The circuit to a world that does not answer."""

from __future__ import annotations

from demarkus_broker.worlds.breaker import FAILURES, FIRST_PAUSE, LONGEST_PAUSE, Breaker


def a_broken(at: float = 0.0) -> Breaker:
    breaker = Breaker()
    for _ in range(FAILURES):
        breaker.failed(at)
    return breaker


def test_a_few_failures_leave_it_closed() -> None:
    breaker = Breaker()
    for _ in range(FAILURES - 1):
        breaker.failed(0.0)
    assert breaker.wait(0.0) == 0
    assert not breaker.open


def test_an_answer_between_failures_starts_the_count_anew() -> None:
    breaker = Breaker()
    for _ in range(5):
        breaker.failed(0.0)
        breaker.succeeded()
    assert breaker.wait(0.0) == 0


def test_failures_in_a_row_open_it_for_a_while() -> None:
    breaker = a_broken(at=10.0)
    assert breaker.open
    assert breaker.wait(10.25) == FIRST_PAUSE - 0.25


def test_after_the_pause_one_request_tries_and_the_others_wait() -> None:
    breaker = a_broken()
    assert breaker.wait(FIRST_PAUSE) == 0
    assert breaker.wait(FIRST_PAUSE) > 0


def test_a_try_that_succeeds_closes_it() -> None:
    breaker = a_broken()
    breaker.wait(FIRST_PAUSE)
    breaker.succeeded()
    assert not breaker.open
    assert breaker.wait(FIRST_PAUSE) == 0


def test_a_try_that_fails_doubles_the_pause_up_to_a_bound() -> None:
    breaker, now, pauses = a_broken(), FIRST_PAUSE, []
    for _ in range(8):
        assert breaker.wait(now) == 0
        breaker.failed(now)
        pauses.append(breaker.wait(now))
        now += pauses[-1]
    assert pauses[:3] == [2 * FIRST_PAUSE, 4 * FIRST_PAUSE, 8 * FIRST_PAUSE]
    assert pauses[-1] == LONGEST_PAUSE


def test_a_try_that_is_given_up_lets_the_next_one_try() -> None:
    breaker = a_broken()
    breaker.wait(FIRST_PAUSE)
    breaker.abandoned()
    assert breaker.wait(FIRST_PAUSE) == 0
