"""PUBLISH, unarchive, APPEND, ARCHIVE: order of checks, refusals, rights, whose name is written down."""

import asyncio
from collections.abc import Callable
from dataclasses import replace
from typing import Any

import pytest

from mark_protocol.request import Request, Verb, encode_request, parse_request
from mark_protocol.response import Response, encode_response, parse_response

HASH_PATH = "/sha256-" + "0" * 64
WRITES = ("PUBLISH", "APPEND", "ARCHIVE")


def message(response: Response) -> str:
    return response.body.decode().split("\n")[3]


class TestOrderOfChecks:
    @pytest.mark.parametrize("verb", WRITES)
    async def test_a_read_only_world_says_so_before_everything(self, a_world: Callable[..., Any], verb: str) -> None:
        world = await a_world(tokens=None)
        world.rules = replace(world.rules, read_only=True)
        response = await world.ask(verb, HASH_PATH, b"x", auth="")
        assert (response.status, message(response)) == ("not-permitted", "server is read-only")

    @pytest.mark.parametrize("verb", WRITES)
    async def test_reserved_paths_come_before_everything(self, a_world: Callable[..., Any], verb: str) -> None:
        world = await a_world(tokens=None)
        response = await world.ask(verb, HASH_PATH, b"x", auth="")
        assert (response.status, message(response)) == ("bad-request", "paths matching /sha256-<hash> are reserved")

    @pytest.mark.parametrize(
        ("verb", "doing"), [("PUBLISH", "publishing"), ("APPEND", "appending"), ("ARCHIVE", "archiving")]
    )
    @pytest.mark.parametrize("body", [b"", b"x"])
    async def test_a_world_without_token_store_takes_nothing(
        self, a_world: Callable[..., Any], verb: str, doing: str, body: bytes
    ) -> None:
        world = await a_world(tokens=None)
        response = await world.ask(verb, "/a.txt", body, auth="whatever")
        assert response.status == "not-permitted"
        assert message(response) == f"{doing} requires auth configuration"

    @pytest.mark.parametrize("verb", WRITES)
    async def test_the_credential_comes_before_the_document(self, a_world: Callable[..., Any], verb: str) -> None:
        world = await a_world(tokens=(("reader", "/**", ("read",)), ("notes", "/notes/**", ("publish",))))
        for auth, status in (("", "unauthorized"), ("wrong", "unauthorized"), ("reader", "not-permitted")):
            response = await world.ask(verb, "/a.txt", b"", auth=auth, version="reserved")
            assert response.status == status
        assert (await world.ask(verb, "/other.txt", b"", auth="notes")).status == "not-permitted"
        told = await world.ask(verb, "/a.md", b"x", auth="")
        assert message(told) == "authentication required"
        told = await world.ask(verb, "/a.md", b"x", auth="reader")
        assert message(told) == "insufficient permissions"

    @pytest.mark.parametrize(
        ("path", "body", "metadata", "problem"),
        [
            ("/a.txt", b"\xff", {"version": "1"}, "publish path must end in .md"),
            ("/", b"x", {}, "publish path must end in .md"),
            ("/a.md/", b"\xff", {"version": "1"}, "document body must be valid UTF-8 text"),
            ("/a.md", b"\xff", {"version": "1"}, "document body must be valid UTF-8 text"),
            ("/versions/a.md", b"x", {"version": "1"}, "path can't be stored: a segment is named versions"),
            ("/a.md", b"x", {"version": "1", "expected_version": "x"}, 'metadata key "version" is reserved'),
            ("/a.md", b"x", {"expected_version": "x"}, "invalid expected-version"),
        ],
    )
    async def test_a_publish_is_checked_in_order(
        self, a_world: Callable[..., Any], path: str, body: bytes, metadata: dict[str, str], problem: str
    ) -> None:
        world = await a_world()
        response = await world.ask("PUBLISH", path, body, **metadata)
        assert (response.status, message(response)) == ("bad-request", problem)
        assert await world.names("/") == []

    @pytest.mark.parametrize(
        ("path", "body", "metadata", "status", "problem"),
        [
            ("/a.txt", b"", {}, "bad-request", "publish path must end in .md"),
            ("/a.md", b"\xff", {}, "bad-request", "document body must be valid UTF-8 text"),
            ("/a.md", b"", {"version": "1"}, "server-error", "append requires a body"),
            ("/a.md", b"x", {"version": "1"}, "bad-request", 'metadata key "version" is reserved'),
            ("/a.md", b"x", {}, "bad-request", "APPEND requires expected-version metadata"),
            ("/a.md", b"x", {"expected_version": ""}, "bad-request", "APPEND requires expected-version metadata"),
            (
                "/a.md",
                b"x",
                {"expected_version": "0"},
                "bad-request",
                "invalid expected-version for APPEND (must be >= 1)",
            ),
            ("/none.md", b"x", {"expected_version": "1"}, "not-found", "/none.md not found"),
        ],
    )
    async def test_an_append_is_checked_in_order(
        self,
        a_world: Callable[..., Any],
        path: str,
        body: bytes,
        metadata: dict[str, str],
        status: str,
        problem: str,
    ) -> None:
        world = await a_world()
        await world.publish("/a.md", b"one")
        response = await world.ask("APPEND", path, body, **metadata)
        assert (response.status, message(response)) == (status, problem)
        assert (await world.ask("FETCH", "/a.md")).body == b"one"

    async def test_c_16_conflict_then_archive_state_then_sameness(self, a_world: Callable[..., Any]) -> None:
        world = await a_world()
        await world.publish("/a.md", b"one")
        await world.ask("ARCHIVE", "/a.md")
        assert (await world.ask("PUBLISH", "/a.md", b"one", expected_version="7")).status == "conflict"
        response = await world.ask("PUBLISH", "/a.md", b"one", expected_version="1")
        assert (response.status, message(response)) == ("archived", "document is archived; unarchive first")


