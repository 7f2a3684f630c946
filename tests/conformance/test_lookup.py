"""Mark protocol 4.7 and 8: LOOKUP, the catalog, body search."""

from __future__ import annotations

import pytest

from tests.conformance.answers import Answer, Row, rows
from tests.conformance.server import Server, eventually

rule = pytest.mark.rule


def found(server: Server, scope: str, query: str, **metadata: str) -> list[Row]:
    """The rows of a LOOKUP that has to succeed."""
    return rows(server.ask("LOOKUP", scope, query=query, **metadata), query.strip(), scope)


def names(server: Server, scope: str, query: str, **metadata: str) -> list[str]:
    """The paths of the rows, below the scope, with their anchors."""
    return [
        row.path.removeprefix(scope + "/") + ("#" + row.anchor if row.anchor else "")
        for row in found(server, scope, query, **metadata)
    ]


def settle(server: Server, scope: str, count: int) -> None:
    """Waits until the catalog has so many documents of a folder: it may lag by a second."""
    eventually(f"{count} rows", lambda: len(found(server, scope, "*", limit="1000")) == count)


def message(server: Server, scope: str, **metadata: str) -> str:
    """The message of a LOOKUP that has to be refused for its parameters."""
    answer = server.ask("LOOKUP", scope, **metadata)
    assert answer.status == "bad-request", answer
    return answer.message


def body_search(server: Server, scope: str, query: str, **metadata: str) -> Answer:
    """A search in bodies, once the server has looked into all of them; where it never does, the test is skipped."""
    answer = server.ask("LOOKUP", scope, query=query, match="body", **metadata)
    assert answer.status == "ok", answer
    if answer.meta["match"] == "catalog" and not server.profile.ours:
        server.cannot("the server does not search in bodies")
    answer = eventually(
        "a search in bodies",
        lambda: (
            (answer := server.ask("LOOKUP", scope, query=query, match="body", **metadata)).meta["match"] == "body"
            and answer
        ),
    )
    assert isinstance(answer, Answer)
    return answer


def sections(server: Server, scope: str, query: str, **metadata: str) -> list[str]:
    """The rows of a search in bodies, below the scope, in an order that does not matter."""
    found = rows(body_search(server, scope, query, **metadata), query.strip(), scope)
    return sorted(row.path.removeprefix(scope + "/") + ("#" + row.anchor if row.anchor else "") for row in found)


