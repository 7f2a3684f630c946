"""What a World's processes say of their store is told by its conditions."""

from __future__ import annotations

import pytest

from demarkus_operator.plan.reach import findings, reachable
from demarkus_operator.plan.reports import Report
from demarkus_operator.processes.readyz import report_of

AWAY = {"store": {"reachable": False, "problem": "403 from the bucket"}}


def test_nothing_is_said_where_no_process_says_anything() -> None:
    assert reachable([]) == ()
    assert reachable([Report(pod="tea-world-0", reached=False, ready=True), report_of("tea-world-1", {})]) == ()


@pytest.mark.parametrize("store", [{"reachable": True}, {"full": False}], ids=["bucket", "volume"])
def test_a_store_that_answers_is_reachable(store: dict[str, bool]) -> None:
    (condition,) = reachable([report_of("tea-world-0", {"ready": True, "store": store})])
    assert (condition.status, condition.reason, condition.message) == (True, "StoreReached", "")


def test_one_process_that_does_not_reach_it_is_named_with_its_words() -> None:
    reports = [report_of("tea-world-0", {"store": {"reachable": True}}), report_of("tea-world-1", AWAY)]
    (condition,) = reachable(reports)
    assert (condition.status, condition.reason) == (False, "StoreUnreachable")
    assert condition.message == "tea-world-1: 403 from the bucket"


def test_a_full_store_is_told() -> None:
    assert findings([report_of("tea-world-0", {"store": {"full": False}})]) == ()
    ((reason, words),) = findings([report_of("tea-world-0", {"store": {"full": True}})])
    assert reason == "StoreFull"
    assert words.startswith("tea-world-0: the store is full")
