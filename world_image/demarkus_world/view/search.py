"""LOOKUP's two searches (Mark protocol 8.2, 8.4): over the catalog, and over the sections of documents.

`readable` is asked of every row, best first, before the limit counts it: a caller learns nothing of what it may not
read, neither its rows nor their number.
"""

import json
import sqlite3
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from itertools import islice
from typing import Any

from demarkus_world.policy import PROPOSALS
from demarkus_world.view import trigrams
from demarkus_world.view.catalog import tags_of
from demarkus_world.view.filters import Condition
from demarkus_world.view.paths import ROOT
from demarkus_world.view.words import terms, wanted, words
from mark_protocol.limits import LOOKUP_SNIPPET
from mark_protocol.lookups import Match
from mark_protocol.outline import plain

EVERYTHING = "*"

SUPERSEDED_BY = "superseded-by"
"""The metadata key by which a document says what has replaced it."""

FIRST_PAGE, PAGES_GROW = 64, 8

RANK = "importance DESC, modified DESC, path"
"""The order of documents that have as many of the words."""

FEW = 2000
"""Candidates that are faster looked at one by one than met among all others."""

WALKS = (256, 4096)
"""Rows in the order of their rank among which the best are looked for before all rows are."""

Readable = Callable[[str], bool]


@dataclass(frozen=True, slots=True, kw_only=True)
class Query:
    """What is looked for: a text, below a canonical path, under conditions, so many rows at most.

    What says that another document has replaced it is only found with `superseded`.
    """

    text: str
    scope: str = ROOT
    conditions: Sequence[Condition] = ()
    superseded: bool = False
    limit: int = 10


def search_catalog(rows: sqlite3.Connection, query: Query, readable: Readable) -> list[Match]:
    """Documents by how many of the words equal one of their tags or stand in their title, then importance, then age."""
    text = query.text.strip()
    asked = [] if text == EVERYTHING else list(dict.fromkeys(text.lower().split()))
    with _snapshot(rows):
        return [
            Match(path=path, importance=importance, title=title, tags=_tags(rows, document))
            for document, path, title, importance, _ in _best(rows, query, asked, readable)
        ]


def _best(
    rows: sqlite3.Connection, query: Query, asked: Sequence[str], readable: Readable
) -> Sequence[tuple[Any, ...]]:
    """The rows of the answer. Few candidates are looked at one by one; many of one word are soon met among the first
    of all rows; for what is left all rows are looked at. Whichever way, the answer is the same.
    """
    few = trigrams.candidates(rows, asked, most=FEW) if asked else None
    if few is not None:
        source = "(SELECT catalog.* FROM json_each(?) j CROSS JOIN catalog ON catalog.document = j.value)"
        return _taken(rows, _ranked(rows, *_of_catalog(source, query, asked, json.dumps(few))), query, readable)
    if len(asked) <= 1:
        for many in WALKS:
            source = f"(SELECT * FROM catalog INDEXED BY catalog_by_rank WHERE live ORDER BY {RANK} LIMIT ?)"
            statement, values = _of_catalog(source, query, asked, many)
            found = _taken(rows, rows.execute(statement, values), query, readable)
            if len(found) == query.limit:
                return found
    return _taken(rows, _ranked(rows, *_of_catalog("catalog", query, asked)), query, readable)


def _of_catalog(source: str, query: Query, asked: Sequence[str], *given: object) -> tuple[str, Sequence[Any]]:
    """An ordered SELECT over the catalog, or a part of it, and its values; those of the source are `given`."""
    hit = "(instr(c.title, ?) > 0 OR instr(c.tags, ?) > 0)"
    score = " + ".join(hit for _ in asked) or "0"
    values = [value for term in asked for value in (term, f"\n{term}\n")]
    where, bounds = _where(query)
    return (
        f"SELECT c.document, c.path, c.heading, c.importance, {score} AS score FROM {source} c"
        f" WHERE {'score > 0 AND ' if asked else ''}{where} ORDER BY score DESC, {RANK}",
        (*values, *given, *bounds),
    )


