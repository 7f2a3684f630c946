"""Generated bodies: escaping, pages, histories, conflicts, cursors."""

import json
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from mark_protocol import limits
from mark_protocol.cursors import CursorError, decode_cursor, encode_cursor
from mark_protocol.listings import (
    Child,
    ListingError,
    VersionLine,
    conflict_body,
    escape_cell,
    escape_link,
    escape_text,
    parse_list,
    parse_versions,
    render_list,
    render_versions,
    unescape,
)

GOLDEN = Path(__file__).parent.parent / "interop" / "golden"


def recorded_body(name: str) -> bytes:
    exchanges: list[dict[str, Any]] = [
        json.loads(line) for line in (GOLDEN / "documents.jsonl").read_text().splitlines()
    ]
    answer = next(exchange["response_hex"] for exchange in exchanges if exchange["name"] == name)
    return bytes.fromhex(answer).split(b"\n---\n", 1)[1]


def test_text_escapes() -> None:
    assert escape_text(r"\[]()*_`~#|a.-<>!&") == r"\\\[\]\(\)\*\_\`\~\#\|a.-<>!&"
    assert escape_cell("a\r\nb\rc\nd|e") == r"a b c d\|e"
    assert escape_link("/a b/\u00e9(1)[2]!$&+-.:=@_~") == "%2Fa%20b%2F%C3%A9%281%29%5B2%5D%21$&+-.:=@_~"


def test_unescape_drops_only_backslashes_of_escapes() -> None:
    assert unescape(r"\\ \a \[ \.") == r"\ \a [ \."


@given(st.text())
def test_escaped_text_reads_back(text: str) -> None:
    assert unescape(escape_text(text)) == text


def test_names_of_the_recorded_listing() -> None:
    body = recorded_body("names-list")
    children = parse_list(body)
    assert [child.name for child in children][:4] == ["a b.md", "back\\slash.md", "brackets[1].md", "caf\u00e9.md"]
    assert render_list("/names", children).body == body


def test_history_of_the_recording() -> None:
    for name, path in (("versions", "/notes/tea.md"), ("names-versions", "/names/brackets[1].md")):
        body = recorded_body(name)
        assert render_versions(path, parse_versions(body)) == body


def test_tab_in_a_name() -> None:  # A30
    page = render_list("/", [Child("a\tb.md")])
    assert page.body == b"\n# Index of /\n\n- [a\tb.md](a%09b.md)\n"
    assert parse_list(page.body) == [Child("a\tb.md")]


def test_empty_directory() -> None:
    page = render_list("/", [])
    assert (page.body, page.complete, page.children) == (b"\n# Index of /\n\n", True, ())


def test_page_ends_at_its_size_only_when_more_follows() -> None:
    children = [Child("a.md"), Child("b.md")]
    assert render_list("/", children, page_size=2).complete
    page = render_list("/", children, page_size=1)
    assert page.body.endswith(b"- [a.md](a.md)\n\n*...truncated, too many entries*\n")
    assert (page.complete, page.children) == (False, (Child("a.md"),))


def test_page_is_taken_lazily() -> None:
    taken: list[int] = []

    def children() -> Any:
        for index in range(100):
            taken.append(index)
            yield Child(f"{index:03}.md")

    render_list("/", children(), page_size=10)
    assert len(taken) == 11


def test_page_body_stays_within_a_mebibyte() -> None:
    children = [Child(f"{index:04}" + "\U0001f600" * 62) for index in range(2000)]
    page = render_list("/" + "d" * 800, children, page_size=2000)
    assert not page.complete
    longest_line = len(f"- [{children[0].name}]({escape_link(children[0].name)})\n".encode())
    assert limits.LIST_BODY - longest_line < len(page.body) <= limits.LIST_BODY
    assert parse_list(page.body) == list(page.children)


names = st.text(alphabet=st.characters(exclude_categories=["Cs", "Cc"], exclude_characters="/"), min_size=1).filter(
    lambda name: name not in (".", "..")
)


@given(st.lists(st.builds(Child, names, st.booleans()), max_size=5))
def test_listing_reads_back(children: list[Child]) -> None:
    assert parse_list(render_list("/a", children).body) == children


@pytest.mark.parametrize("target", ["a%2Fb.md", "../a.md", "..", "/a.md", "", "/"])
def test_link_that_names_no_child_is_an_error(target: str) -> None:
    with pytest.raises(ListingError):
        parse_list(f"\n# Index of /\n\n- [x]({target})\n".encode())


def test_listing_that_is_no_text_is_an_error() -> None:
    with pytest.raises(ListingError):
        parse_list(b"\xff")


def test_history_lines() -> None:
    lines = [VersionLine(2, "2026-11-30T09:05:00Z"), VersionLine(1, "2026-11-30T09:00:00Z")]
    body = render_versions("/a_b.md", lines)
    assert body.startswith(b"\n# Version History: /a\\_b.md\n\n- [v2](%2Fa_b.md/v2) - 2026-11-30T09:05:00Z\n")
    assert parse_versions(body) == lines


def test_conflicts() -> None:
    assert conflict_body(0, 4) == (
        b"# Version Conflict\n\nA document already exists at this path (version 4).\n\n"
        b"Fetch the current version and publish with the correct expected-version to update it.\n"
    )
    assert conflict_body(1, 3).endswith(
        b"\n\nYour version: 1\nServer version: 3\n\nPlease fetch the latest version and reapply your edits.\n"
    )
    assert conflict_body(1, 3, append=True).endswith(
        b"\n\nFetch the latest version and verify whether your append was applied before retrying.\n"
    )


def cursor_refusal(cursor: str, directory: str = "/notes", *, include_archived: bool = False) -> str:
    with pytest.raises(CursorError) as caught:
        decode_cursor(cursor, directory, include_archived=include_archived)
    return str(caught.value)


CUPS = "AQAABi9ub3Rlc2N1cHMubWQ"


def test_faulty_cursors() -> None:
    for broken in (
        "",
        "A",
        "AQ",
        "AQAABi9ub3Rlcw",
        "AQAA",
        CUPS + "=",
        CUPS + "!",
        "AQAABi9ub3Rlc_8",
        "a/b+",
        "\u00e9\u00e9",
    ):
        assert cursor_refusal(broken) == "invalid LIST cursor"
    assert cursor_refusal("A" * 20_000) == "LIST cursor exceeds limit"
    assert cursor_refusal("Ag" + CUPS[2:]) == "unsupported LIST cursor"
    assert cursor_refusal("AQI" + CUPS[3:]) == "unsupported LIST cursor"


def test_cursor_of_another_listing() -> None:
    assert cursor_refusal(CUPS, "/other") == "LIST cursor does not match this request"
    assert cursor_refusal(CUPS, include_archived=True) == "LIST cursor does not match this request"


@given(names, st.booleans())
def test_cursor_reads_back(name: str, include_archived: bool) -> None:
    cursor = encode_cursor("/a/b", name, include_archived=include_archived)
    assert decode_cursor(cursor, "/a/b", include_archived=include_archived) == name


@given(st.text(max_size=40) | st.text(alphabet="AQBi9ub3Rlc2N1cHMubWQ-_=", max_size=40))
def test_any_text_is_a_cursor_or_a_cursor_error(cursor: str) -> None:
    try:
        decode_cursor(cursor, "/notes", include_archived=False)
    except CursorError:
        return
