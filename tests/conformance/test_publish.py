"""Mark protocol 4 (shared checks), 4.4 and 4.5: PUBLISH, unarchive, ARCHIVE."""

from __future__ import annotations

import pytest

from tests.conformance.answers import parse
from tests.conformance.server import Server, content_hash, request
from tests.conformance.wire import exchange_all

rule = pytest.mark.rule


def conflict(expected: int, current: int) -> str:
    """The body of a conflict."""
    if expected == 0:
        return (
            f"# Version Conflict\n\nA document already exists at this path (version {current}).\n\n"
            "Fetch the current version and publish with the correct expected-version to update it.\n"
        )
    return (
        "# Version Conflict\n\nThe document has been modified since you last fetched it.\n\n"
        f"Your version: {expected}\nServer version: {current}\n\n"
        "Please fetch the latest version and reapply your edits.\n"
    )


def refused(server: Server, verb: str, path: str, body: bytes = b"x", **metadata: str) -> tuple[str, str]:
    """Status and message of a write by `full`."""
    answer = server.ask(verb, path, body, role=metadata.pop("role", "full"), **metadata)
    return answer.status, answer.message


class TestSharedChecks:
    @rule("4", "reserved-hash-paths")
    @pytest.mark.parametrize("verb", ["PUBLISH", "APPEND", "ARCHIVE"])
    def test_content_addresses_are_reserved(self, server: Server, verb: str) -> None:
        path = f"/{content_hash(b'tea')}"
        for role in ("", "unknown", "full"):
            expected = ("bad-request", "paths matching /sha256-<hash> are reserved")
            assert refused(server, verb, path, role=role) == expected

    @rule("4", "read-only-first")
    @pytest.mark.parametrize("verb", ["PUBLISH", "APPEND", "ARCHIVE"])
    def test_a_read_only_server_says_so_first(self, server: Server, place: str, verb: str) -> None:
        if server.profile.read_only is None:
            server.cannot("the profile has no read-only server")
        for path in (f"{place}/a.md", f"{place}/a", f"/{content_hash(b'tea')}"):
            for role in ("", "full"):
                data = server.bytes_of(verb, path, b"\xff", role=role)
                answer = server.send(data, to=server.profile.read_only)
                assert (answer.status, answer.message) == ("not-permitted", "server is read-only")

    @rule("4", "no-token-store")
    @pytest.mark.parametrize(
        ("verb", "word"), [("PUBLISH", "publishing"), ("APPEND", "appending"), ("ARCHIVE", "archiving")]
    )
    def test_without_a_token_store_nobody_writes(self, server: Server, place: str, verb: str, word: str) -> None:
        if server.profile.without_tokens is None:
            server.cannot("the profile has no server without tokens")
        for body in (b"", b"x", b"\xff"):
            for token in ({}, {"auth": "anything"}):
                data = request(verb, f"{place}/a", body, **token)
                answer = server.send(data, to=server.profile.without_tokens)
                expected = ("not-permitted", f"{word} requires auth configuration")
                assert (answer.status, answer.message) == expected

    @rule("4", "authentication-before-content")
    @pytest.mark.parametrize("verb", ["PUBLISH", "APPEND", "ARCHIVE"])
    def test_the_token_is_looked_at_before_the_rest(self, server: Server, place: str, verb: str) -> None:
        for path, body in ((f"{place}/a", b"x"), (f"{place}/a.md", b"\xff"), (f"{place}/a.md", b"")):
            bad = {"status": "x", "expected_version": "x"}
            expected = ("unauthorized", "authentication required")
            assert refused(server, verb, path, body, role="", **bad) == expected
            assert refused(server, verb, path, body, role="unknown", **bad) == expected
            assert refused(server, verb, path, body, role="star", **bad) == (
                "not-permitted",
                "insufficient permissions",
            )

    @rule("4", "one-right-to-write")
    @pytest.mark.parametrize("verb", ["PUBLISH", "APPEND", "ARCHIVE"])
    def test_a_right_to_read_is_none_to_write(self, server: Server, verb: str) -> None:
        path = f"{server.place('vault')}/a.md"
        expected = ("not-permitted", "insufficient permissions")
        assert refused(server, verb, path, role="reader", expected_version="1") == expected


