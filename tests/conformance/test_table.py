"""The suite itself: every rule has a test, every test a rule, and nothing here knows whose server it asks."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from pathlib import Path

import pytest
import yaml

from tests.conformance.conftest import RULES, table

HERE = Path(__file__).parent
ROOT = HERE.parents[1]
KNOWS_OURS = "own.py"
STATUSES = (
    "ok created not-modified not-found archived unauthorized not-permitted conflict bad-request server-error "
    "rate-limited resync closing"
)


def rules() -> dict[tuple[str, str], str | dict[str, str]]:
    found = yaml.safe_load(RULES.read_text(encoding="utf-8"))
    return {(section, name): text for section, names in found.items() for name, text in names.items()}


def checked() -> Iterator[tuple[str, str]]:
    """The rules that tests name."""
    for path in HERE.glob("test_*.py"):
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
            if isinstance(node, ast.Call) and isinstance(node.func, ast.Name) and node.func.id == "rule":
                section, name = (ast.literal_eval(argument) for argument in node.args)
                yield section, name


def test_every_rule_has_a_test_or_says_why_not() -> None:
    seen = {key for key, text in rules().items() if isinstance(text, str)}
    assert set(checked()) == seen


def test_a_rule_that_nobody_sees_from_outside_names_where_it_is_tested() -> None:
    for text in rules().values():
        if isinstance(text, dict):
            assert set(text) == {"rule", "unseen", "tested"}
            assert (ROOT / text["tested"]).exists(), text["tested"]


def test_every_status_has_a_rule() -> None:
    assert {name for section, name in rules() if section == "5"} == set(STATUSES.split())


def test_every_test_of_a_server_names_a_rule() -> None:
    without = []
    for path in HERE.glob("test_*.py"):
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
            if not isinstance(node, ast.FunctionDef) or not node.name.startswith("test_"):
                continue
            asks = any(argument.arg in ("server", "watch") for argument in node.args.args)
            names = "rule(" in "".join(ast.unparse(decorator) for decorator in node.decorator_list)
            if asks and not names:
                without.append(f"{path.name}: {node.name}")
    assert without == []


@pytest.mark.parametrize("path", sorted(HERE.glob("*.py")), ids=lambda path: path.name)
def test_the_suite_reads_the_protocol_for_itself(path: Path) -> None:
    """Whatever this project's own code believes of the protocol stays out of it."""
    modules = set()
    for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
        if isinstance(node, ast.Import):
            modules |= {alias.name for alias in node.names}
        elif isinstance(node, ast.ImportFrom) and node.module:
            modules.add(node.module)
    ours = {module for module in modules if module.startswith(("mark_protocol", "demarkus"))}
    assert path.name == KNOWS_OURS or not ours
    assert not {module for module in modules if module.startswith("tests.") and ".conformance" not in module}


def test_the_closing_table_names_what_failed() -> None:
    lines = table({("other", "2.3", "raw-bytes"): {"passed", "failed"}, ("other", "2.3", "ignored"): {"skipped"}})
    assert any(line.split()[:4] == ["2.3", "2", "0", "1"] for line in lines)
    assert {"failed: raw-bytes", "skipped: ignored"} <= {line.strip() for line in lines}