class TestPublish:
    async def test_a_new_version_and_an_unchanged_one(self, a_world: Callable[..., Any]) -> None:
        world = await a_world()
        first = await world.ask("PUBLISH", "/a.md", b"one", tags="alpha, beta")
        assert first == Response("created", {"version": "1", "modified": "2027-01-15T08:00:01Z"})
        again = await world.ask("PUBLISH", "/a.md", b"one", tags="alpha, beta", expected_version="1")
        assert again == Response("ok", {"version": "1", "modified": "2027-01-15T08:00:01Z"})
        assert (await world.ask("PUBLISH", "/a.md", b"one")).metadata["version"] == "2"

    @pytest.mark.parametrize(
        ("expected", "status"),
        [("", "created"), ("1", "created"), ("+1", "created"), ("01", "created"), ("0", "conflict"), ("2", "conflict")],
    )
    async def test_the_expected_version_decides(self, a_world: Callable[..., Any], expected: str, status: str) -> None:
        world = await a_world()
        await world.publish("/a.md", b"one")
        assert (await world.ask("PUBLISH", "/a.md", b"two", expected_version=expected)).status == status

    async def test_a_conflict_tells_both_versions(self, a_world: Callable[..., Any]) -> None:
        world = await a_world()
        await world.publish("/a.md", b"one")
        response = await world.ask("PUBLISH", "/a.md", b"two", expected_version="0")
        assert response.metadata == {"your-version": "0", "server-version": "1"}
        assert response.body.startswith(b"# Version Conflict\n\nA document already exists at this path (version 1).")

    @pytest.mark.parametrize("number", ["-1", " 1", "1.0", "1_0", "0x1", "99999999999999999999"])
    async def test_what_is_no_number_is_no_expectation(self, a_world: Callable[..., Any], number: str) -> None:
        world = await a_world()
        response = await world.ask("PUBLISH", "/a.md", b"x", expected_version=number)
        assert (response.status, message(response)) == ("bad-request", "invalid expected-version")

    async def test_c_13_a_path_collision_leaves_nothing(self, a_world: Callable[..., Any]) -> None:
        world = await a_world()
        await world.publish("/notes/a.md")
        await world.publish("/dir.md/a.md")
        response = await world.ask("PUBLISH", "/notes/a.md/b.md", b"x")
        assert message(response) == (
            "cannot publish /notes/a.md/b.md: a document exists at an ancestor: path collision"
        )
        response = await world.ask("PUBLISH", "/dir.md", b"x")
        assert message(response) == "cannot publish /dir.md: a directory exists at this path: path collision"
        assert (await world.ask("VERSIONS", "/notes/a.md/b.md")).status == "not-found"

    @pytest.mark.parametrize(
        ("path", "rule"),
        [
            ("/" + "n" * 256 + ".md", "a segment is longer than 255 bytes"),
            ("/a" * 450 + ".md", "it is longer than 900 bytes"),
            ("/a/versions/b.md", "a segment is named versions"),
            ("/\udcff.md", "it is not valid UTF-8"),
        ],
    )
    async def test_a_13_a_37_a_path_that_no_store_can_hold_is_refused(
        self, a_world: Callable[..., Any], path: str, rule: str
    ) -> None:
        world = await a_world()
        for verb in WRITES:
            response = await world.ask(verb, path, b"x", expected_version="1")
            assert (response.status, message(response)) == ("bad-request", f"path can't be stored: {rule}")
        assert (await world.ask("FETCH", path)).status == "not-found"

    async def test_a_7_two_writers_without_expectation_both_succeed(self, a_world: Callable[..., Any]) -> None:
        world = await a_world()
        answers = await asyncio.gather(*(world.ask("PUBLISH", "/a.md", f"{n}".encode()) for n in range(20)))
        assert {answer.status for answer in answers} == {"created"}
        assert sorted(int(answer.metadata["version"]) for answer in answers) == list(range(1, 21))

    @pytest.mark.parametrize(
        ("first", "second"),
        [
            ({"tags": "alpha, beta"}, {"tags": " alpha,beta "}),
            ({"tags": "alpha"}, {"tags": "alpha,,"}),
            ({"type": "Document"}, {}),
        ],
    )
    async def test_c_10_metadata_is_compared_as_it_is_kept(
        self, a_world: Callable[..., Any], first: dict[str, str], second: dict[str, str]
    ) -> None:
        world = await a_world()
        await world.publish("/a.md", b"one", **first)
        etag = (await world.ask("FETCH", "/a.md")).metadata["etag"]
        again = await world.ask("PUBLISH", "/a.md", b"one", **second)
        assert (again.status, again.metadata["version"]) == ("ok", "1")
        assert (await world.ask("FETCH", "/a.md")).metadata["etag"] == etag

    async def test_a_27_tags_that_are_empty_are_kept_so_and_are_no_change(self, a_world: Callable[..., Any]) -> None:
        world = await a_world()
        for tags in ("", " , ", ""):
            answer = await world.publish("/a.md", b"one", tags=tags)
            assert answer.metadata["version"] == "1"
        head = (await world.engine.view(exact=True)).head("/a.md").record
        assert b"\ntags: []\n" in await world.engine.stored(head)
        assert (await world.ask("FETCH", "/a.md")).metadata["tags"] == ""
        assert (await world.ask("PUBLISH", "/a.md", b"one")).metadata["version"] == "2", "no tags is another thing"

    @pytest.mark.parametrize(
        "value",
        [
            "a: b",
            "a:",
            "#y",
            "x #y",
            "'",
            '"',
            "\"a\" and 'b'",
            " x ",
            "  ",
            "",
            "- a",
            "[x]",
            "---",
            "1",
            "yes",
            "\t",
            "ä🍵",
        ],
    )
    async def test_a_25_a_value_comes_back_as_it_was_sent(self, a_world: Callable[..., Any], value: str) -> None:
        world = await a_world()
        sent = parse_request(encode_request(Request(Verb.PUBLISH, "/a.md", {"title": value, "x": value}, b"one")))
        await world.publish(sent.path, sent.body, **sent.metadata)
        for asked in (world, await world.reopened()):
            answer = parse_response(encode_response(await asked.ask("FETCH", "/a.md")))
            assert (answer.metadata["title"], answer.metadata["x"]) == (value, value)
            again = await asked.ask("PUBLISH", "/a.md", b"one", title=value, x=value)
            assert (again.status, again.metadata["version"]) == ("ok", "1")
        await asked.engine.close()

    @pytest.mark.parametrize("body", [b"\xff\xfe", b"text \xc3", b"\x89PNG\r\n\x1a\n", b"\xed\xa0\x80"])
    async def test_c_14_bytes_that_are_no_text_are_refused_and_change_nothing(
        self, a_world: Callable[..., Any], body: bytes
    ) -> None:
        world = await a_world()
        await world.publish("/a.md", b"one")
        for verb, path in (("PUBLISH", "/a.md"), ("APPEND", "/a.md"), ("PUBLISH", "/b.md")):
            response = await world.ask(verb, path, body, expected_version="1" if path == "/a.md" else "")
            assert (response.status, message(response)) == ("bad-request", "document body must be valid UTF-8 text")
        assert (await world.ask("FETCH", "/a.md")).body == b"one"
        assert (await world.ask("VERSIONS", "/a.md")).metadata["total"] == "1"
        assert (await world.ask("VERSIONS", "/b.md")).status == "not-found"

    async def test_c_12_a_body_with_front_matter_of_its_own_survives(self, a_world: Callable[..., Any]) -> None:
        world = await a_world()
        body = b"---\ntitle: mine\n---\n# Raw\n"
        await world.publish("/a.md", body)
        await world.ask("APPEND", "/a.md", b"---\nx: y\n---\n", expected_version="1")
        assert (await world.ask("FETCH", "/a.md")).body == body + b"---\nx: y\n---\n"

    async def test_the_limits_of_a_body(self, a_world: Callable[..., Any]) -> None:
        world = await a_world()
        await world.publish("/a.md", b"x" * (1 << 20))
        response = await world.ask("APPEND", "/a.md", b"x", expected_version="1")
        assert (response.status, message(response)) == ("server-error", "content exceeds size limit")


