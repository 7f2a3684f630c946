"""Mark protocol 9: tokens, patterns, decisions."""

from __future__ import annotations

import pytest

from tests.conformance.answers import Row, entries, parse, rows
from tests.conformance.server import Server, content_hash, eventually

rule = pytest.mark.rule

UNAUTHORIZED = ("unauthorized", "authentication required")
NOT_PERMITTED = ("not-permitted", "insufficient permissions")


def outcome(server: Server, verb: str, path: str, body: bytes = b"", *, role: str, **metadata: str) -> tuple[str, str]:
    """Status of a request, and the message of a refusal."""
    answer = server.ask(verb, path, body, role=role, **metadata)
    return answer.status, "" if answer.status in ("ok", "created") else answer.message


def writes(server: Server, path: str, role: str) -> bool:
    """Whether a role may write a document that is not there yet."""
    found = outcome(server, "PUBLISH", path, b"# Tea\n", role=role)
    assert found in (("created", ""), NOT_PERMITTED), found
    return found[0] == "created"


def found_by(server: Server, scope: str, query: str, *, role: str, limit: str = "20") -> list[Row]:
    """The rows of a LOOKUP in the order of their paths."""
    found = rows(server.ask("LOOKUP", scope, query=query, role=role, limit=limit), query, scope)
    return sorted(found, key=lambda row: row.path)


class TestTokens:
    @rule("9.1", "hash-only")
    def test_a_token_is_taken_as_its_text(self, server: Server, place: str) -> None:
        """One that looks like a number is the same with quotes and without."""
        token = server.token("digits")
        for index, sent in enumerate((token, f'"{token}"', f"'{token}'")):
            head = f"PUBLISH {place}/{index}.md\n---\nauth: {sent}\n---\nx"
            assert server.send(head.encode()).status == "created"
        for sent in (f"{token}0", f"+{token}", f'"{token} "', "0"):
            head = f"PUBLISH {place}/x.md\n---\nauth: {sent}\n---\nx"
            assert server.send(head.encode()).message == "authentication required"

    @rule("9.1", "hash-only")
    def test_the_hash_of_a_token_is_none(self, server: Server, place: str) -> None:
        digest = content_hash(server.token("full").encode())
        for sent in (digest, digest.removeprefix("sha256-")):
            head = f"PUBLISH {place}/x.md\n---\nauth: {sent}\n---\nx"
            assert server.send(head.encode()).message == "authentication required"

    @rule("9.1", "expiry")
    def test_an_expired_token_is_none(self, server: Server) -> None:
        place = server.place("tomb")
        assert outcome(server, "PUBLISH", f"{place}/a.md", b"x", role="expired") == UNAUTHORIZED
        assert outcome(server, "FETCH", f"{place}/a.md", role="expired") == UNAUTHORIZED

    @rule("9.1", "unknown-operations")
    def test_words_that_are_no_operation_permit_nothing(self, server: Server, place: str) -> None:
        for verb in ("PUBLISH", "APPEND", "ARCHIVE"):
            assert outcome(server, verb, f"{place}/a.md", b"x", role="dancer", expected_version="1") == NOT_PERMITTED


