"""LOOKUP: what is found below a path, by whom, in which order (Mark protocol 4.7, 8)."""

from __future__ import annotations

import asyncio
import itertools
import random
from collections.abc import AsyncIterator, Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from demarkus_world.engine.engine import Engine
from mark_protocol.lookups import Match, parse_matches
from mark_protocol.response import Response


def message(response: Response) -> str:
    return response.body.decode().split("\n")[3]


async def rows(world: Any, query: str, scope: str = "/", **options: str) -> list[Match]:
    """The matches of a LOOKUP that has to succeed."""
    response = await world.ask("LOOKUP", scope, query=query, **options)
    assert response.status == "ok", response
    matches = parse_matches(response.body)
    assert response.metadata["matches"] == str(len(matches))
    return matches


async def paths(world: Any, query: str, scope: str = "/", **options: str) -> list[str]:
    """The paths of the matches."""
    return [match.path for match in await rows(world, query, scope, **options)]


class TestAnswer:
    async def test_the_answer_is_a_known_sequence_of_bytes(self, a_world: Callable[..., Any]) -> None:
        world = await a_world()
        await world.publish("/notes/tea.md", b"# Tea\n", tags="drinks, kitchen", importance="0.8")
        response = await world.ask("LOOKUP", "/notes/", query=" kitchen ")
        assert response == Response(
            "ok",
            {"matches": "1"},
            b'\n# Lookup matches for "kitchen" in /notes\n\n'
            b"| Path | Importance | Title | Tags |\n"
            b"|------|------------|-------|------|\n"
            b"| /notes/tea.md | 0.80 | Tea | drinks, kitchen |\n",
        )

    async def test_no_match_is_an_empty_table(self, a_world: Callable[..., Any]) -> None:
        world = await a_world()
        response = await world.ask("LOOKUP", "/", query="a|b")
        assert response.metadata == {"matches": "0"}
        assert response.body.startswith(b'\n# Lookup matches for "a\\|b" in /\n\n| Path |')
        assert parse_matches(response.body) == []

    async def test_a_30_a_name_with_a_tab_and_markup_is_one_row(self, a_world: Callable[..., Any]) -> None:
        world = await a_world()
        await world.publish("/a\t|#b.md", b"# x | y\n")
        assert [(match.path, match.title) for match in await rows(world, "*")] == [("/a\t|#b.md", "x | y")]

    async def test_a_query_that_is_no_text_matches_nothing(self, a_world: Callable[..., Any]) -> None:
        world = await a_world()
        await world.publish("/a.md")
        for options in ({"query": "\udcff\udcfe"}, {"query": "tea", "filter": "type=\udcff"}):
            response = await world.ask("LOOKUP", "/", **options)
            assert response.metadata == {"matches": "0"}