class TestForm:
    @rule("4.7", "form")
    def test_heading_table_and_count(self, server: Server, place: str) -> None:
        server.publish(f"{place}/tea.md", b"# Tea\n", tags="drinks, kitchen", importance="0.8")
        server.publish(f"{place}/pot.md", b"# Pot\n", tags="kitchen")
        settle(server, place, 2)
        answer = server.ask("LOOKUP", f"{place}/", query="  kitchen ")
        scope = place.replace("_", "\\_")
        table = (
            f'\n# Lookup matches for "kitchen" in {scope}\n\n'
            "| Path | Importance | Title | Tags |\n|------|------------|-------|------|\n"
            f"| {scope}/tea.md | 0.80 | Tea | drinks, kitchen |\n| {scope}/pot.md | 0.50 | Pot | kitchen |\n"
        )
        assert answer.text in (table, table.removeprefix("\n"))
        assert answer.meta == {"matches": "2"}
        assert server.ask("LOOKUP", place, query="kitchen").body == answer.body

    @rule("4.7", "no-match")
    def test_no_match_is_an_empty_table(self, server: Server, place: str) -> None:
        server.publish(f"{place}/tea.md")
        settle(server, place, 1)
        answer = server.ask("LOOKUP", place, query="nothing*")
        assert answer.raw.startswith(b'---\nmatches: "0"\nstatus: ok\n---\n')
        assert rows(answer, "nothing*", place) == []

    @rule("4.7", "form")
    def test_empty_cells_leave_two_blanks(self, server: Server, place: str) -> None:
        server.publish(f"{place}/tea.md", b"# Tea\n")
        settle(server, place, 1)
        assert "/tea.md | 0.50 | Tea |  |\n" in server.ask("LOOKUP", place, query="tea").text

    @rule("4.7", "query")
    @pytest.mark.parametrize("query", ["", " ", "a", " a ", "é", "? "])
    def test_a_query_has_two_characters(self, server: Server, place: str, query: str) -> None:
        assert message(server, place, query=query) == "query must be at least 2 characters"

    @rule("4.7", "query")
    def test_a_star_alone_is_a_query(self, server: Server, place: str) -> None:
        server.publish(f"{place}/tea.md")
        settle(server, place, 1)
        answer = server.ask("LOOKUP", place, query=" * ")
        assert answer.status in ("ok", "bad-request")
        server.reads("yes" if answer.status == "ok" else "no", of="16: `*` alone finds everything")
        assert server.ask("LOOKUP", place).message == "query must be at least 2 characters"

    @rule("4.7", "terms")
    def test_at_most_32_terms(self, server: Server, place: str) -> None:
        server.publish(f"{place}/tea.md")
        settle(server, place, 1)
        words = [f"word{number}" for number in range(33)]
        assert server.ask("LOOKUP", place, query=" ".join(words[:32] * 3)).status == "ok"
        assert message(server, place, query=" ".join(words)) == "query has too many terms: 33 > 32"
        assert server.ask("LOOKUP", place, query=" ".join(["tea", "TEA", "Tea"] * 20)).status == "ok"

    @rule("4.7", "limit")
    def test_limits(self, server: Server, place: str) -> None:
        server.publish_all({f"{place}/{number:02}.md": b"# Tea\n" for number in range(12)})
        settle(server, place, 12)
        assert len(found(server, place, "tea")) == 10
        assert len(found(server, place, "tea", limit="")) == 10
        assert len(found(server, place, "tea", limit="11")) == 11
        assert len(found(server, place, "*", limit="3")) == 3
        assert len(found(server, place, "tea", limit="1001")) == 12
        for limit in ("0", "-1", "x", "1.5", " 1"):
            assert message(server, place, query="tea", limit=limit) == "invalid limit"

    @rule("4.7", "match")
    def test_match_comes_back_where_it_was_sent(self, server: Server, place: str) -> None:
        server.publish(f"{place}/tea.md")
        settle(server, place, 1)
        assert "match" not in server.ask("LOOKUP", place, query="tea").meta
        for match in ("", "catalog"):
            assert server.ask("LOOKUP", place, query="tea", match=match).meta == {"matches": "1", "match": "catalog"}
        for match in ("Body", "x", "catalog "):
            expected = f'match must be "catalog" or "body", got "{match}"'
            assert message(server, place, query="tea", match=match) == expected

    @rule("4.7", "scope")
    def test_a_scope_is_a_directory(self, server: Server, place: str) -> None:
        server.publish(f"{place}/tea.md")
        settle(server, place, 1)
        for path in (f"{place}/tea.md", f"{place}/none", f"{place}/te"):
            answer = server.ask("LOOKUP", path, query="tea")
            assert (answer.status, answer.message) == ("not-found", f"{path} not found")
        if server.profile.reads == "public":
            assert server.ask("LOOKUP", "/", query="nothing at all").status == "ok"

    @rule("4.7", "check-order")
    def test_parameters_are_looked_at_one_after_the_other(self, server: Server, place: str) -> None:
        bad = {"query": "a", "limit": "0", "filter": "x", "match": "x"}
        assert message(server, place, **bad) == "query must be at least 2 characters"
        bad["query"] = " ".join(f"w{number}" for number in range(40))
        assert message(server, place, **bad) == "query has too many terms: 40 > 32"
        bad["query"] = "tea"
        assert message(server, place, **bad) == "invalid limit"
        del bad["limit"]
        assert message(server, place, **bad) == 'malformed filter clause "x"'
        del bad["filter"]
        assert message(server, place, **bad) == 'match must be "catalog" or "body", got "x"'
        assert server.ask("LOOKUP", place, query="tea").status == "not-found"

    @rule("4.7", "rows-authorised")
    def test_rows_are_filtered_before_they_are_counted(self, server: Server) -> None:
        if server.profile.reads != "public":
            server.cannot("where every read needs a token, no row is open beside private ones")
        word = f"word{server.run}"
        secret, place = server.place("vault"), server.place()
        for number in range(4):
            server.publish(f"{secret}/{number}.md", role="vault", tags=word, importance="1")
            server.publish(f"{place}/{number}.md", tags=word, importance="0.1")
        base = server.profile.base

        def paths(role: str, limit: str) -> list[str]:
            return [row.path for row in found(server, base, word, role=role, limit=limit)]

        eventually("eight rows", lambda: len(paths("vault", "20")) == 8)
        opened = sorted(f"{place}/{number}.md" for number in range(4))
        assert sorted(paths("", "20")) == opened
        assert sorted(paths("", "4")) == opened
        assert sorted(paths("vault", "4")) == sorted(f"{secret}/{number}.md" for number in range(4))

    @rule("4.7", "rows-authorised")
    def test_a_private_scope_shows_nothing(self, server: Server) -> None:
        """By the protocol it is `ok` without rows; who wants to tell nothing of it says `not-found`."""
        secret = server.place("vault")
        server.publish(f"{secret}/a.md", role="vault")
        eventually("a row", lambda: found(server, secret, "*", role="vault"))
        answer = server.ask("LOOKUP", secret, query="*", role="")
        assert answer.status in ("not-found", "unauthorized") or rows(answer, "*", secret) == []
        server.reads(answer.status, of="4.7: LOOKUP below a directory that one may not read")


