"""Headings, anchors and sections; CommonMark's reference in Python has the last word on what a heading is."""

from itertools import pairwise

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from markdown_it import MarkdownIt

from mark_protocol.outline import anchor, first_title, headings, plain, sections

COMMONMARK = MarkdownIt("commonmark")


def reference(text: str) -> list[tuple[int, str]]:
    """Level and visible text of the document's own headings."""
    tokens = COMMONMARK.parse(text)
    found = []
    for opening, inline in pairwise(tokens):
        if opening.type == "heading_open" and opening.level == 0:
            seen = "".join(
                " " if child.type in ("softbreak", "hardbreak") else child.content
                for child in inline.children or []
                if child.type in ("text", "code_inline", "softbreak", "hardbreak", "image", "text_special")
            )
            if seen.strip():
                found.append((int(opening.tag[1]), " ".join(seen.split())))
    return found


def ours(text: str) -> list[tuple[int, str]]:
    return [(heading.level, heading.text) for heading in headings(text.encode())]


DOCUMENTS = [
    "# One\n\n## Two ##\n\nText\n\nThree\n=====\n\nFour\n---\n",
    "#\n\n## \n\n### ###\n\n#hash\n\n####### seven\n",
    "    # indented code\n\n\t# tab\n\n   # three spaces\n",
    "```\n# in a fence\n```\n\n~~~~ python\n# other\n~~~\n# still\n~~~~\n# out\n",
    "``` not`a fence\n# heading\n",
    "para\n# interrupts\nmore\nlines\n===\n",
    "para\n    continued\n---\n",
    "- item\n---\n\n- # in a list\n\n  ## too\n\n# out\n",
    "- a\n\n  Title\n  ===\n\nOut\n===\n",
    "1. one\n   ```\n   # code in a list\n   ```\n2. two\n\n# after\n",
    "> # quoted\n> text\nlazy\n---\n\n# after\n",
    "> text\nlazy\n# not lazy\n",
    "<!-- comment\n# hidden\n-->\n# seen\n",
    "<div>\n# in html\n\n# after\n",
    "<pre>\n\n# hidden\n\n</pre>\n# seen\n",
    "***\n\n* * *\n\n---\n\n# x\n",
    "text\n***\ntext\n---\n",
    "# `code` and *em* and **strong** and [link](http://x.y/z) and ![alt](i.png)\n",
    "# a_b_c and _em_ and \\*not\\* &amp; <b>bold</b> <http://a.b>\n",
    "# `` a`b `` `*x*`\n",
    "Multi\nline\nheading\n===\n",
    "- a\n- b\nlazy text\n===\n",
    "10) ten\n\n   # inside? \n\ntext\n2. not a list\n===\n",
    "# a\r\n\r\nb\r\n===\r\n",
    "---\ntitle: x\n---\n# body\n",
    "* a\n\n\n  b\n# c\n",
    "",
]


@pytest.mark.parametrize("text", DOCUMENTS)
def test_c_47_headings_are_those_of_commonmark(text: str) -> None:
    assert ours(text) == reference(text)


LINES = st.sampled_from(
    ["", "# h", "## h2 ##", "text", "===", "---", "```", "~~~", "    code", "- item", "  inside", "> quote", "1. one",
     "* * *", "   # near", "<!-- c", "-->", "<div>", "\ttab", "# `c` *e*", "  ===", "  ```", "- ```", "-"]
)  # fmt: skip


@settings(max_examples=300, deadline=None)
@given(st.lists(LINES, max_size=8))
def test_headings_are_those_of_commonmark_in_any_order_of_lines(lines: list[str]) -> None:
    text = "\n".join(lines)
    assert ours(text) == reference(text), text


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("Plain Words", "plain-words"),
        ("It's 100% _fun_ (really)!", "its-100-_fun_-really"),
        ("Ünïcode Straße 東京", "ünïcode-straße-東京"),
        ("a  b\tc", "a--b-c"),
        ("—", ""),
    ],
)
def test_an_anchor_keeps_letters_numbers_and_dashes(text: str, expected: str) -> None:
    assert anchor(text) == expected


def test_c_47_anchors_of_duplicates_count_as_taken() -> None:
    body = b"# Notes\n\n# Notes\n\n# Notes-1\n\nNotes\n---\n"
    assert [section.anchor for section in sections(body)] == ["notes", "notes-1", "notes-1-1", "notes-2"]


def test_sections_are_own_text_with_the_trail_of_headings() -> None:
    body = b"lead\n\n# A\na text\n## B\nb text\n### C\nc text\n## D\n# E\ne text"
    assert [(s.anchor, s.heading, s.trail, s.text) for s in sections(body)] == [
        ("", "", (), "lead\n"),
        ("a", "A", ("A",), "# A\na text"),
        ("b", "B", ("A", "B"), "## B\nb text"),
        ("c", "C", ("A", "B", "C"), "### C\nc text"),
        ("d", "D", ("A", "D"), "## D"),
        ("e", "E", ("E",), "# E\ne text"),
    ]
    assert [s.text for s in sections(b"no heading at all")] == ["no heading at all"]
    assert sections(b"\n \n") == []


@pytest.mark.parametrize(
    ("body", "title"),
    [
        (b"# First\n\n# Second\n", "First"),
        (b"## Two\n\n# One #\n", "One"),
        (b"```\n# a comment\n```\n\n    # code\n\n   # Real\n", "Real"),
        (b"Setext\n===\n", ""),
        (b"#\n\n# \xff\n", "�"),
        (b"", ""),
    ],
)
def test_c_46_the_title_is_the_first_level_1_heading_outside_code(body: bytes, title: str) -> None:
    assert first_title(body) == title


def test_markup_is_stripped() -> None:
    assert plain('**a** [b](c "d") `e` &lt; <i>f</i>') == "a b e < f"


@pytest.mark.parametrize(
    ("text", "seen"),
    [
        ("\U000f0003 `\U000f0000` \\!", "\U000f0003 \U000f0000 !"),
        (r"<http://host/a\_b>", "http://host/a_b"),
        ("&#xF0000; `code`", "\U000f0000 code"),
    ],
)
def test_text_that_looks_like_what_stands_for_text_is_kept(text: str, seen: str) -> None:
    assert plain(text) == seen


def test_a_heading_of_any_length_has_a_text() -> None:
    (heading,) = headings(b"# " + rb"\!" * 140_000 + b"\n")
    assert heading.text.startswith("!!!")