class TestParameters:
    @pytest.mark.parametrize(
        ("metadata", "text"),
        [
            ({"query": ""}, "query must be at least 2 characters"),
            ({"query": " a "}, "query must be at least 2 characters"),
            ({}, "query must be at least 2 characters"),
            ({"query": " ".join(map(str, range(33)))}, "query has too many terms: 33 > 32"),
            ({"query": "tea", "limit": "0"}, "invalid limit"),
            ({"query": "tea", "limit": "-1"}, "invalid limit"),
            ({"query": "tea", "limit": "ten"}, "invalid limit"),
            ({"query": "tea", "limit": "1" * 30}, "invalid limit"),
            ({"query": "tea", "filter": "x"}, 'malformed filter clause "x"'),
            ({"query": "tea", "filter": "a=b, =c"}, 'malformed filter clause "=c"'),
            (
                {"query": "tea", "filter": "modified-after=yesterday"},
                'filter modified-after: invalid date "yesterday" (want RFC 3339 or YYYY-MM-DD)',
            ),
            ({"query": "tea", "match": "all"}, 'match must be "catalog" or "body", got "all"'),
            ({"query": "tea", "match": 'a"b'}, 'match must be "catalog" or "body", got "a\\"b"'),
            ({"query": "tea", "include_superseded": "yes"}, "include-superseded must be true or false"),
        ],
    )
    async def test_what_can_not_be_asked(
        self, a_world: Callable[..., Any], metadata: dict[str, str], text: str
    ) -> None:
        world = await a_world()
        response = await world.ask("LOOKUP", "/nowhere", **metadata)
        assert (response.status, message(response)) == ("bad-request", text)

    async def test_the_first_problem_in_order_is_told(self, a_world: Callable[..., Any]) -> None:
        world = await a_world()
        wrong = {"query": "x", "limit": "0", "filter": "x", "match": "x", "include_superseded": "x"}
        texts = []
        for key, right in {"query": "xx", "limit": "1", "filter": "", "match": "", "include_superseded": ""}.items():
            texts.append(message(await world.ask("LOOKUP", "/nowhere", **wrong)))
            wrong[key] = right
        texts.append(message(await world.ask("LOOKUP", "/nowhere", **wrong)))
        assert [text.split()[0] for text in texts] == [
            "query",
            "invalid",
            "malformed",
            "match",
            "include-superseded",
            "/nowhere",
        ]

    async def test_as_many_rows_as_are_asked_for(self, a_world: Callable[..., Any]) -> None:
        world = await a_world()
        for number in range(1001):
            await world.publish(f"/{number:04}.md", b"x")
        for limit, count in {"": 10, "1": 1, "+7": 7, "1000": 1000, "5000": 1000}.items():
            assert len(await rows(world, "*", limit=limit)) == count

    async def test_two_code_points_are_enough_and_so_are_32_words(self, a_world: Callable[..., Any]) -> None:
        world = await a_world()
        await world.publish("/a.md", "# 茶道 tea\n".encode())
        assert await paths(world, "茶道") == ["/a.md"]
        assert await paths(world, " ".join(["tea", *(f"w{number}" for number in range(31))])) == ["/a.md"]
        assert await paths(world, " ".join(["tea", "TEA"] * 40)) == ["/a.md"]


class TestRank:
    async def test_score_then_importance_then_time_then_path(self, a_world: Callable[..., Any]) -> None:
        world = await a_world()
        for path, text, metadata in (
            ("/old.md", b"# Green tea\n", {}),
            ("/new.md", b"# Green tea\n", {}),
            ("/dull.md", b"# Green tea\n", {"importance": "0.1"}),
            ("/both.md", b"# Pots\n", {"tags": "Green, TEA", "importance": "0"}),
            ("/one.md", b"# Tea\n", {"importance": "1"}),
            ("/none.md", b"# Pots\n", {"tags": "teapot"}),
        ):
            await world.publish(path, text, **metadata)
        assert await paths(world, "GREEN tea") == ["/new.md", "/old.md", "/dull.md", "/both.md", "/one.md"]

    async def test_equal_ones_are_in_the_order_of_their_paths(self, a_world: Callable[..., Any]) -> None:
        world = await a_world()
        for name in "cab":
            await world.publish(f"/{name}.md")
            world.clock[0] -= 1000  # all in one second
        assert await paths(world, "tea") == ["/a.md", "/b.md", "/c.md"]

    async def test_c_45_only_a_lone_star_matches_everything(self, a_world: Callable[..., Any]) -> None:
        world = await a_world()
        await world.publish("/a.md", b"# Hub\n")
        await world.publish("/b.md", b"# Spoke\n", importance="0.9")
        assert await paths(world, "*") == ["/b.md", "/a.md"]
        assert await paths(world, "* hub") == ["/a.md"]

    async def test_c_46_titles_are_headings_outside_of_code(self, a_world: Callable[..., Any]) -> None:
        world = await a_world()
        await world.publish("/a.md", b"```\n# comment\n```\n\n    # indented\n\n# Real\n")
        await world.publish("/named.md", b"# Heading\n", title=" Given ")
        await world.publish("/bare.md", b"text\n")
        titles = {match.path: match.title for match in await rows(world, "*")}
        assert titles == {"/a.md": "Real", "/named.md": "Given", "/bare.md": "bare.md"}

    async def test_a_35_odd_importance_counts_as_neutral(self, a_world: Callable[..., Any]) -> None:
        world = await a_world()
        for name, text in {"a": "nan", "b": "2", "c": "-1", "d": "much", "e": "0x1p-2", "f": " 0.7 "}.items():
            await world.publish(f"/{name}.md", importance=text)
        shown = {match.path[1]: match.importance for match in await rows(world, "*")}
        assert shown == {"a": 0.5, "b": 0.5, "c": 0.5, "d": 0.5, "e": 0.25, "f": 0.7}