class TestCatalog:
    @rule("8.1", "title")
    def test_titles(self, server: Server, place: str) -> None:
        documents = {
            "key.md": (b"# Heading\n", {"title": "  Key "}),
            "blank.md": (b"# Heading\n", {"title": " "}),
            "heading.md": (b"text\n\n## Second\n\n# First\n\n# Other\n", {}),
            "fence.md": (b"```\n# comment\n```\n\n# Behind\n", {}),
            "tilde.md": (b"~~~ sh\n# comment\n~~~\n# Behind\n", {}),
            "indent.md": (b"    # code\n\n   # Three blanks\n", {}),
            "closed.md": (b"#Not\n####### Not\n# With signs #\n", {}),
            "none.md": (b"just text\n", {}),
            "setext.md": (b"Text\n====\n", {}),
        }
        for name, (body, metadata) in documents.items():
            server.publish(f"{place}/{name}", body, tags="kettle", **metadata)
        settle(server, place, len(documents))
        titles = {row.path.rpartition("/")[2]: row.title for row in found(server, place, "kettle")}
        expected = {
            "key.md": "Key",
            "blank.md": "Heading",
            "heading.md": "First",
            "fence.md": "Behind",
            "tilde.md": "Behind",
            "indent.md": "Three blanks",
            "none.md": "none.md",
            "setext.md": "setext.md",
        }
        assert {name: titles[name] for name in expected} == expected
        assert titles["closed.md"] in ("With signs", "With signs #")

    @rule("8.1", "follows-writes")
    @rule("7.4", "reads-follow-writes")
    def test_rows_follow_writes(self, server: Server, place: str) -> None:
        server.publish(f"{place}/other.md", b"# Other\n")
        server.publish(f"{place}/a.md", b"# Green\n", tags="x1")
        eventually("a row", lambda: names(server, place, "green") == ["a.md"])
        server.publish(f"{place}/a.md", b"# Black\n", tags="x2")
        eventually("the new title", lambda: names(server, place, "black") == ["a.md"])
        assert names(server, place, "green") == names(server, place, "x1") == []
        server.append(f"{place}/a.md", b"more", expected=2)
        assert eventually("tags after an append", lambda: names(server, place, "x2")) == ["a.md"]
        server.archive(f"{place}/a.md")
        eventually("no row of an archived document", lambda: names(server, place, "black") == [])
        assert server.ask("PUBLISH", f"{place}/a.md", b"").status == "ok"
        eventually("the row back", lambda: names(server, place, "black") == ["a.md"])

    @rule("8.2", "hits")
    def test_terms_hit_tags_and_parts_of_titles(self, server: Server, place: str) -> None:
        server.publish(f"{place}/a.md", b"# Green Tea\n", tags="Drinks, hot water")
        server.publish(f"{place}/b.md", b"text of tea and drinks\n", tags="teapots")
        settle(server, place, 2)
        for query in ("tea", "TEA", "een", "green tea", "drinks", "DRINKS", "nothing drinks"):
            assert names(server, place, query) == ["a.md"], query
        for query in ("teapots", "TeaPots"):
            assert names(server, place, query) == ["b.md"], query
        for query in ("teapot", "drink", "water", "text", "hot water"):
            # Parts of tags are no hits, nor are texts; `hot` and `water` are two terms.
            assert names(server, place, query) == [], query

    @rule("8.2", "order")
    def test_score_importance_modified_path(self, server: Server, place: str) -> None:
        server.publish(f"{place}/two.md", b"# Green Tea\n", importance="0.1")
        server.publish(f"{place}/high.md", b"# Tea\n", importance="0.9")
        server.publish(f"{place}/b.md", b"# Tea\n")
        server.publish(f"{place}/a.md", b"# Tea\n")
        settle(server, place, 4)
        order = names(server, place, "green tea")
        assert order[:2] == ["two.md", "high.md"]
        times = {name: server.fetch(f"{place}/{name}").meta["modified"] for name in ("a.md", "b.md")}
        # A server may keep times finer than it tells them.
        if times["a.md"] > times["b.md"]:
            assert order[2:] == ["a.md", "b.md"]
        assert sorted(order[2:]) == ["a.md", "b.md"]
        assert names(server, place, "*")[0] == "high.md"

    @rule("8.2", "everything")
    def test_a_lone_star_finds_everything(self, server: Server, place: str) -> None:
        server.publish(f"{place}/a.md", b"# The * hub\n")
        server.publish(f"{place}/b.md", b"text")
        settle(server, place, 2)
        assert sorted(names(server, place, "*")) == ["a.md", "b.md"]
        assert names(server, place, "* hub") == ["a.md"]
        assert names(server, place, "**") == []

    @rule("8.2", "scope")
    def test_a_scope_ends_at_a_slash(self, server: Server, place: str) -> None:
        for name in ("docs/a.md", "docs/deep/b.md", "docsx/c.md", "docs.md"):
            server.publish(f"{place}/{name}", b"# Tea\n")
        settle(server, place, 4)
        assert sorted(names(server, f"{place}/docs", "tea")) == ["a.md", "deep/b.md"]
        assert server.ask("LOOKUP", f"{place}/doc", query="tea").status == "not-found"

    @rule("6.3", "importance")
    def test_importance_is_a_number_from_0_to_1(self, server: Server, place: str) -> None:
        shown = {
            "0": "0.00", "1": "1.00", " 0.25 ": "0.25", "0.125": "0.12", "0.375": "0.38", "1e-1": "0.10", ".5": "0.50",
            "1.01": "0.50", "-0.1": "0.50", "nan": "0.50", "inf": "0.50", "high": "0.50", "": "0.50", "0,7": "0.50",
        }  # fmt: skip
        for index, sent in enumerate(shown):
            server.publish(f"{place}/{index:02}.md", b"# Tea\n", importance=sent)
        settle(server, place, len(shown))
        found_rows = {row.path: row.importance for row in found(server, place, "tea", limit="50")}
        assert [found_rows[f"{place}/{index:02}.md"] for index in range(len(shown))] == list(shown.values())

    @rule("6.3", "tags")
    def test_tags_are_split_at_commas(self, server: Server, place: str) -> None:
        server.publish(f"{place}/a.md", b"# Tea\n", tags=" Alpha Beta ,, gamma,")
        settle(server, place, 1)
        assert found(server, place, "tea")[0].tags == "Alpha Beta, gamma"
        assert names(server, place, "gamma") == ["a.md"]
        assert names(server, place, "tea", filter="tag=alpha beta") == ["a.md"]