class TestUnarchive:
    async def test_a_publish_without_body_unarchives(self, a_world: Callable[..., Any]) -> None:
        world = await a_world()
        await world.publish("/a.md", b"one")
        etag = (await world.ask("FETCH", "/a.md")).metadata["etag"]
        await world.ask("ARCHIVE", "/a.md")
        # Whatever else is sent with it is not looked at.
        response = await world.ask("PUBLISH", "/a.md", b"", version="7", expected_version="x")
        assert response == Response("ok", {"version": "1"})
        assert (await world.ask("FETCH", "/a.md")).metadata["etag"] == etag
        assert await world.ask("PUBLISH", "/a.md", b"") == Response("ok", {"version": "1"})

    async def test_there_has_to_be_a_document(self, a_world: Callable[..., Any]) -> None:
        world = await a_world()
        assert message(await world.ask("PUBLISH", "/a.md", b"")) == "/a.md not found"


class TestArchive:
    async def test_c_17_archiving_is_repeatable_and_changes_no_version(self, a_world: Callable[..., Any]) -> None:
        world = await a_world()
        await world.publish("/a.md")
        for _ in range(2):
            assert await world.ask("ARCHIVE", "/a.md", b"ignored") == Response(
                "ok", {"archived": "true", "version": "1"}
            )

    @pytest.mark.parametrize("path", ["/none.md", "/notes", "/", "/notes/a.md/v1", "/none.txt"])
    async def test_there_has_to_be_a_document(self, a_world: Callable[..., Any], path: str) -> None:
        world = await a_world()
        await world.publish("/notes/a.md")
        assert message(await world.ask("ARCHIVE", path)) == f"{path} not found"


