"""The merge patch of a status, and what a failure leaves of it."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from demarkus_operator.api.conditions import Reason
from demarkus_operator.reconcile import status
from tests.reconcile.acme import a_world
from tests.reconcile.memory import merge

NOW = datetime(2026, 12, 1, tzinfo=UTC)


@pytest.mark.parametrize(
    ("before", "after", "patch"),
    [
        ({"a": 1}, {"a": 1}, {}),
        ({"a": 1}, {"a": 2}, {"a": 2}),
        ({"a": 1, "b": 2}, {"a": 1}, {"b": None}),
        ({}, {"a": {"b": 1}}, {"a": {"b": 1}}),
        ({"a": {"b": 1, "c": 2}}, {"a": {"b": 1}}, {"a": {"c": None}}),
        ({"a": [1]}, {"a": [1, 2]}, {"a": [1, 2]}),
    ],
)
def test_patch_says_only_what_changes(before: Any, after: Any, patch: Any) -> None:
    assert status.change(before, after) == patch


_values = st.recursive(
    st.integers(0, 3) | st.lists(st.integers(0, 2)), lambda v: st.dictionaries(st.sampled_from("abc"), v)
)
_maps = st.dictionaries(st.sampled_from("abc"), _values)


@settings(deadline=None)
@given(_maps, _maps)
def test_patch_leads_from_one_to_the_other(before: dict[str, Any], after: dict[str, Any]) -> None:
    assert merge(before, status.change(before, after)) == after
    assert status.change(after, after) == {}


def a_subject(**fields: Any) -> dict[str, Any]:
    world = a_world()
    return {**world, "metadata": {**world["metadata"], "generation": 3}, **fields}


def test_a_failure_before_any_plan_keeps_what_was_known() -> None:
    before = {"history": "a" * 32, "conditions": [{"type": "Ready", "status": "True", "reason": "Serving"}]}
    after = status.failed(a_subject(status=before), None, Reason.REFUSED, "no rights", now=NOW)
    ready, reconciled = after["conditions"]
    assert after["history"] == "a" * 32
    assert (ready["status"], ready["reason"]) == ("True", "Serving")
    assert (reconciled["status"], reconciled["reason"], reconciled["message"]) == ("False", "Refused", "no rights")
    assert reconciled["observedGeneration"] == 3


def test_an_object_that_never_was_ready_says_why() -> None:
    after = status.failed(a_subject(), None, Reason.REFUSED, "no rights", now=NOW)
    assert [(c["type"], c["status"], c["reason"]) for c in after["conditions"]] == [
        ("Ready", "False", "Refused"),
        ("Reconciled", "False", "Refused"),
    ]


def test_messages_are_bounded() -> None:
    after = status.failed(a_subject(), None, Reason.REFUSED, "x" * 100_000, now=NOW)
    assert all(len(c["message"]) <= status.LONGEST_MESSAGE for c in after["conditions"])
