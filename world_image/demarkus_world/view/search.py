"""LOOKUP's two searches (Mark protocol 8.2, 8.4): over the catalog, and over the sections of documents.

`readable` is asked of every row, best first, before the limit counts it: a caller learns nothing of what it may not
read, neither its rows nor their number.
"""

import json
import sqlite3
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any

from demarkus_world.view.catalog import tags_of
from demarkus_world.view.filters import Condition
from demarkus_world.view.paths import ROOT
from demarkus_world.view.words import terms, wanted, words
from mark_protocol.limits import LOOKUP_SNIPPET
from mark_protocol.lookups import Match
from mark_protocol.outline import plain

EVERYTHING = "*"

Readable = Callable[[str], bool]


@dataclass(frozen=True, slots=True, kw_only=True)
class Query:
    """What is looked for: a text, below a canonical path, under conditions, so many rows at most."""

    text: str
    scope: str = ROOT
    conditions: Sequence[Condition] = ()
    limit: int = 10


def search_catalog(rows: sqlite3.Connection, query: Query, readable: Readable) -> list[Match]:
    """Documents by how many of the words equal one of their tags or stand in their title, then importance, then age."""
    text = query.text.strip()
    asked = [] if text == EVERYTHING else list(dict.fromkeys(text.lower().split()))
    hit = "(instr(c.title, ?) > 0 OR instr(c.tags, ?) > 0)"
    score = " + ".join(hit for _ in asked) or "0"
    values: list[Any] = [value for term in asked for value in (term, f"\n{term}\n")]
    below, bounds = _below("d", query.scope)
    where = [*(condition.sql for condition in query.conditions), *below]
    # Without words everything below a path counts: then the path is where to begin.
    tables = "document d CROSS JOIN catalog c" if below else "catalog c CROSS JOIN document d"
    found = rows.execute(
        f"SELECT d.path, c.heading, c.importance, d.metadata, {score} AS score FROM {tables}"
        f" WHERE d.id = c.document AND NOT d.archived {'AND score > 0' if asked else ''}"
        f"{''.join(f' AND {part}' for part in where)}"
        " ORDER BY score DESC, c.importance DESC, c.modified DESC, d.path",
        (*values, *(condition.value for condition in query.conditions), *bounds),
    )
    return _taken(
        (
            Match(path=path, importance=importance, title=title, tags=tags_of(json.loads(metadata)))
            for path, title, importance, metadata, _ in found
        ),
        query,
        readable,
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
    below, bounds = _below("d", query.scope)
    where = [*(condition.sql for condition in query.conditions), *below]
    found = rows.execute(
        "SELECT d.path, c.heading, c.importance, d.metadata, s.anchor, s.heading, s.text,"
        " -bm25(words, 1.0, 2.0, 3.0) * (CASE WHEN s.place < 0 THEN 2.0 ELSE 1.0 END) * (0.3 + 0.7 * c.importance)"
        " * (CASE WHEN instr(d.path, '/journal/') THEN 0.5 ELSE 1.0 END) AS score"
        " FROM words CROSS JOIN section s ON s.id = words.rowid JOIN indexed i ON i.id = s.indexed"
        " JOIN view.document d ON d.path = i.path JOIN view.catalog c ON c.document = d.id"
        " WHERE words MATCH ? AND NOT d.archived AND (s.place < 0 OR s.indexed NOT IN"
        " (SELECT b.indexed FROM words(?) w JOIN section b ON b.id = w.rowid WHERE b.place < 0))"
        f"{''.join(f' AND {part}' for part in where)}"
        " ORDER BY score DESC, d.path, s.anchor",
        (expression, expression, *(condition.value for condition in query.conditions), *bounds),
    )
    return _taken(
        (
            Match(
                path=path,
                importance=importance,
                title=title,
                tags=tags_of(json.loads(metadata)),
                anchor=anchor,
                heading=heading,
                snippet=snippet(text, asked),
            )
            for path, title, importance, metadata, anchor, heading, text, _ in found
        ),
        query,
        readable,
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


def _taken(found: Iterator[Match], query: Query, readable: Readable) -> list[Match]:
    taken: list[Match] = []
    if query.limit < 1:
        return taken
    for match in found:
        if readable(match.path):
            taken.append(match)
            if len(taken) == query.limit:
                break
    return taken


def _below(table: str, scope: str) -> tuple[list[str], list[str]]:
    """The conditions of a scope: the path itself, or what begins with it and a slash."""
    if scope == ROOT:
        return [], []
    # "0" follows "/", so this is a range of the index.
    return [f"({table}.path = ? OR ({table}.path > ? AND {table}.path < ?))"], [scope, f"{scope}/", f"{scope}0"]