class TestFilter:
    @pytest.fixture
    def shelf(self, server: Server, place: str) -> str:
        """Three documents to choose from."""
        server.publish(f"{place}/a.md", b"# Tea\n", tags="Green,hot", colour="green")
        server.publish(f"{place}/b.md", b"# Tea\n", tags="black", colour="black", taste="mild")
        server.publish(f"{place}/c.md", b"# Tea\n", colour="black, strong")
        settle(server, place, 3)
        return place

    @rule("8.3", "tag")
    def test_tags(self, server: Server, shelf: str) -> None:
        assert names(server, shelf, "tea", filter="tag=green") == ["a.md"]
        assert names(server, shelf, "tea", filter="tag=GREEN,tag=Hot") == ["a.md"]
        assert names(server, shelf, "tea", filter="tag=gre") == []

    @rule("8.3", "metadata")
    def test_metadata(self, server: Server, shelf: str) -> None:
        assert names(server, shelf, "tea", filter="colour=black") == ["b.md"]
        assert names(server, shelf, "*", filter="colour=green") == ["a.md"]
        for other in ("colour=Black", "colour=blac", "nothing=x", "colour="):
            assert names(server, shelf, "tea", filter=other) == []
        assert sorted(names(server, shelf, "tea", filter="type=Document")) == ["a.md", "b.md", "c.md"]

    @rule("8.3", "all-clauses")
    def test_all_clauses_have_to_hold(self, server: Server, shelf: str) -> None:
        assert names(server, shelf, "tea", filter=" colour = black , , taste=mild,") == ["b.md"]
        assert names(server, shelf, "tea", filter="colour=black,taste=strong") == []
        for empty in ("", " ", ",", " , ,"):
            assert len(names(server, shelf, "tea", filter=empty)) == 3

    @rule("8.3", "dates")
    def test_dates_are_strict(self, server: Server, shelf: str) -> None:
        modified = server.fetch(f"{shelf}/a.md").meta["modified"]
        for before in ("2099-01-01", "2099-01-01T00:00:00Z", "2099-01-01T00:00:00+05:30"):
            assert len(names(server, shelf, "tea", filter=f"modified-before={before}")) == 3
            assert names(server, shelf, "tea", filter=f"modified-after={before}") == []
        for after in ("1970-01-01", "1970-01-01T00:00:00Z"):
            assert len(names(server, shelf, "tea", filter=f"modified-after={after}")) == 3
        assert "a.md" not in names(server, shelf, "tea", filter=f"modified-before={modified}")

    @rule("8.3", "errors")
    @pytest.mark.parametrize("clause", ["x", "tag", "=x", " = "])
    def test_clauses_that_are_none(self, server: Server, shelf: str, clause: str) -> None:
        found = message(server, shelf, query="tea", filter=f"colour=black, {clause}")
        assert found == f'malformed filter clause "{clause.strip()}"'

    @rule("8.3", "errors")
    @pytest.mark.parametrize("date", ["x", "2026", "2026-13-01", "2026-01-01T00:00:00", "2026-01-01 00:00:00Z", ""])
    @pytest.mark.parametrize("key", ["modified-after", "modified-before"])
    def test_dates_that_are_none(self, server: Server, shelf: str, key: str, date: str) -> None:
        found = message(server, shelf, query="tea", filter=f"{key}={date}")
        assert found == f'filter {key}: invalid date "{date}" (want RFC 3339 or YYYY-MM-DD)'