class TestFilters:
    @pytest.mark.parametrize(
        ("filter", "found"),
        [
            ("tag=ALPHA", ["/a.md", "/b.md"]),
            ("tag=alp", []),
            ("status2=draft", ["/a.md"]),
            ("status2=DRAFT", []),
            ("type=Document", ["/a.md", "/b.md", "/c.md"]),
            (" tag=alpha , , status2 = draft ,", ["/a.md"]),
            ("nothing=x", []),
            ("equation=a=b", ["/b.md"]),
            ("modified-after=2027-01-15T08:00:02Z", ["/c.md"]),
            ("modified-before=2027-01-15T08:00:02Z", ["/a.md"]),
            ("modified-before=2027-01-15T09:00:02+01:00", ["/a.md"]),
            ("modified-after=2027-01-15", ["/a.md", "/b.md", "/c.md"]),
            ("modified-before=2027-01-15", []),
        ],
    )
    async def test_every_clause_has_to_hold(self, a_world: Callable[..., Any], filter: str, found: list[str]) -> None:
        world = await a_world()
        await world.publish("/a.md", tags="Alpha", status2="draft", equation="b")
        await world.publish("/b.md", tags="alpha, beta", equation="a=b")
        await world.publish("/c.md", status2="Draft")
        assert (await world.ask("FETCH", "/b.md")).metadata["modified"] == "2027-01-15T08:00:02Z"
        assert sorted(await paths(world, "*", filter=filter)) == found
        assert sorted(await paths(world, "tea", filter=filter)) == found

    @pytest.mark.parametrize("text", ["2027-01-15T08:00", "15.01.2027", "2027-1-15", "2027-01-15t08:00:00z", ""])
    async def test_a_33_times_are_as_strict_as_elsewhere(self, a_world: Callable[..., Any], text: str) -> None:
        world = await a_world()
        response = await world.ask("LOOKUP", "/", query="tea", filter=f"modified-before={text}")
        assert message(response) == f'filter modified-before: invalid date "{text}" (want RFC 3339 or YYYY-MM-DD)'