class TestAppend:
    async def test_c_6_text_is_added_and_metadata_kept(self, a_world: Callable[..., Any]) -> None:
        world = await a_world()
        await world.publish("/a.md", b"one", tags="a,b", importance="0.8", title="T")
        response = await world.ask("APPEND", "/a.md", b"two", expected_version="1", importance="0.9")
        assert (response.status, response.metadata["version"]) == ("created", "2")
        fetched = await world.ask("FETCH", "/a.md")
        assert fetched.body == b"one\ntwo"
        kept = {key: fetched.metadata[key] for key in ("tags", "importance", "title", "type")}
        assert kept == {"tags": "a,b", "importance": "0.9", "title": "T", "type": "Document"}

    async def test_c_8_a_merge_over_the_limits_is_a_bad_request(self, a_world: Callable[..., Any]) -> None:
        world = await a_world()
        await world.publish("/a.md", b"one", a="x" * 600)
        response = await world.ask("APPEND", "/a.md", b"two", expected_version="1", b="x" * 600)
        assert response.status == "bad-request"
        assert message(response) == "invalid publisher metadata: metadata too large (max 1024 bytes)"

    @pytest.mark.parametrize("expected", ["1", "9"])
    async def test_a_stale_append_is_a_conflict_with_its_own_advice(
        self, a_world: Callable[..., Any], expected: str
    ) -> None:
        world = await a_world()
        await world.publish("/a.md", b"one")
        await world.publish("/a.md", b"two")
        response = await world.ask("APPEND", "/a.md", b"x", expected_version=expected)
        assert response.metadata == {"your-version": expected, "server-version": "2"}
        assert b"verify whether your append was applied" in response.body


