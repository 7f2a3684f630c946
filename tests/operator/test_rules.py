"""Every rule refuses what it should, with a message that helps, and nothing else."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import yaml

from demarkus_operator.api.check import KINDS, problems
from demarkus_operator.api.common import Model, model_of
from demarkus_operator.api.rules import Rule

CASES: list[dict[str, Any]] = yaml.safe_load((Path(__file__).parent / "rule_cases.yaml").read_text())


def _rules(model: type[Model]) -> Iterator[Rule]:
    yield from model.RULES
    for info in model.model_fields.values():
        if (inner := model_of(info.annotation)) is not None:
            yield from _rules(inner)


RULES = {rule.name: rule for model in KINDS.values() for rule in _rules(model)}


def test_every_rule_has_a_case_and_every_case_a_rule() -> None:
    assert {case["rule"] for case in CASES} == set(RULES)


@pytest.mark.parametrize("case", CASES, ids=lambda case: case["rule"])
def test_rule_lets_pass_and_refuses(case: dict[str, Any]) -> None:
    before = case.get("before")
    assert problems(case["accepted"], before) == ()
    assert [problem.message for problem in problems(case["refused"], before)] == [RULES[case["rule"]].message]


@pytest.mark.parametrize("case", [case for case in CASES if "before" in case], ids=lambda case: case["rule"])
def test_rule_about_changes_is_not_asked_at_creation(case: dict[str, Any]) -> None:
    assert RULES[case["rule"]].about_change
    assert problems(case["refused"]) == ()


@pytest.mark.parametrize("rule", RULES.values(), ids=lambda rule: rule.name)
def test_message_fits_into_one_line(rule: Rule) -> None:
    assert 20 < len(rule.message) < 300
    assert "\n" not in rule.message