class TestContract:
    @rule("4.4", "md-only")
    @pytest.mark.parametrize("name", ["a", "a.txt", "a.MD", "a.md.txt", "md", "a.md/v1", "a.mdx"])
    def test_a_path_ends_in_md(self, server: Server, place: str, name: str) -> None:
        for body in (b"x", b"", b"\xff"):
            expected = ("bad-request", "publish path must end in .md")
            assert refused(server, "PUBLISH", f"{place}/{name}", body) == expected

    @rule("4.4", "utf-8-only")
    @pytest.mark.parametrize("body", [b"\xff", b"tea \x80", b"\xc3", b"\xed\xa0\x80", b"\xf4\x90\x80\x80", b"\xc0\xaf"])
    def test_a_body_is_utf_8(self, server: Server, place: str, body: bytes) -> None:
        expected = ("bad-request", "document body must be valid UTF-8 text")
        assert refused(server, "PUBLISH", f"{place}/a.md", body) == expected

    @rule("4.4", "check-order")
    def test_path_body_metadata_and_expectation_in_this_order(self, server: Server, place: str) -> None:
        bad = {"status": "x", "expected_version": "x"}
        assert refused(server, "PUBLISH", f"{place}/a", b"\xff", **bad)[1] == "publish path must end in .md"
        assert (
            refused(server, "PUBLISH", f"{place}/a.md", b"\xff", **bad)[1] == "document body must be valid UTF-8 text"
        )
        assert refused(server, "PUBLISH", f"{place}/a.md", **bad)[1] == 'metadata key "status" is reserved'
        assert refused(server, "PUBLISH", f"{place}/a.md", expected_version="x")[1] == "invalid expected-version"
        # An empty body unarchives: its metadata are not looked at.
        assert refused(server, "PUBLISH", f"{place}/a.md", b"", **bad) == ("not-found", f"{place}/a.md not found")