STEEPING = b"""Steeping is easy.

# Tea

Boil water first.

## Green leaves

Use *cooler* water, about `80` degrees.

### Times

Three minutes of steeping.

## Black

Steep four minutes.

```
# not a heading
```
"""


class TestBodies:
    @rule("8.4", "optional")
    def test_a_server_says_how_it_searched(self, server: Server, place: str) -> None:
        server.publish(f"{place}/tea.md", STEEPING)
        settle(server, place, 1)
        answer = server.ask("LOOKUP", place, query="minutes", match="body")
        assert answer.meta["match"] in ("body", "catalog")
        width = len(answer.text.split("\n")[3].split("|")) - 2
        assert width == (5 if answer.meta["match"] == "body" else 4)
        server.reads(answer.meta["match"], of="8.4: `match: body` is answered from")

    @rule("8.4", "sections")
    def test_sections_that_have_every_term(self, server: Server, place: str) -> None:
        server.publish(f"{place}/tea.md", STEEPING, title="Notes", tags="kitchen")
        settle(server, place, 1)
        expected = {
            "boil": ["tea.md#tea"],
            "cooler degrees": ["tea.md#green-leaves"],
            "minutes": ["tea.md#black", "tea.md#times"],
            "MINUTES four": ["tea.md#black"],
            "easy": ["tea.md"],
            # The trail of headings counts, and so do tags and title, but not by themselves.
            "green minutes": ["tea.md#times"],
            "kitchen four": ["tea.md#black"],
            "notes times": ["tea.md#times"],
            "black": ["tea.md#black"],
            "heading": ["tea.md#black"],
            "coffee": [],
            "boil four": [],
        }
        assert {query: sections(server, place, query, limit="50") for query in expected} == expected

    @rule("8.4", "bare-row")
    def test_a_document_whose_title_and_tags_have_every_term_is_one_row(self, server: Server, place: str) -> None:
        server.publish(f"{place}/tea.md", STEEPING, title="Four minutes", tags="kitchen")
        settle(server, place, 1)
        assert sections(server, place, "minutes") == ["tea.md"]
        assert sections(server, place, "kitchen four minutes") == ["tea.md"]

    @rule("8.4", "anchors")
    def test_anchors(self, server: Server, place: str) -> None:
        headings = {
            "# Notes": "notes",
            "## Notes ##": "notes-1",
            "# Notes-1": "notes-1-1",
            "Set ext\n===": "set-ext",
            "### **Bold** `code` [link](x.md)": "bold-code-link",
            "# Grüße, C++ & 3.5_a-b!": "grüße-c--35_a-b",
        }
        body = "\n\n".join(f"{heading}\n\nkettle{index}" for index, heading in enumerate(headings))
        server.publish(f"{place}/a.md", body.encode(), title="x")
        settle(server, place, 1)
        for index, anchor in enumerate(headings.values()):
            assert sections(server, place, f"kettle{index}") == [f"a.md#{anchor}"]

    @rule("8.4", "terms")
    def test_short_words_and_punctuation_do_not_count(self, server: Server, place: str) -> None:
        server.publish(f"{place}/tea.md", STEEPING, title="x")
        settle(server, place, 1)
        assert sections(server, place, '"four," (minutes). a !') == ["tea.md#black"]
        for query in ("a b", "!! ??", "- -", "x ."):
            assert sections(server, place, query) == []

    @rule("8.4", "titles")
    def test_rows_name_document_and_heading(self, server: Server, place: str) -> None:
        server.publish(f"{place}/tea.md", STEEPING, title="All of tea", tags="kitchen, x", importance="0.25")
        settle(server, place, 1)
        row = rows(body_search(server, place, "cooler"), "cooler", place)[0]
        assert (row.title, row.tags, row.importance) == ("All of tea › Green leaves", "kitchen, x", "0.25")
        assert row.snippet == "Use cooler water, about 80 degrees."
        row = rows(body_search(server, place, "kitchen"), "kitchen", place)[0]
        assert (row.title, row.anchor) == ("All of tea", "")

    @rule("8.4", "snippet")
    def test_a_snippet_is_the_best_line_and_not_too_long(self, server: Server, place: str) -> None:
        long = "é" * 10 + " kettle " + "long words here é " * 30
        body = f"# Tea\n\nA kettle.\nA **kettle** and a [pot](x.md).\nNo.\n\n# Other\n\n{long}\n"
        server.publish(f"{place}/a.md", body.encode(), title="x")
        settle(server, place, 1)
        found = {row.anchor: row.snippet for row in rows(body_search(server, place, "kettle pot"), "kettle pot", place)}
        assert found == {"tea": "A kettle and a pot."}
        found = {row.anchor: row.snippet for row in rows(body_search(server, place, "kettle"), "kettle", place)}
        assert set(found) == {"tea", "other"}
        cut = found["other"]
        assert cut is not None
        assert cut.endswith("...")
        assert len(cut.encode()) <= 240
        assert long.startswith(cut.removesuffix("..."))