class TestPatterns:
    @rule("9.2", "star")
    def test_a_star_stays_inside_a_segment(self, server: Server) -> None:
        assert writes(server, server.name("star", ".md"), "star")
        assert not writes(server, f"{server.profile.base}/star/{server.run}/a.md", "star")
        assert not writes(server, server.name("starx", ".md"), "star")

    @rule("9.2", "star")
    def test_a_star_matches_nothing_too(self, server: Server) -> None:
        """So the pattern of the files in a directory protects the directory."""
        server.token("shelf")
        assert outcome(server, "LIST", f"{server.profile.base}/shelf", role="") == UNAUTHORIZED
        assert outcome(server, "FETCH", f"{server.profile.base}/shelf/x.md", role="") == UNAUTHORIZED
        if server.profile.reads == "public":
            path = f"{server.profile.base}/shelf/{server.run}/x.md"
            assert outcome(server, "FETCH", path, role="") == ("not-found", f"{path} not found")

    @rule("9.2", "signs")
    def test_classes_question_marks_and_backslashes(self, server: Server) -> None:
        """Names are of one run after the other, so a document may be there already."""
        signs = f"{server.profile.base}/signs"
        permitted = {
            name: server.ask("PUBLISH", f"{signs}/{name}", b"x", role="signs").status
            for name in ("ax.md", "bé.md", "c-.md", "*.md", "dx.md", "a.md", "axx.md", "x.md", "a/.md", "Ax.md")
        }
        denied = {name for name, status in permitted.items() if status == "not-permitted"}
        assert denied == {"dx.md", "a.md", "axx.md", "x.md", "a/.md", "Ax.md"}
        assert set(permitted.values()) <= {"not-permitted", "created", "ok", "archived"}

    @rule("9.2", "trailing")
    def test_two_stars_at_the_end_are_everything_below(self, server: Server) -> None:
        base = server.profile.base
        assert writes(server, f"{base}/two/{server.run}/deep/er/a.md", "several")
        assert writes(server, server.name("two", ".md"), "several")
        assert not writes(server, f"{base}/two.md", "several")
        assert outcome(server, "ARCHIVE", f"{base}/two", role="several") == NOT_PERMITTED
        assert outcome(server, "ARCHIVE", f"{base}/twox/a.md", role="several") == NOT_PERMITTED

    @rule("9.2", "several")
    def test_one_pattern_is_enough(self, server: Server) -> None:
        assert writes(server, server.name("one", ".md"), "several")
        assert writes(server, server.name("two", "/a.md"), "several")
        assert not writes(server, server.name("one", "/a.md"), "several")

    @rule("9.2", "infix")
    def test_two_stars_inside_are_any_number_of_segments(self, server: Server) -> None:
        infix, run = f"{server.profile.base}/infix", server.run
        for path in (f"notes/{run}.md", f"{run}/notes/a.md", f"{run}/b/c/notes/a.md", f"{run}/notes/notes/a.md"):
            assert writes(server, f"{infix}/{path}", "infix"), path
        for path in (f"{run}.md", f"{run}/a.md", f"{run}/notes/b/a.md", f"{run}/xnotes/a.md", f"{run}/notesx/a.md"):
            assert not writes(server, f"{infix}/{path}", "infix"), path

    @rule("9.2", "literal-prefix")
    def test_a_wildcard_before_two_stars_means_itself(self, server: Server) -> None:
        base = server.profile.base
        assert not writes(server, f"{base}/lit-x/{server.run}.md", "literal")
        assert writes(server, f"{base}/lit-*/{server.run}.md", "literal")

    @rule("9.3", "write-steps")
    def test_the_canonical_path_is_matched(self, server: Server) -> None:
        base = server.profile.base
        assert writes(server, f"/{base}//star/./{server.run}-canonical.md/", "star")
        assert not writes(server, f"{base}/star//{server.run}/./x.md", "star")