class TestPublish:
    @rule("4.4", "created")
    def test_a_new_version(self, server: Server, place: str) -> None:
        for number in (1, 2, 3):
            answer = server.publish(f"{place}/a.md", b"%d" % number)
            assert set(answer.meta) == {"modified", "version"}
            assert answer.meta["version"] == str(number)
            assert answer.body == b""
            assert server.fetch(f"{place}/a.md").body == b"%d" % number

    @rule("4.4", "unchanged")
    def test_the_same_again_makes_no_version(self, server: Server, place: str) -> None:
        first = server.publish(f"{place}/a.md", b"# Tea\n", tags="alpha,beta", x="1")
        before = server.fetch(f"{place}/a.md")
        for tags in ("alpha,beta", " alpha , beta,,"):
            answer = server.ask("PUBLISH", f"{place}/a.md", b"# Tea\n", tags=tags, x="1", expected_version="1")
            assert answer.status == "ok"
            assert answer.meta == {"modified": first.meta["modified"], "version": "1"}
            assert answer.body == b""
        assert server.fetch(f"{place}/a.md").raw == before.raw
        assert server.ask("VERSIONS", f"{place}/a.md").meta["total"] == "1"

    @rule("4.4", "unchanged")
    def test_the_default_type_is_no_change(self, server: Server, place: str) -> None:
        server.publish(f"{place}/a.md", b"x")
        assert server.ask("PUBLISH", f"{place}/a.md", b"x", type="Document").status == "ok"
        assert server.ask("PUBLISH", f"{place}/a.md", b"x", type=" ").status == "ok"

    @rule("4.4", "metadata-counts")
    def test_other_metadata_alone_make_a_version(self, server: Server, place: str) -> None:
        """By the code; the specification compares bodies only. Another value, one key more, one less: all alike."""
        server.publish(f"{place}/a.md", b"x", colour="green", taste="mild")
        some = [
            {"colour": "black", "taste": "mild"},
            {"colour": "black", "taste": "mild", "k": "x"},
            {"colour": "black"},
            {},
        ]
        statuses = [server.ask("PUBLISH", f"{place}/a.md", b"x", **metadata).status for metadata in some]
        assert statuses in (["created"] * 4, ["ok"] * 4)
        reading = "body and metadata" if statuses[0] == "created" else "the body alone"
        server.reads(reading, of="16: what makes a PUBLISH a change")
        if statuses[0] == "created":
            fetched = server.fetch(f"{place}/a.md")
            assert fetched.meta["version"] == "5"
            assert not {"colour", "taste", "k"} & fetched.meta.keys()

    @rule("4.4", "expected-version")
    def test_the_expected_version_is_the_newest_one(self, server: Server, place: str) -> None:
        path = f"{place}/a.md"
        assert server.publish(path, b"1", expected_version="0").meta["version"] == "1"
        assert server.publish(path, b"2", expected_version="1").meta["version"] == "2"
        assert server.publish(path, b"3", expected_version="").meta["version"] == "3"
        assert server.publish(path, b"4").meta["version"] == "4"
        assert server.publish(path, b"5", expected_version="+4").meta["version"] == "5"
        assert server.publish(path, b"6", expected_version="005").meta["version"] == "6"

    @rule("4.4", "expected-version-form")
    @pytest.mark.parametrize("text", ["x", "-1", "1.0", " 1", "1 ", "0x1", "1_0", "99999999999999999999", "١"])
    def test_what_is_no_expected_version(self, server: Server, place: str, text: str) -> None:
        expected = ("bad-request", "invalid expected-version")
        assert refused(server, "PUBLISH", f"{place}/a.md", expected_version=text) == expected

    @rule("4.4", "conflict")
    @pytest.mark.parametrize("expected", [0, 1, 3, 2147483647])
    def test_a_conflict_has_both_versions(self, server: Server, place: str, expected: int) -> None:
        path = f"{place}/a.md"
        server.publish(path, b"1")
        server.publish(path, b"2")
        answer = server.ask("PUBLISH", path, b"3", expected_version=str(expected))
        assert answer.status == "conflict"
        assert answer.meta == {"your-version": str(expected), "server-version": "2"}
        assert answer.text == conflict(expected, 2)
        assert server.fetch(path).body == b"2"

    @rule("4.4", "conflict")
    def test_nothing_there_is_version_0(self, server: Server, place: str) -> None:
        answer = server.ask("PUBLISH", f"{place}/a.md", b"x", expected_version="2")
        assert answer.meta == {"your-version": "2", "server-version": "0"}
        assert answer.text == conflict(2, 0)

    @rule("4.4", "archived")
    @rule("4.4", "conflict-before-archived")
    def test_an_archived_document_takes_no_writes(self, server: Server, place: str) -> None:
        path = f"{place}/a.md"
        server.publish(path, b"1")
        server.archive(path)
        expected = ("archived", "document is archived; unarchive first")
        for body in (b"1", b"2"):
            assert refused(server, "PUBLISH", path, body) == expected
            assert refused(server, "PUBLISH", path, body, expected_version="1") == expected
            stale = server.ask("PUBLISH", path, body, expected_version="3")
            assert (stale.status, stale.text) == ("conflict", conflict(3, 1))
            assert server.ask("PUBLISH", path, body, expected_version="0").text == conflict(0, 1)
        assert server.ask("VERSIONS", path).meta["total"] == "1"

    @rule("4.4", "collisions")
    @rule("4.4", "refused-leaves-nothing")
    def test_a_path_is_a_document_or_a_directory(self, server: Server, place: str) -> None:
        server.publish(f"{place}/a.md")
        server.publish(f"{place}/dir.md/b.md")
        collisions = {
            f"{place}/a.md/child.md": "a document exists at an ancestor",
            f"{place}/a.md/deep/child.md": "a document exists at an ancestor",
            f"{place}/dir.md": "a directory exists at this path",
        }
        for path, why in collisions.items():
            expected = ("bad-request", f"cannot publish {path}: {why}: path collision")
            assert refused(server, "PUBLISH", path) == expected
            assert refused(server, "PUBLISH", path, expected_version="0") == expected
            assert server.ask("PUBLISH", path, b"x", expected_version="1").status == "conflict"
            assert server.ask("VERSIONS", path).status == "not-found"
        assert server.ask("LIST", f"{place}/a.md").status == "not-found"

    @rule("4.4", "refused-leaves-nothing")
    def test_a_refused_write_leaves_no_trace(self, server: Server, place: str) -> None:
        path = f"{place}/sub/a.md"
        for body, metadata in ((b"\xff", {}), (b"x", {"status": "x"}), (b"x", {"expected_version": "4"})):
            server.ask("PUBLISH", path, body, **metadata)
        for verb in ("FETCH", "VERSIONS"):
            assert server.ask(verb, path).message == f"{path} not found"
        assert server.ask("LIST", place).message == f"{place} not found"
        assert server.publish(path).meta["version"] == "1"

    @rule("4.4", "racing-writers")
    def test_of_writers_that_expect_the_same_one_succeeds(self, server: Server, place: str) -> None:
        path = f"{place}/a.md"
        server.publish(path, b"base")
        requests = [server.bytes_of("PUBLISH", path, b"%d" % n, expected_version="1") for n in range(5)]
        answers = [parse(raw) for raw in exchange_all(server.connection(), requests)]
        assert sorted(answer.status for answer in answers) == ["conflict"] * 4 + ["created"]
        winner = next(n for n, answer in enumerate(answers) if answer.status == "created")
        assert server.fetch(path).body == b"%d" % winner
        assert server.ask("VERSIONS", path).meta["total"] == "2"

    @rule("4.4", "racing-writers")
    def test_writers_that_expect_nothing_lose_nothing(self, server: Server, place: str) -> None:
        """One that comes second may be told of an internal error; what is `created` is there."""
        path = f"{place}/a.md"
        answers = server.send_all(server.bytes_of("PUBLISH", path, b"%d" % n) for n in range(5))
        made = {answer.meta["version"]: n for n, answer in enumerate(answers) if answer.status == "created"}
        lost = {answer.status for answer in answers} - {"created", "ok"}
        assert lost <= {"server-error"}
        server.reads("some fail" if lost else "all succeed", of="4.4: racing writers without an expected version")
        assert server.ask("VERSIONS", path).meta["total"] == str(len(made))
        for version, n in made.items():
            assert server.fetch(f"{path}/v{version}").body == b"%d" % n


