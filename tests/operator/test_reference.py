"""The reference page is what the models say."""

from __future__ import annotations

from pathlib import Path

from demarkus_operator.api.reference import rendered

PAGE = Path(__file__).parents[2] / "docs" / "api.md"


def test_checked_in_page_is_what_the_models_say() -> None:
    assert PAGE.read_text() == rendered(), "run `python -m demarkus_operator.api.reference > docs/api.md`"


def test_every_cell_is_on_its_line() -> None:
    rows = [line for line in rendered().splitlines() if line.startswith("|")]
    assert len(rows) > 60
    assert {line.replace("\\|", "").count("|") for line in rows} == {3, 4}
