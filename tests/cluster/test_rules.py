"""Every rule of the CRDs, asked of the real API server: one object passes, one is refused with a message that helps."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest
import yaml

from demarkus_operator.api.check import KINDS
from demarkus_operator.api.common import Model, model_of
from demarkus_operator.api.rules import Rule
from demarkus_operator.cluster.port import Invalid
from tests.cluster.home import ROOT, Home

CASES: list[dict[str, Any]] = yaml.safe_load((ROOT / "tests" / "operator" / "rule_cases.yaml").read_text())


def rules(model: type[Model]) -> Iterator[Rule]:
    """The rules of a model and of those inside it."""
    yield from model.RULES
    for info in model.model_fields.values():
        if (inner := model_of(info.annotation)) is not None:
            yield from rules(inner)


RULES = {rule.name: rule for model in KINDS.values() for rule in rules(model)}


async def test_every_rule_lets_pass_and_refuses(home: Home) -> None:
    """No operator runs; what passes is stored. Each object is refused by the one rule that it is about."""
    for number, case in enumerate(CASES):
        rule = RULES[case["rule"]]
        if "before" in case:
            await home.api.apply(named(case["before"], number, home.namespace))
        with pytest.raises(Invalid) as refused:
            await home.api.apply(named(case["refused"], number, home.namespace))
        assert rule.message in " ".join(str(refused.value).split()), rule.name
        assert str(refused.value).count("Invalid value") == 1, f"{rule.name} is not the only one: {refused.value}"
        await home.api.apply(named(case["accepted"], number, home.namespace))


def named(manifest: dict[str, Any], number: int, namespace: str) -> dict[str, Any]:
    """The object by a name of its own, unless its name is what the case is about."""
    name = manifest["metadata"]["name"]
    name = f"case-{number}" if name in ("tea", "acme") else name
    return {**manifest, "metadata": {"name": name, "namespace": namespace}}


def test_every_rule_has_a_case() -> None:
    assert {case["rule"] for case in CASES} == set(RULES)
