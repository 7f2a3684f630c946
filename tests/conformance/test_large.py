"""Mark protocol 4.1.2, 4.2, 4.7: what shows only with more than a thousand documents."""

from __future__ import annotations

from typing import Any

import pytest

from tests.conformance.answers import NOTE, entries, rows
from tests.conformance.server import Server, eventually

rule = pytest.mark.rule

MEBIBYTE = 1 << 20
STARS = "*" * 205
"""Five bytes each in a listing: a thousand names of so many nearly fill a page of a mebibyte."""

BRACKETS = "(" * 240
"""Before the stars in order, and longer: with thirty such names a page is full before its thousandth entry."""


class Crowd:
    """A directory of 1001 documents, and then of thirty more."""

    def __init__(self, server: Server) -> None:
        self.place = server.place()
        self.names = [f"{STARS}{number:04}.md" for number in range(1001)]
        self._server = server
        server.publish_all({f"{self.place}/{name}": b"x" for name in self.names}, tags="crowd")
        self.listed(lambda answer: answer.meta["entries"] == "1000")

    def grow(self) -> None:
        """The thirty more."""
        if len(self.names) == 1001:
            more = [f"{BRACKETS}{number:04}.md" for number in range(30)]
            self._server.publish_all({f"{self.place}/{name}": b"x" for name in more})
            self.names = more + self.names

    def listed(self, holds: Any, **metadata: str) -> Any:
        """A LIST for which something holds: it may lag by a second."""
        return eventually(
            "a listing", lambda: holds(answer := self._server.ask("LIST", self.place, **metadata)) and answer
        )


@pytest.fixture(scope="module")
def crowd(server: Server) -> Crowd:
    """Made once."""
    return Crowd(server)


@rule("4.2", "default-page")
def test_a_page_without_a_size_has_a_thousand_entries(server: Server, crowd: Crowd) -> None:
    first = server.ask("LIST", crowd.place)
    assert entries(first, crowd.place) == crowd.names[:1000]
    assert first.meta["complete"] == "false"
    assert first.text.endswith(NOTE)
    assert server.ask("LIST", crowd.place, page_size="1000").body == first.body
    rest = crowd.listed(lambda answer: answer.meta["entries"] == "1", cursor=first.meta["next-cursor"])
    assert entries(rest, crowd.place) == crowd.names[1000:]
    assert rest.meta["complete"] == "true"


@rule("4.1.2", "at-most-1000")
def test_a_generated_listing_has_a_thousand_entries_and_says_so(server: Server, crowd: Crowd) -> None:
    answer = server.fetch(crowd.place)
    assert answer.body == server.ask("LIST", crowd.place).body
    assert answer.text.endswith(NOTE)
    assert not {"complete", "next-cursor"} & answer.meta.keys()


@rule("4.7", "limit")
def test_a_lookup_has_at_most_a_thousand_rows(server: Server, crowd: Crowd) -> None:
    def found(limit: str) -> int:
        return len(rows(server.ask("LOOKUP", crowd.place, query="crowd", limit=limit), "crowd", crowd.place))

    eventually("a thousand rows", lambda: found("1000") == 1000)
    assert found("5000000") == 1000


@rule("4.2", "byte-limit")
def test_a_page_has_at_most_a_mebibyte(server: Server, crowd: Crowd) -> None:
    crowd.grow()
    first = crowd.listed(lambda answer: entries(answer, crowd.place)[29:30] == crowd.names[29:30])
    shown = entries(first, crowd.place)
    assert len(shown) < 1000
    assert shown == crowd.names[: len(shown)]
    assert first.meta["complete"] == "false"
    # The next entry, with room for the note, would not have fitted.
    entry = len("- []()\n0000.md0000.md") + 5 * len(STARS)
    assert MEBIBYTE - entry - len(NOTE) < len(first.body) <= MEBIBYTE
    rest = server.ask("LIST", crowd.place, cursor=first.meta["next-cursor"])
    assert entries(rest, crowd.place) == crowd.names[len(shown) :]
    assert rest.meta["complete"] == "true"
