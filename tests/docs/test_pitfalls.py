"""Every known pitfall of other servers and clients is held by a test with its number, or by a decision."""

from __future__ import annotations

import re
from functools import cache
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
DOCS = ROOT / "docs"
NUMBERS = {
    "A": "1 2 3 4 5 7 9 11 13 14 15 16 17 18 19 20 22 23 24 25 26 27 28 30 31 33 35 37 38 39 40 41",
    "C": "2 3 4 6 7 8 10 11 12 13 14 16 17 18 20 21 22 23 25 26 28 30 31 32 34 35 36 37 39 40 41 42 44 45 46 47 49 50",
}
"""The numbers are those of a list kept elsewhere; what is missing is missing there."""

NAMED = re.compile(r"_([ac])_(\d+)(?=_)")


def rows() -> dict[str, tuple[str, str]]:
    """Title and what holds it, by number."""
    table = re.findall(r"^\| ([AC]\d+) \| (.+) \| (.+) \|$", (DOCS / "pitfalls.md").read_text(), re.MULTILINE)
    return {number: (title, held) for number, title, held in table}


@cache
def names_of_tests() -> frozenset[str]:
    """The names of all test functions."""
    files = (ROOT / "tests").rglob("test_*.py")
    return frozenset(
        name for file in files for name in re.findall(r"^ *(?:async )?def (test_\w+)\(", file.read_text(), re.MULTILINE)
    )


def numbers_in(name: str) -> set[str]:
    return {letter.upper() + number for letter, number in NAMED.findall(name)}


def sections() -> dict[str, str]:
    """The decisions by their anchors."""
    parts = re.split(r"^## (.+)$", (DOCS / "decisions.md").read_text(), flags=re.MULTILINE)[1:]
    return {
        re.sub(r"[^\w\- ]", "", heading.lower()).replace(" ", "-"): text
        for heading, text in zip(parts[::2], parts[1::2], strict=True)
    }


def test_every_number_has_a_row() -> None:
    assert list(rows()) == [letter + number for letter, all_of in NUMBERS.items() for number in all_of.split()]


@pytest.mark.parametrize("number", rows())
def test_a_pitfall_is_held_by_tests_with_its_number_or_by_a_decision(number: str) -> None:
    _, held = rows()[number]
    named = re.findall(r"`(test_\w+)`", held)
    decided = re.findall(r"\(decisions\.md#([\w-]+)\)", held)
    assert named or decided
    assert set(named) <= names_of_tests(), "a test of that name is there"
    assert all(number in numbers_in(name) for name in named), "the name has the number"
    for anchor in decided:
        assert f"({number}" in sections()[anchor] or f", {number})" in sections()[anchor], "the decision has the number"


def test_no_test_has_a_number_that_is_none() -> None:
    strange = {name for name in names_of_tests() for number in numbers_in(name) if number not in rows()}
    assert not strange
