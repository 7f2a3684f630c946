"""Which rows of the catalog can hold a text: an index of the runs of three characters in titles and tags.

It only says where to look: a row that it names may lack the text, but no row that has it goes unnamed. So it can hold
little, not even where in a text a run stands, and need not be compared when views are.
"""

import sqlite3
from collections.abc import Sequence

LENGTH = 3
"""Characters of a run. A shorter text can't be looked for in the index."""

MOST_RUNS = 16
"""Of a longer text its beginning has to do."""


def index(rows: sqlite3.Connection, document: int, title: str, tags: str) -> None:
    """Take in the row of a document that is not there; title and tags are those of the catalog."""
    rows.execute("INSERT INTO trigram (rowid, text) VALUES (?, ?)", (document, _text(title, tags)))


def forget(rows: sqlite3.Connection, document: int) -> None:
    """Take out a document's row, if there is one; to be called while the catalog still has it."""
    row = rows.execute("SELECT title, tags FROM catalog WHERE document = ?", (document,)).fetchone()
    if row is not None:
        rows.execute("INSERT INTO trigram (trigram, rowid, text) VALUES ('delete', ?, ?)", (document, _text(*row)))


def candidates(rows: sqlite3.Connection, texts: Sequence[str], *, most: int) -> list[int] | None:
    """The documents, ascending, whose rows can hold any of some texts; None if the index can't tell or they are more.

    Texts are in lower case, as titles and tags of the catalog are.
    """
    found: set[int] = set()
    for text in texts:
        runs = {text[at : at + LENGTH] for at in range(min(len(text) - LENGTH + 1, MOST_RUNS))}
        if not runs or "\0" in text:
            return None
        expression = " AND ".join('"{}"'.format(run.replace('"', '""')) for run in sorted(runs))
        found.update(
            row[0]
            for row in rows.execute("SELECT rowid FROM trigram WHERE trigram MATCH ? LIMIT ?", (expression, most + 1))
        )
        if len(found) > most:
            return None
    return sorted(found)


def _text(title: str, tags: str) -> str:
    # The index would end at the first NUL.
    return f"{title}{tags}".replace("\0", "\n")