class TestCatalog:
    async def test_c_44_a_scope_is_a_directory_and_not_a_prefix(self, a_world: Callable[..., Any]) -> None:
        world = await a_world()
        for path in ("/oth/a.md", "/oth/deep/b.md", "/other/c.md", "/oth.md"):
            await world.publish(path)
        for scope in ("/oth", "/oth/", "//oth/./"):
            assert sorted(await paths(world, "*", scope)) == ["/oth/a.md", "/oth/deep/b.md"]

    async def test_what_is_no_directory_is_not_found(self, a_world: Callable[..., Any]) -> None:
        world = await a_world()
        await world.publish("/a.md")
        for scope in ("/a.md", "/nowhere", "/sha256-" + "0" * 64):
            response = await world.ask("LOOKUP", scope, query="tea")
            assert (response.status, message(response)) == ("not-found", f"{scope} not found")
        assert await paths(world, "nothing", "/") == []

    async def test_archived_documents_are_out_until_they_are_back(self, a_world: Callable[..., Any]) -> None:
        world = await a_world()
        await world.publish("/a.md")
        await world.ask("ARCHIVE", "/a.md")
        assert await paths(world, "tea") == []
        await world.ask("PUBLISH", "/a.md")
        assert await paths(world, "tea") == ["/a.md"]

    async def test_c_6_an_append_keeps_a_document_findable(self, a_world: Callable[..., Any]) -> None:
        world = await a_world()
        await world.publish("/a.md", b"# A\n", tags="alpha", importance="0.9")
        before = await rows(world, "alpha")
        await world.ask("APPEND", "/a.md", b"more\n", expected_version="1")
        assert await rows(world, "alpha") == before != []

    async def test_c_11_a_row_is_the_same_after_a_restart(self, a_world: Callable[..., Any]) -> None:
        world = await a_world()
        await world.publish("/a.md", b"# A\n", tags=" Alpha,, beta ", importance="0.125")
        again = await world.reopened()
        body = (await world.ask("LOOKUP", "/", query="alpha")).body
        assert (await again.ask("LOOKUP", "/", query="alpha")).body == body
        assert b"| /a.md | 0.12 | A | Alpha, beta |" in body
        await again.engine.close()

    async def test_the_newest_version_is_what_is_found(self, a_world: Callable[..., Any]) -> None:
        world = await a_world()
        await world.publish("/a.md", b"# Coffee\n", tags="roast")
        await world.publish("/a.md", b"# Tea\n")
        assert await paths(world, "coffee roast") == []
        assert await paths(world, "tea") == ["/a.md"]


class TestValidity:
    async def test_what_was_superseded_is_hidden_unless_it_is_asked_for(self, a_world: Callable[..., Any]) -> None:
        world = await a_world()
        await world.publish("/old.md", **{"superseded-by": "/new.md"})
        await world.publish("/new.md", **{"superseded-by": " "})
        for query in ("tea", "*"):
            assert await paths(world, query) == ["/new.md"]
            assert await paths(world, query, include_superseded="false") == ["/new.md"]
            assert await paths(world, query, include_superseded="true") == ["/new.md", "/old.md"]
        assert await paths(world, "*", filter="superseded-by=/new.md") == []

    async def test_a_superseded_document_can_be_fetched_and_says_by_what(self, a_world: Callable[..., Any]) -> None:
        world = await a_world()
        await world.publish("/old.md", b"# Old\n", **{"superseded-by": "/new.md"})
        response = await world.ask("FETCH", "/old.md")
        assert (response.status, response.body) == ("ok", b"# Old\n")
        assert response.metadata["superseded-by"] == "/new.md"
        assert await world.names("/") == ["old.md"]

    async def test_history_stays_and_a_document_may_be_valid_again(self, a_world: Callable[..., Any]) -> None:
        world = await a_world()
        await world.publish("/a.md", b"# One\n")
        await world.publish("/a.md", b"# Two\n", **{"superseded-by": "/b.md"})
        await world.publish("/a.md", b"# Three\n")
        assert await paths(world, "three") == ["/a.md"]
        assert (await world.ask("FETCH", "/a.md/v2")).metadata["superseded-by"] == "/b.md"