def search_sections(rows: sqlite3.Connection, query: Query, readable: Readable) -> list[Match]:
    """Sections that have every word in their text, their headings or the document's title and tags.

    A document whose title and tags have all of them is one row by itself. `rows` is the index of sections, with the
    catalog beside it. The order is BM25 over text, headings and title, weighted by importance.
    """
    asked = terms(query.text)
    if not asked:
        return []
    expression = wanted(asked)
    where, bounds = _where(query)
    with _snapshot(rows):
        found = _ranked(
            rows,
            "SELECT c.document, c.path, c.heading, c.importance, s.id,"
            " -bm25(words, 1.0, 2.0, 3.0) * (CASE WHEN s.place < 0 THEN 2.0 ELSE 1.0 END) * (0.3 + 0.7 * c.importance)"
            " * (CASE WHEN instr(c.path, '/journal/') THEN 0.5 ELSE 1.0 END) AS score"
            " FROM words CROSS JOIN section s ON s.id = words.rowid CROSS JOIN indexed i ON i.id = s.indexed"
            " CROSS JOIN view.document d ON d.path = i.path CROSS JOIN view.catalog c ON c.document = d.id"
            " WHERE words MATCH ? AND (s.place < 0 OR s.indexed NOT IN"
            " (SELECT b.indexed FROM words(?) w CROSS JOIN section b ON b.id = w.rowid WHERE b.place < 0))"
            f" AND {where} ORDER BY score DESC, c.path, s.anchor",
            (expression, expression, *bounds),
        )
        return [_section_match(rows, row, asked) for row in _taken(rows, found, query, readable)]


def _section_match(rows: sqlite3.Connection, row: tuple[Any, ...], asked: Sequence[str]) -> Match:
    document, path, title, importance, section, _ = row
    anchor, heading, text = rows.execute(
        "SELECT anchor, heading, text FROM section WHERE id = ?", (section,)
    ).fetchone()
    return Match(
        path=path,
        importance=importance,
        title=title,
        tags=_tags(rows, document),
        anchor=anchor,
        heading=heading,
        snippet=snippet(text, asked),
    )


def snippet(text: str, asked: Sequence[str]) -> str:
    """The line of a section's own text that has most of the words, without markup and not too long."""
    best, most = "", 0
    wanted_words = set(asked)
    for line in text.split("\n"):
        seen = plain(line.lstrip("#> \t"))
        hits = len(wanted_words.intersection(words(seen)))
        if hits > most or not best:
            best, most = seen, hits
    data = best.encode()
    if len(data) <= LOOKUP_SNIPPET:
        return best
    return data[: LOOKUP_SNIPPET - 3].decode(errors="ignore") + "..."


@contextmanager
def _snapshot(rows: sqlite3.Connection) -> Iterator[None]:
    """One state of the database for all that is read inside."""
    rows.execute("BEGIN")
    try:
        yield
    finally:
        rows.execute("ROLLBACK")


def _ranked(rows: sqlite3.Connection, statement: str, values: Sequence[Any]) -> Iterator[tuple[Any, ...]]:
    """The rows of an ordered SELECT, a page at a time: nearly always the first one is enough, and then only its few
    rows have to be sorted.
    """
    start, size = 0, FIRST_PAGE
    while True:
        page = rows.execute(f"{statement} LIMIT {size} OFFSET {start}", values).fetchall()
        yield from page
        if len(page) < size:
            return
        start, size = start + size, size * PAGES_GROW


def _taken(
    rows: sqlite3.Connection, found: Iterable[tuple[Any, ...]], query: Query, readable: Readable
) -> list[tuple[Any, ...]]:
    """The first rows that count: documents (a proposal is none yet) that may be read and are still valid.

    The first two columns are the document and its path.
    """
    counting = (
        row
        for row in found
        if not row[1].startswith(f"{PROPOSALS}/")
        and readable(row[1])
        and (query.superseded or not _metadata(rows, row[0]).get(SUPERSEDED_BY, "").strip())
    )
    return list(islice(counting, query.limit))


def _where(query: Query) -> tuple[str, list[Any]]:
    """What holds for every row of an answer, and its values."""
    parts = ["c.live", *(condition.sql for condition in query.conditions)]
    values: list[Any] = [condition.value for condition in query.conditions]
    if query.scope != ROOT:
        # "0" follows "/": the path itself, and what begins with it and a slash.
        parts.append("(c.path = ? OR (c.path > ? AND c.path < ?))")
        values += [query.scope, f"{query.scope}/", f"{query.scope}0"]
    return " AND ".join(parts), values


def _tags(rows: sqlite3.Connection, document: int) -> tuple[str, ...]:
    return tags_of(_metadata(rows, document))


def _metadata(rows: sqlite3.Connection, document: int) -> Mapping[str, str]:
    (metadata,) = rows.execute("SELECT metadata FROM document WHERE id = ?", (document,)).fetchone()
    found: dict[str, str] = json.loads(metadata)
    return found