class TestRights:
    @pytest.mark.parametrize(
        ("words", "permitted"),
        [
            (("publish",), {"PUBLISH", "unarchive", "APPEND", "ARCHIVE"}),
            (("write",), {"PUBLISH", "APPEND"}),
            (("append",), {"APPEND"}),
            (("archive",), {"unarchive", "ARCHIVE"}),
            (("read", "prune", "review", "admin"), set()),
        ],
    )
    async def test_a_18_each_write_needs_its_own_operation(
        self, a_world: Callable[..., Any], words: tuple[str, ...], permitted: set[str]
    ) -> None:
        world = await a_world(tokens=(("admin", "/**", ("publish",)), ("some", "/**", words)))
        await world.publish("/a.md")
        answers = {
            "unarchive": await world.ask("PUBLISH", "/a.md", b"", auth="some"),
            "APPEND": await world.ask("APPEND", "/a.md", b"x", auth="some", expected_version="1"),
            "PUBLISH": await world.ask("PUBLISH", "/a.md", b"y", auth="some"),
            "ARCHIVE": await world.ask("ARCHIVE", "/a.md", auth="some"),
        }
        assert {name for name, answer in answers.items() if answer.status in ("ok", "created")} == permitted
        assert {a.status for a in answers.values()} - {"ok", "created"} <= {"not-permitted"}

    async def test_a_2_retention_needs_the_right_to_prune(self, a_world: Callable[..., Any]) -> None:
        world = await a_world(tokens=(("writer", "/**", ("publish",)), ("admin", "/**", ("publish", "prune"))))
        await world.publish("/a.md", b"one")
        for verb, body in (("PUBLISH", b"two"), ("APPEND", b"two")):
            response = await world.ask(verb, "/a.md", body, auth="writer", expected_version="1", retention="1")
            assert (response.status, message(response)) == ("not-permitted", "retention needs the prune right")
        await world.publish("/a.md", b"two", retention="1")
        assert (await world.ask("FETCH", "/a.md/v1")).status == "not-found"
        assert (await world.ask("FETCH", "/a.md")).metadata["retention"] == "1"
        compatible = await a_world(tokens=(("writer", "/**", ("publish",)),), compatible=True)
        for body in (b"one", b"two"):
            assert (await compatible.ask("PUBLISH", "/a.md", body, auth="writer", retention="1")).status == "created"
        assert (await compatible.ask("FETCH", "/a.md/v1")).status == "not-found"

    async def test_c_7_retention_is_not_inherited(self, a_world: Callable[..., Any]) -> None:
        world = await a_world()
        await world.publish("/a.md", b"one", retention="2")
        await world.ask("APPEND", "/a.md", b"two", expected_version="1")
        await world.ask("APPEND", "/a.md", b"three", expected_version="2")
        assert "retention" not in (await world.ask("FETCH", "/a.md")).metadata
        assert (await world.ask("FETCH", "/a.md/v1")).status == "ok"

    async def test_where_upstream_is_followed_publishing_is_enough_to_prune(self, a_world: Callable[..., Any]) -> None:
        world = await a_world(compatible=True, tokens=(("admin", "/**", ("publish",)),))
        await world.publish("/a.md", b"one")
        await world.publish("/a.md", b"two", retention="1")
        assert (await world.ask("FETCH", "/a.md/v1")).status == "not-found"

    async def test_where_upstream_is_followed_a_segment_may_be_named_versions(
        self, a_world: Callable[..., Any]
    ) -> None:
        world = await a_world(compatible=True)
        await world.publish("/a/versions/b.md", b"x")
        assert (await world.ask("FETCH", "/a/versions/b.md")).body == b"x"