class TestRights:
    TOKENS = (("admin", "/**", ("publish",)), ("vault", "/vault/**", ("read",)), ("file", "/open/x.md", ("read",)))

    async def filled(self, a_world: Callable[..., Any], **options: Any) -> Any:
        world = await a_world(**{"tokens": self.TOKENS, **options})
        for path in ("/vault/a.md", "/vault/deep/b.md", "/open/x.md", "/open/y.md", "/open/z.md"):
            await world.publish(path)
        return world

    async def test_rows_are_authorised_before_they_count(self, a_world: Callable[..., Any]) -> None:
        world = await self.filled(a_world)
        assert await paths(world, "*", auth="") == ["/open/z.md", "/open/y.md"]
        assert await paths(world, "*", auth="", limit="1") == ["/open/z.md"]
        # The newest ones may not be read: what is behind them still comes.
        await world.publish("/vault/newest.md", importance="1")
        assert await paths(world, "*", auth="", limit="2") == ["/open/z.md", "/open/y.md"]
        assert await paths(world, "*", auth="vault", limit="1") == ["/vault/newest.md"]

    async def test_a_11_a_protected_directory_is_what_a_missing_one_is(self, a_world: Callable[..., Any]) -> None:
        world = await self.filled(a_world)
        for auth in ("", "file", "wrong"):
            for scope in ("/vault", "/vault/", "/vault/deep", "/vault/none", "/none"):
                response = await world.ask("LOOKUP", scope, query="tea", auth=auth)
                assert response == await world.ask("LOOKUP", scope, query="other", auth=auth)
                assert (response.status, message(response)) == ("not-found", f"{scope.rstrip('/')} not found")
        assert len(await paths(world, "*", "/vault", auth="vault")) == 2

    async def test_the_root_of_a_private_world_is_there_and_empty(self, a_world: Callable[..., Any]) -> None:
        world = await a_world(tokens=(("admin", "/**", ("publish", "read")),))
        await world.publish("/a.md")
        assert await paths(world, "tea", auth="") == []

    @pytest.mark.parametrize("reads", ["universe", "scoped"])
    async def test_closed_worlds_answer_as_they_do_for_a_list(self, a_world: Callable[..., Any], reads: str) -> None:
        tokens = (("admin", "/**", ("publish", "read")), ("team", "/teams/a/**", ("read",)))
        world = await self.filled(a_world, reads=reads, tokens=tokens)
        await world.publish("/teams/a/plan.md")
        await world.publish("/teams/b/plan.md")
        for scope in ("/", "/teams", "/teams/a", "/none"):
            assert (await world.ask("LOOKUP", scope, query="tea", auth="")).status == "unauthorized"
        for scope in ("/teams/b", "/teams/none", "/vault", "/none"):
            assert (await world.ask("LOOKUP", scope, query="tea", auth="team")).status == "not-permitted"
        for scope in ("/", "/teams", "/teams/a"):
            assert await paths(world, "*", scope, auth="team") == ["/teams/a/plan.md"]

    async def test_what_is_only_on_the_way_is_told_only_where_something_shows(
        self, a_world: Callable[..., Any]
    ) -> None:
        tokens = (("admin", "/**", ("publish", "read")), ("maps", "/*/maps/*.md", ("read",)))
        world = await self.filled(a_world, reads="scoped", tokens=tokens)
        await world.publish("/north/maps/a.md")
        for scope in ("/vault", "/none", "/open/maps"):
            assert (await world.ask("LOOKUP", scope, query="tea", auth="maps")).status == "not-found"
        assert await paths(world, "*", "/north", auth="maps") == ["/north/maps/a.md"]

    async def test_answers_tell_nothing_of_what_may_not_be_read(self, a_world: Callable[..., Any]) -> None:
        """Every caller, scope, query and limit: with or without the secret documents, the bytes are the same."""
        world = await a_world(tokens=self.TOKENS)
        for path in ("/open/x.md", "/open/y.md"):
            await world.publish(path)
        questions = list(itertools.product(("/", "/open", "/vault", "/vault/deep"), ("*", "tea", "zz"), ("1", "10")))

        async def answers() -> list[Response]:
            return [
                await world.ask("LOOKUP", scope, query=query, limit=limit, auth="file")
                for scope, query, limit in questions
            ]

        before = await answers()
        for path in ("/vault/a.md", "/vault/deep/b.md"):
            await world.publish(path, importance="1")
        assert await answers() == before