class TestDecisions:
    @rule("9.3", "write-steps")
    def test_token_then_operation_then_path(self, server: Server) -> None:
        vault, place = server.place("vault"), server.place()
        for verb in ("PUBLISH", "APPEND", "ARCHIVE"):
            for path in (f"{vault}/a.md", f"{place}/a.md"):
                assert outcome(server, verb, path, b"x", role="", expected_version="1") == UNAUTHORIZED
                assert outcome(server, verb, path, b"x", role="unknown", expected_version="1") == UNAUTHORIZED
                assert outcome(server, verb, path, b"x", role="reader", expected_version="1") == NOT_PERMITTED
            assert outcome(server, verb, f"{place}/a.md", b"x", role="vault", expected_version="1") == NOT_PERMITTED
        assert outcome(server, "PUBLISH", f"{vault}/a.md", b"x", role="vault") == ("created", "")
        assert outcome(server, "APPEND", f"{vault}/a.md", b"y", role="vault", expected_version="1") == ("created", "")
        assert outcome(server, "ARCHIVE", f"{vault}/a.md", role="vault") == ("ok", "")

    @rule("9.3", "public")
    def test_what_no_read_token_covers_is_open(self, server: Server, place: str) -> None:
        if server.profile.reads != "public":
            server.cannot("every read of this server needs a token")
        server.publish(f"{place}/a.md")
        for role in ("", "unknown", "expired", "star", "reader", "full"):
            assert outcome(server, "FETCH", f"{place}/a.md", role=role) == ("ok", "")
            assert outcome(server, "VERSIONS", f"{place}/a.md", role=role) == ("ok", "")

    @rule("9.3", "private")
    @rule("9.3", "everywhere")
    def test_what_one_covers_needs_a_token(self, server: Server) -> None:
        place = server.place("vault")
        server.publish(f"{place}/sub/a.md", b"x", role="vault", tags="kettle")
        requests = {
            "document": ("FETCH", f"{place}/sub/a.md", {}),
            "version": ("FETCH", f"{place}/sub/a.md/v1", {}),
            "directory": ("FETCH", f"{place}/sub", {}),
            "list": ("LIST", f"{place}/sub", {}),
            "versions": ("VERSIONS", f"{place}/sub/a.md", {}),
        }
        eventually("a listing", lambda: server.ask("LIST", f"{place}/sub", role="reader").status == "ok")
        for name, (verb, path, metadata) in requests.items():
            for role in ("", "unknown", "expired"):
                assert outcome(server, verb, path, role=role, **metadata) == UNAUTHORIZED, (name, role)
            for role in ("several", "star", "shelf"):
                assert outcome(server, verb, path, role=role, **metadata) == NOT_PERMITTED, (name, role)
            for role in ("reader", "vault"):
                assert outcome(server, verb, path, role=role, **metadata) == ("ok", ""), (name, role)
        eventually("a row", lambda: server.ask("LOOKUP", place, query="kettle", role="reader").meta["matches"] == "1")
        for role in ("", "star"):
            answer = server.ask("LOOKUP", place, query="kettle", role=role)
            assert answer.meta.get("matches", "0") == "0"
        stream = server.watch(f"{place}/", role="reader")
        assert parse(stream.block()).status == "ok"
        stream.cancel()
        assert parse(server.watch(f"{place}/", role="").whole()).message == "authentication required"
        assert parse(server.watch(f"{place}/sub/a.md", role="star").whole()).message == "insufficient permissions"

    @rule("9.3", "everywhere")
    def test_entries_are_filtered_one_by_one(self, server: Server) -> None:
        if server.profile.reads != "public":
            server.cannot("where every read needs a token, no directory is open that holds a private one")
        server.publish(f"{server.place('vault')}/a.md", role="vault")
        server.publish(f"{server.place()}/a.md")
        base = server.profile.base
        eventually("the area", lambda: "vault/" in entries(server.ask("LIST", base, role="vault"), base))
        assert "vault/" not in entries(server.ask("LIST", base, role=""), base)
        assert "vault/" not in entries(server.ask("LIST", base, role="full"), base)
        assert "vault/" not in entries(server.ask("FETCH", base, role=""), base)
        assert "vault/" in entries(server.ask("FETCH", base, role="reader"), base)

    @rule("9.3", "everywhere")
    @rule("4.2", "filtered-before-paging")
    @rule("4.7", "rows-authorised")
    def test_single_files_of_an_open_directory_may_be_private(self, server: Server) -> None:
        server.token("spots")
        if server.profile.reads != "public":
            server.cannot("every read of this server needs a token")
        mixed, word = f"{server.profile.base}/mixed", f"word{server.run}"
        names = [f"{kind}-{server.run}-{number}.md" for kind in ("open", "secret", "this") for number in (1, 2)]
        visible = [name for name in names if not name.startswith("secret")]
        watches = {role: server.watch(f"{mixed}/", role=role) for role in ("", "spots")}
        for stream in watches.values():
            assert parse(stream.block()).status == "ok"
        server.publish_all({f"{mixed}/{name}": b"x" for name in names}, tags=word)

        def listed(verb: str, role: str) -> list[str]:
            shown = entries(server.ask(verb, mixed, role=role), mixed)
            return [name for name in shown if server.run in name]

        for verb in ("LIST", "FETCH"):
            eventually("all names", lambda verb=verb: listed(verb, "spots") == names)
            assert listed(verb, "") == listed(verb, "star") == visible
        first = server.ask("LIST", mixed, role="", page_size="1")
        while first.meta["complete"] == "false":
            assert "secret" not in first.text
            assert first.meta["entries"] == "1"
            first = server.ask("LIST", mixed, role="", page_size="1", cursor=first.meta["next-cursor"])
        for role, expected in (("", visible), ("spots", names)):
            eventually(
                "rows of what may be read",
                lambda role=role, expected=expected: (
                    [row.path.rpartition("/")[2] for row in found_by(server, mixed, word, role=role)] == expected
                ),
            )
            assert len(found_by(server, mixed, word, role=role, limit="4")) == 4
            told = [server.event(watches[role])["path"].rpartition("/")[2] for _ in expected]
            assert sorted(told) == expected
            watches[role].cancel()

    @rule("9.3", "expired-covers")
    def test_the_patterns_of_an_expired_token_still_protect(self, server: Server) -> None:
        place = server.place("tomb")
        server.publish(f"{place}/a.md", role="full")
        for role in ("", "expired"):
            assert outcome(server, "FETCH", f"{place}/a.md", role=role) == UNAUTHORIZED
        assert outcome(server, "FETCH", f"{place}/a.md", role="star") == NOT_PERMITTED

    @rule("9.3", "with-slash")
    def test_a_directory_is_protected_by_the_pattern_of_what_is_in_it(self, server: Server) -> None:
        vault = f"{server.profile.base}/vault"
        server.publish(f"{server.place('vault')}/a.md", role="vault")
        for path in (vault, f"{vault}/"):
            for verb in ("LIST", "FETCH"):
                assert outcome(server, verb, path, role="") == UNAUTHORIZED
                assert outcome(server, verb, path, role="star") == NOT_PERMITTED
        eventually("a listing", lambda: server.ask("LIST", vault, role="reader").status == "ok")
        assert outcome(server, "FETCH", f"{vault}/", role="reader") == ("ok", "")

    @rule("9.3", "no-oracle")
    def test_a_protected_path_answers_alike_whether_or_not_it_exists(self, server: Server) -> None:
        place = server.place("vault")
        server.publish(f"{place}/a.md", role="vault")
        server.publish(f"{place}/gone.md", role="vault")
        assert server.ask("ARCHIVE", f"{place}/gone.md", role="vault").status == "ok"
        for role in ("", "star"):
            for verb in ("FETCH", "VERSIONS", "LIST"):
                there = [server.ask(verb, f"{place}/{name}", role=role).raw for name in ("a.md", "gone.md", "none.md")]
                assert there == [there[0]] * 3
            versions = [server.ask("FETCH", f"{place}/a.md/v{number}", role=role).raw for number in (1, 2)]
            assert versions == [versions[0]] * 2