class TestWhoWrote:
    async def test_with_a_token_agent_and_user_are_opaque(self, a_world: Callable[..., Any]) -> None:
        world = await a_world()
        await world.publish("/a.md", b"x", agent="kettle", user="eve@example.com")
        fetched = (await world.ask("FETCH", "/a.md")).metadata
        assert (fetched["agent"], fetched["user"]) == ("kettle", "eve@example.com")

    async def test_with_a_grant_the_user_is_that_of_the_grant(
        self, a_world: Callable[..., Any], a_grant: Callable[..., str]
    ) -> None:
        world = await a_world(grants=True)
        auth = a_grant(("write", "/**"), user="ada@example.com")
        await world.ask("PUBLISH", "/a.md", b"x", auth=auth, agent="kettle", user="eve@example.com")
        fetched = (await world.ask("FETCH", "/a.md")).metadata
        assert (fetched["agent"], fetched["user"]) == ("kettle", "ada@example.com")

    async def test_a_grant_without_a_known_person_never_borrows_one(
        self, a_world: Callable[..., Any], a_grant: Callable[..., str]
    ) -> None:
        world = await a_world(grants=True)
        auth = a_grant(("write", "/**"), user=None)
        await world.ask("PUBLISH", "/a.md", b"x", auth=auth, user="eve@example.com")
        assert "user" not in (await world.ask("FETCH", "/a.md")).metadata
        await world.publish("/a.md", b"y", user="ada@example.com")
        await world.ask("APPEND", "/a.md", b"z", auth=auth, user="eve@example.com", expected_version="2")
        assert (await world.ask("FETCH", "/a.md")).metadata["user"] == ""

    async def test_a_grant_writes_only_where_it_says(
        self, a_world: Callable[..., Any], a_grant: Callable[..., str]
    ) -> None:
        world = await a_world(grants=True)
        auth = a_grant(("write", "/notes/**"), ("read", "/**"))
        assert (await world.ask("PUBLISH", "/notes/a.md", b"x", auth=auth)).status == "created"
        assert (await world.ask("PUBLISH", "/other.md", b"x", auth=auth)).status == "not-permitted"
        assert (await world.ask("ARCHIVE", "/notes/a.md", auth=auth)).status == "not-permitted"