@pytest.fixture
async def an_indexed_world(a_world: Callable[..., Any], tmp_path: Path) -> AsyncIterator[Callable[..., Any]]:
    """Makes worlds whose view is in a folder, where sections are indexed."""
    engines: list[Engine] = []

    async def make(**options: Any) -> Any:
        world = await a_world(**options)
        engine = await Engine.open(
            world.blobs,
            world.engine.identity,
            now=lambda: world.clock[0],
            random=random.Random(9).randbytes,
            view=tmp_path / "view",
        )
        engines.append(engine)
        return replace(world, engine=engine)

    yield make
    for engine in engines:
        await engine.close()


class TestBody:
    TEA = b"# Tea\n\nBoil water first.\n\n## Green\n\nUse cooler water.\n\n## Black\n\nSteep four minutes.\n"

    async def found(self, world: Any, query: str, *, count: int, **options: str) -> list[Match]:
        """The matches in body mode, once the index has followed and there are so many of them."""
        async with asyncio.timeout(20):
            while True:
                response = await world.ask("LOOKUP", "/", query=query, match="body", **options)
                assert response.status == "ok", response
                if response.metadata == {"match": "body", "matches": f"{count}"}:
                    return parse_matches(response.body)
                await asyncio.sleep(0.01)

    async def test_sections_are_found_with_a_snippet(self, an_indexed_world: Callable[..., Any]) -> None:
        world = await an_indexed_world()
        await world.publish("/notes/tea.md", self.TEA, tags="drinks, kitchen", importance="0.8")
        [match] = await self.found(world, "steep", count=1)
        assert (match.path, match.anchor, match.title) == ("/notes/tea.md", "black", "Tea › Black")
        assert (match.tags, match.importance, match.snippet) == (("drinks", "kitchen"), 0.8, "Steep four minutes.")

    async def test_a_document_whose_title_and_tags_match_is_one_row(self, an_indexed_world: Callable[..., Any]) -> None:
        world = await an_indexed_world()
        await world.publish("/tea.md", self.TEA, tags="kitchen")
        [match] = await self.found(world, "kitchen tea", count=1)
        assert (match.path, match.anchor, match.title) == ("/tea.md", "", "Tea")

    async def test_rows_are_authorised_and_filtered_as_in_the_catalog(
        self, an_indexed_world: Callable[..., Any]
    ) -> None:
        world = await an_indexed_world(tokens=TestRights.TOKENS)
        await world.publish("/vault/a.md", self.TEA, importance="1")
        await world.publish("/open/y.md", self.TEA, status2="draft")
        await world.publish("/open/old.md", self.TEA, **{"superseded-by": "/open/y.md"})
        assert [match.path for match in await self.found(world, "steep", count=1, auth="")] == ["/open/y.md"]
        found = await self.found(world, "steep", count=2, auth="vault", limit="2")
        assert [match.path for match in found] == ["/vault/a.md", "/open/y.md"]
        assert await self.found(world, "steep", count=0, auth="", filter="status2=final") == []
        found = await self.found(world, "steep", count=2, auth="", include_superseded="true")
        assert {match.path for match in found} == {"/open/y.md", "/open/old.md"}

    async def test_without_an_index_the_catalog_answers_and_says_so(self, a_world: Callable[..., Any]) -> None:
        world = await a_world()
        await world.publish("/tea.md", self.TEA)
        response = await world.ask("LOOKUP", "/", query="tea", match="body")
        assert response.metadata == {"match": "catalog", "matches": "1"}
        assert b"Snippet" not in response.body

    async def test_the_mode_is_told_when_it_was_asked_for(self, a_world: Callable[..., Any]) -> None:
        world = await a_world()
        await world.publish("/tea.md", self.TEA)
        for match in ("catalog", ""):
            response = await world.ask("LOOKUP", "/", query="tea", match=match)
            assert response.metadata == {"match": "catalog", "matches": "1"}
        assert (await world.ask("LOOKUP", "/", query="tea")).metadata == {"matches": "1"}