class TestArchive:
    @rule("4.5", "archive")
    def test_archiving_says_so_and_may_be_repeated(self, server: Server, place: str) -> None:
        path = f"{place}/a.md"
        server.publish(path, b"1")
        server.publish(path, b"2")
        for _ in range(2):
            answer = server.ask("ARCHIVE", path)
            code, specification = {"archived": "true", "version": "2"}, {}
            assert answer.status == "ok"
            assert answer.meta in (code, specification)
            assert answer.body == b""
            server.reads("yes" if answer.meta else "no", of="16: ARCHIVE answers with `archived` and `version`")

    @rule("4.5", "missing")
    @pytest.mark.parametrize("name", ["none.md", "none", "sub/none.txt"])
    def test_nothing_to_archive(self, server: Server, place: str, name: str) -> None:
        server.publish(f"{place}/a.md")
        assert refused(server, "ARCHIVE", f"{place}/{name}") == ("not-found", f"{place}/{name} not found")
        assert refused(server, "ARCHIVE", place) == ("not-found", f"{place} not found")

    @rule("4.5", "bytes-stay")
    def test_archiving_changes_no_byte_and_makes_no_version(self, server: Server, place: str) -> None:
        path = f"{place}/a.md"
        server.publish(path, tags="x")
        before, pinned = server.fetch(path), server.fetch(f"{path}/v1")
        for _ in range(3):
            server.archive(path)
            assert server.fetch(f"{path}/v1").raw == pinned.raw
            assert server.ask("PUBLISH", path, b"").status == "ok"
        assert server.fetch(path).raw == before.raw
        assert server.ask("VERSIONS", path).meta["total"] == "1"

    @rule("4.4.1", "unarchive")
    def test_an_empty_body_brings_it_back(self, server: Server, place: str) -> None:
        path = f"{place}/a.md"
        server.publish(path, b"1")
        server.publish(path, b"2")
        server.archive(path)
        answer = server.ask("PUBLISH", path, b"", expected_version="9", status="x")
        assert answer.raw == b'---\nstatus: ok\nversion: "2"\n---\n'
        assert server.fetch(path).body == b"2"
        assert server.publish(path, b"3").meta["version"] == "3"

    @rule("4.4.1", "no-op")
    def test_on_a_live_document_it_does_nothing(self, server: Server, place: str) -> None:
        path = f"{place}/a.md"
        server.publish(path, b"1")
        before = server.fetch(path)
        assert server.ask("PUBLISH", path, b"").raw == b'---\nstatus: ok\nversion: "1"\n---\n'
        assert server.fetch(path).raw == before.raw

    @rule("4.4.1", "missing")
    def test_nothing_to_bring_back(self, server: Server, place: str) -> None:
        assert refused(server, "PUBLISH", f"{place}/a.md", b"") == ("not-found", f"{place}/a.md not found")
