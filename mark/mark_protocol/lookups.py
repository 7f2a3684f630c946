"""The answer of LOOKUP: a table of matches, made here and read back here.

Source: Mark protocol 4.7 (body), 3.3 (escaping), 8.4 (anchors).
"""

import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from mark_protocol.listings import ListingError, escape_cell, escape_text, unescape

QUERY = "query"
FILTER = "filter"
LIMIT = "limit"
MATCH = "match"
INCLUDE_SUPERSEDED = "include-superseded"
CATALOG, BODY = "catalog", "body"

_COLUMNS = ("Path", "Importance", "Title", "Tags", "Snippet")
_CELL = re.compile(r"(?:\\.|[^|\\]|\\$)*", re.DOTALL)
_ANCHOR = re.compile(r"((?:\\.|[^#\\])*)#(.*)", re.DOTALL)
_TRAIL = " › "


@dataclass(frozen=True, slots=True, kw_only=True)
class Match:
    """One row. `heading` and `anchor` name the section that matched, and are empty where the document as such did.

    `snippet` is None in catalog mode. Read back, a heading is part of the title.
    """

    path: str
    importance: float
    title: str
    tags: Sequence[str] = ()
    anchor: str = ""
    heading: str = ""
    snippet: str | None = None


def render_matches(query: str, scope: str, matches: Iterable[Match], *, body: bool) -> bytes:
    """The body of an answer to `query` in a canonical scope; `body` asks for the columns of body mode."""
    columns = _COLUMNS if body else _COLUMNS[:-1]
    lines = [
        f'\n# Lookup matches for "{escape_text(query)}" in {escape_text(scope)}\n',
        _line(columns),
        "|" + "|".join("-" * (len(column) + 2) for column in columns) + "|",
        *(_line(_cells(match, body=body)) for match in matches),
    ]
    return ("\n".join(lines) + "\n").encode(errors="surrogateescape")


def _line(cells: Iterable[str]) -> str:
    return "| " + " | ".join(cells) + " |"


def _cells(match: Match, *, body: bool) -> list[str]:
    anchor = f"#{match.anchor}" if match.anchor else ""
    title = match.title + _TRAIL + match.heading if match.heading else match.title
    cells = [
        escape_cell(match.path) + anchor,
        f"{match.importance:.2f}",
        escape_cell(title),
        escape_cell(", ".join(match.tags)),
    ]
    return [*cells, escape_cell(match.snippet or "")] if body else cells


def parse_matches(body: bytes) -> list[Match]:
    """The rows of an answer. Raises ListingError for what is no such table, or has a row that is none."""
    try:
        lines = body.decode().split("\n")
    except UnicodeDecodeError:
        raise ListingError("the matches are not valid UTF-8") from None
    table = [line for line in lines if line.startswith("|")]
    if len(table) < 2:
        raise ListingError("the answer has no table of matches")
    columns = [cell.lower() for cell in _split(table[0])]
    expected = [column.lower() for column in _COLUMNS]
    if columns not in (expected, expected[:-1]):
        raise ListingError(f"the columns of the matches are {', '.join(columns)}")
    return [_match(_split(line), len(columns)) for line in table[2:]]


def _split(line: str) -> list[str]:
    """The cells of a row; an escaped pipe does not end one."""
    cells: list[str] = []
    position = 1
    while position < len(line):
        found = _CELL.match(line, position)
        assert found is not None, "nothing is a cell too"
        cells.append(found[0].strip())
        position = found.end() + 1
    return cells if line.rstrip().endswith("|") else []


def _match(cells: Sequence[str], columns: int) -> Match:
    if len(cells) != columns:
        raise ListingError(f"a row of the matches has {len(cells)} cells, not {columns}")
    anchored = _ANCHOR.fullmatch(cells[0])
    path, anchor = anchored.groups() if anchored else (cells[0], "")
    try:
        importance = float(cells[1])
    except ValueError:
        importance = -1.0
    if not path.startswith("/") or not 0 <= importance <= 1:
        raise ListingError("a row of the matches has no path or no importance")
    return Match(
        path=unescape(path),
        anchor=anchor,
        importance=importance,
        title=unescape(cells[2]),
        tags=tuple(filter(None, unescape(cells[3]).split(", "))),
        snippet=unescape(cells[4]) if columns == len(_COLUMNS) else None,
    )
