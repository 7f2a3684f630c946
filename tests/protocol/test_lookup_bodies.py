"""The table of matches, read and written (Mark protocol 4.7)."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from mark_protocol.listings import ListingError
from mark_protocol.lookups import Match, parse_matches, render_matches

TEA = Match(path="/notes/tea.md", importance=0.8, title="Tea", tags=("drinks", "kitchen"))
HEAD = "| Path | Importance | Title | Tags |\n|------|------------|-------|------|\n"


def test_the_recorded_answers_are_written_and_read() -> None:
    catalog = render_matches("kitchen", "/notes", [TEA], body=False)
    assert catalog.decode() == (
        '\n# Lookup matches for "kitchen" in /notes\n\n'
        "| Path | Importance | Title | Tags |\n"
        "|------|------------|-------|------|\n"
        "| /notes/tea.md | 0.80 | Tea | drinks, kitchen |\n"
    )
    assert parse_matches(catalog) == [TEA]
    section = Match(
        path="/notes/tea.md",
        importance=0.8,
        title="Tea",
        tags=("drinks", "kitchen"),
        anchor="black",
        heading="Black",
        snippet="Steep four minutes.",
    )
    body = render_matches("steep", "/", [section], body=True)
    assert body.decode() == (
        '\n# Lookup matches for "steep" in /\n\n'
        "| Path | Importance | Title | Tags | Snippet |\n"
        "|------|------------|-------|------|---------|\n"
        "| /notes/tea.md#black | 0.80 | Tea › Black | drinks, kitchen | Steep four minutes. |\n"
    )
    [read] = parse_matches(body)
    assert (read.anchor, read.title, read.snippet) == ("black", "Tea › Black", "Steep four minutes.")


def test_no_match_is_the_head_alone() -> None:
    body = render_matches("a_b", "/c*d", [], body=False)
    assert body.decode() == '\n# Lookup matches for "a\\_b" in /c\\*d\n\n' + HEAD
    assert parse_matches(body) == []


def test_empty_cells_leave_two_spaces() -> None:
    bare = Match(path="/a.md", importance=0.5, title="A", snippet="")
    assert render_matches("a", "/", [bare], body=True).endswith(b"| /a.md | 0.50 | A |  |  |\n")


@pytest.mark.parametrize(("importance", "shown"), [(0.125, "0.12"), (0.375, "0.38"), (0.0, "0.00"), (1.0, "1.00")])
def test_a_35_importance_is_rounded_half_to_even(importance: float, shown: str) -> None:
    row = Match(path="/a.md", importance=importance, title="A")
    assert f"| {shown} |".encode() in render_matches("a", "/", [row], body=False)


def test_a_30_markup_tabs_and_breaks_do_not_break_a_row() -> None:
    odd = Match(path="/a|b#c\t.md", importance=1.0, title="x | y\r\nz \\", tags=("a_b", "[c]"))
    body = render_matches("q", "/", [odd], body=False)
    assert body.endswith(b"| /a\\|b\\#c\t.md | 1.00 | x \\| y z \\\\ | a\\_b, \\[c\\] |\n")
    assert parse_matches(body) == [Match(path="/a|b#c\t.md", importance=1.0, title="x | y z \\", tags=("a_b", "[c]"))]


printable = st.text(st.characters(exclude_categories=["Cs", "Cc", "Zs", "Zl", "Zp"]), min_size=1, max_size=20)


@given(printable, printable, st.lists(printable.filter(lambda tag: "," not in tag), max_size=3))
def test_what_is_written_is_read_back(name: str, title: str, tags: list[str]) -> None:
    row = Match(path=f"/{name}", importance=0.5, title=title, tags=tuple(tags))
    assert parse_matches(render_matches("q", "/", [row], body=False)) == [row]


@pytest.mark.parametrize(
    "body",
    [
        b"",
        b"# Something else\n",
        b"| Path | Title |\n|---|---|\n",
        HEAD.encode() + b"| /a.md | 0.5 | A |\n",
        HEAD.encode() + b"| /a.md | 0.5 | A | b | c |\n",
        HEAD.encode() + b"| a.md | 0.5 | A | b |\n",
        HEAD.encode() + b"| /a.md | 1.5 | A | b |\n",
        HEAD.encode() + b"| /a.md | much | A | b |\n",
        HEAD.encode() + b"| /a.md | nan | A | b |\n",
        HEAD.encode() + b"| /a.md | 0.5 | A | b\n",
        HEAD.encode() + b"\xff",
    ],
)
def test_what_is_no_table_of_matches_is_refused(body: bytes) -> None:
    with pytest.raises(ListingError):
        parse_matches(body)


def test_columns_are_named_in_any_case() -> None:
    assert parse_matches(b"| PATH | importance | Title | tags |\n|-|-|-|-|\n| /a.md | 1 | A |  |\n") == [
        Match(path="/a.md", importance=1.0, title="A")
    ]
