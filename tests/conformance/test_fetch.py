"""Mark protocol 4.1 and 4.9: FETCH."""

from __future__ import annotations

import hashlib
import re

import pytest

from tests.conformance.answers import entries
from tests.conformance.server import Server, content_hash, etag, eventually

rule = pytest.mark.rule

NOT_MODIFIED = b"---\nstatus: not-modified\n---\n"
TIME = re.compile(r"[0-9]{4}-[0-9]{2}-[0-9]{2}T[0-9]{2}:[0-9]{2}:[0-9]{2}Z")


def not_found(message: str) -> bytes:
    return f"---\nstatus: not-found\n---\n\n# Not found\n\n{message}\n".encode()


def by_hash(server: Server, body: bytes) -> str:
    """The address of a body, once the server knows it: that may take a second."""
    path = f"/{content_hash(body)}"
    eventually("a body to be found by its hash", lambda: server.ask("FETCH", path).status == "ok")
    return path


class TestDocuments:
    @rule("4.1", "health")
    def test_health_needs_no_token_and_minds_none(self, server: Server) -> None:
        healthy = b"---\nstatus: ok\n---\n# Health Check\n\nServer is healthy.\n"
        assert server.send(b"FETCH /health\n").raw == healthy
        assert server.ask("FETCH", "/health", role="unknown").raw == healthy
        assert server.send(b"FETCH //health/\n").raw == healthy

    @rule("4.1.1", "server-keys")
    def test_metadata_of_the_server(self, server: Server, place: str) -> None:
        body = b"# Tea\n\nBoil water first.\n"
        answer = server.publish(f"{place}/a.md", body)
        fetched = server.fetch(f"{place}/a.md")
        assert set(fetched.meta) == {"content-hash", "etag", "modified", "type", "version"}
        assert fetched.meta["version"] == "1"
        assert fetched.meta["content-hash"] == content_hash(body)
        assert fetched.meta["etag"] == etag(1, "", {"type": "Document"}, body)
        assert TIME.fullmatch(fetched.meta["modified"])
        assert fetched.meta["modified"] == answer.meta["modified"]

    @rule("4.1.1", "publisher-keys")
    def test_metadata_of_the_publisher(self, server: Server, place: str) -> None:
        sent = {
            "importance": "0.8",
            "title": "Tea: green",
            "zebra": " x ",
            "rel-source": "mark://a/b.md",
            "complete": "no",
        }
        server.publish(f"{place}/a.md", tags=" drinks , kitchen,,", **sent)
        meta = server.fetch(f"{place}/a.md").meta
        assert {key: meta[key] for key in sent} == sent
        assert meta["tags"] == "drinks,kitchen"

    @rule("4.1.1", "body-verbatim")
    def test_the_body_is_the_stored_one(self, server: Server, place: str) -> None:
        body = "---\nown: matter\n---\r\n\r\n# Tea  \n\n\ttab\u2028é\n\n".encode()
        server.publish(f"{place}/a.md", body)
        assert server.fetch(f"{place}/a.md").body == body
        server.append(f"{place}/a.md", b"more", expected=1)
        assert server.fetch(f"{place}/a.md/v1").body == body

    @rule("4.1", "archived")
    def test_an_archived_document_says_so(self, server: Server, place: str) -> None:
        server.publish(f"{place}/a.md")
        server.archive(f"{place}/a.md")
        raw = server.ask("FETCH", f"{place}/a.md").raw
        code = f"---\nstatus: archived\n---\n\n# Archived\n\n{place}/a.md is archived\n".encode()
        specification = b"---\nstatus: archived\n---\n"
        assert raw in (code, specification)
        server.reads("with a body" if raw == code else "without a body", of="16: FETCH of an archived document")

    @rule("4.1", "not-found")
    def test_what_is_not_there_is_not_found(self, server: Server, place: str) -> None:
        server.publish(f"{place}/a.md")
        for path in (f"{place}/b.md", f"{place}/a", f"{place}/a.md/b.md", f"{place}/A.md", f"{place}x"):
            assert server.ask("FETCH", path).raw == not_found(f"{path} not found")

    @rule("4.9", "hidden-paths")
    def test_hidden_names_are_found_by_their_exact_path(self, server: Server, place: str) -> None:
        server.publish(f"{place}/.hidden/a.md", b"one")
        server.publish(f"{place}/.b.md", b"two")
        assert server.fetch(f"{place}/.hidden/a.md").body == b"one"
        assert server.fetch(f"{place}/.b.md").body == b"two"

    @rule("4.9", "agent-manifest")
    def test_the_agent_manifest_may_always_be_read(self, server: Server) -> None:
        path = "/.well-known/agent-manifest.md"
        for role in ("", "unknown"):
            assert server.ask("FETCH", path, role=role).status in ("ok", "not-found", "archived")
        if not server.profile.alone:
            return
        # The role keeper makes all well-known documents private, and still everybody reads this one.
        assert server.ask("FETCH", "/.well-known/other.md", role="").status == "unauthorized"
        if server.ask("FETCH", path, role="").status != "ok":
            server.publish(path, b"# Site\n\n## Description\n\nTea.\n", role="keeper")
        assert server.ask("FETCH", path, role="").status == "ok"
        assert server.ask("FETCH", f"{path}/v1", role="").status == "ok"


class TestContentAddresses:
    @rule("4.1", "by-hash")
    def test_a_body_is_found_by_its_hash(self, server: Server, place: str) -> None:
        body = f"# Tea of {place}\n".encode()
        server.publish(f"{place}/a.md", body, tags="x")
        path = by_hash(server, body)
        assert server.fetch(path).raw == server.fetch(f"{place}/a.md").raw
        assert server.ask("FETCH", path, if_none_match=server.fetch(path).meta["etag"]).raw == NOT_MODIFIED

    @rule("4.1", "by-hash-smallest-path")
    def test_of_several_documents_the_smallest_path_is_taken(self, server: Server, place: str) -> None:
        body = f"# The same in {place}\n".encode()
        for name in ("b.md", "a/z.md", "a.md", "B.md", "é.md"):
            server.publish(f"{place}/{name}", body, name=name)
        path = f"/{content_hash(body)}"
        eventually("the smallest path", lambda: server.fetch(path).meta["name"] == "B.md")
        server.archive(f"{place}/B.md")
        eventually("the next one", lambda: server.fetch(path).meta["name"] == "a.md")

    @rule("4.1", "by-hash-heads-only")
    def test_neither_old_versions_nor_archived_documents_are_found(self, server: Server, place: str) -> None:
        old, new = f"# Old {place}\n".encode(), f"# New {place}\n".encode()
        server.publish(f"{place}/a.md", old)
        path = by_hash(server, old)
        server.publish(f"{place}/a.md", new)
        missing = not_found(f"content not found for hash {content_hash(old)}")
        eventually("the old body to be gone", lambda: server.ask("FETCH", path).raw == missing)
        path = by_hash(server, new)
        server.archive(f"{place}/a.md")
        eventually("the archived one to be gone", lambda: server.ask("FETCH", path).status == "not-found")
        assert server.ask("PUBLISH", f"{place}/a.md").status == "ok"
        by_hash(server, new)

    @rule("4.1", "by-hash-missing")
    def test_a_hash_of_nothing(self, server: Server) -> None:
        digest = content_hash(server.run.encode())
        assert server.ask("FETCH", f"/{digest}").raw == not_found(f"content not found for hash {digest}")

    @rule("4.1", "by-hash-missing")
    @pytest.mark.parametrize("path", ["/sha256-" + "A" * 64, "/sha256-" + "a" * 63, "/sha256-" + "a" * 65, "/sha256-"])
    def test_what_only_looks_like_a_hash_is_a_path(self, server: Server, path: str) -> None:
        assert server.ask("FETCH", path).raw == not_found(f"{path} not found")

    @rule("4.1", "by-hash-authorised")
    def test_a_hash_is_no_way_around_the_right_to_read(self, server: Server) -> None:
        place = server.place("vault")
        body = f"# Secret of {place}\n".encode()
        server.publish(f"{place}/a.md", body, role="vault")
        path = f"/{content_hash(body)}"
        eventually("the hash", lambda: server.ask("FETCH", path, role="vault").status == "ok")
        answer = server.ask("FETCH", path, role="")
        hidden = not_found(f"content not found for hash {content_hash(body)}")
        assert answer.status == "unauthorized" or answer.raw == hidden
        server.reads(answer.status, of="4.1: a hash of what one may not read")
        # A readable document with the same body may be shown, or the one that may not be read refused.
        server.publish(f"{server.place()}/z.md", body, name="open")
        shown = server.ask("FETCH", path, role="")
        assert shown.status in ("unauthorized", "not-found") or shown.meta["name"] == "open"


class TestVersions:
    @rule("4.1", "version-path")
    def test_a_version_is_part_of_the_path(self, server: Server, place: str) -> None:
        path = f"{place}/a.md"
        bodies = [b"# One\n", b"# Two\n", b"# Three\n"]
        for body in bodies:
            server.publish(path, body)
        for number, body in enumerate(bodies, 1):
            answer = server.fetch(f"{path}/v{number}")
            assert answer.body == body
            assert answer.meta["version"] == str(number)
            assert answer.meta["current-version"] == "3"
            assert answer.meta["content-hash"] == content_hash(body)
            again = server.ask("FETCH", f"{path}/v{number}", if_none_match=answer.meta["etag"])
            assert again.raw == NOT_MODIFIED
        assert "current-version" not in server.fetch(path).meta
        assert server.fetch(f"{path}/v3").meta["etag"] == server.fetch(path).meta["etag"]

    @rule("4.1", "version-path")
    def test_versions_of_an_archived_document_are_there(self, server: Server, place: str) -> None:
        server.publish(f"{place}/a.md", b"# One\n")
        before = server.fetch(f"{place}/a.md/v1")
        server.archive(f"{place}/a.md")
        assert server.fetch(f"{place}/a.md/v1").raw == before.raw

    @rule("4.1", "version-missing")
    def test_a_version_that_is_not_there(self, server: Server, place: str) -> None:
        server.publish(f"{place}/a.md")
        for path in (f"{place}/a.md/v2", f"{place}/a.md/v2147483647", f"{place}/none.md/v1"):
            assert server.ask("FETCH", path).raw == not_found(f"{path} not found")

    @rule("4.1", "version-numbers")
    @pytest.mark.parametrize("last", ["v0", "v-1", "v", "vx", "v1.0", "v1x", "V1", "v 1", "v99999999999999999999"])
    def test_other_last_segments_are_names(self, server: Server, place: str, last: str) -> None:
        server.publish(f"{place}/a.md")
        assert server.ask("FETCH", f"{place}/a.md/{last}").raw == not_found(f"{place}/a.md/{last} not found")

    @rule("4.1", "version-numbers")
    def test_only_a_version_needs_the_right_of_its_document(self, server: Server) -> None:
        """The files of the shelf are private, and what would be below them is not."""
        server.token("shelf")
        if server.profile.reads != "public":
            server.cannot("every read of this server needs a token")
        path = server.name("shelf", ".md")
        assert server.ask("FETCH", f"{path}/v1", role="").message == "authentication required"
        assert server.ask("FETCH", f"{path}/v1", role="shelf").raw == not_found(f"{path}/v1 not found")
        for last in ("v0", "v-1", "v1x"):
            assert server.ask("FETCH", f"{path}/{last}", role="").raw == not_found(f"{path}/{last} not found")

    @rule("4.1", "version-numbers")
    @pytest.mark.parametrize("last", ["v01", "v+1"])
    def test_spellings_of_one(self, server: Server, place: str, last: str) -> None:
        server.publish(f"{place}/a.md")
        answer = server.ask("FETCH", f"{place}/a.md/{last}")
        assert answer.status in ("ok", "not-found")
        server.reads("a version" if answer.status == "ok" else "a name", of=f"4.1: the last segment {last}")

    @rule("4.1", "version-below-directory")
    def test_below_a_directory_it_is_an_ordinary_path(self, server: Server, place: str) -> None:
        server.publish(f"{place}/api/v2/x.md", b"# X\n")
        server.publish(f"{place}/api/v3.md", b"# Three\n")
        assert entries(server.fetch(f"{place}/api/v2"), f"{place}/api/v2") == ["x.md"]
        assert server.fetch(f"{place}/api/v3.md").body == b"# Three\n"
        assert server.ask("FETCH", f"{place}/api/v1").raw == not_found(f"{place}/api/v1 not found")


class TestConditions:
    @rule("4.1", "if-none-match")
    def test_the_etag_as_it_is(self, server: Server, place: str) -> None:
        server.publish(f"{place}/a.md", tags="x")
        etag = server.fetch(f"{place}/a.md").meta["etag"]
        assert server.ask("FETCH", f"{place}/a.md", if_none_match=etag).raw == NOT_MODIFIED
        for other in (f'"{etag}"', f"W/{etag}", etag.upper(), f"{etag} ", f"{etag},x", "*", "", "0" * 64):
            assert server.ask("FETCH", f"{place}/a.md", if_none_match=other).status == "ok"

    @rule("4.1", "if-modified-since")
    def test_a_document_that_is_not_newer(self, server: Server, place: str) -> None:
        server.publish(f"{place}/a.md")
        modified = server.fetch(f"{place}/a.md").meta["modified"]
        for time in (modified, "2099-01-01T00:00:00Z", "2099-01-01T00:00:00.5+02:00", "2099-01-01T00:00:00-11:30"):
            assert server.ask("FETCH", f"{place}/a.md", if_modified_since=time).raw == NOT_MODIFIED
        for time in ("1970-01-01T00:00:00Z", "2020-02-29T23:59:59+01:00"):
            assert server.ask("FETCH", f"{place}/a.md", if_modified_since=time).status == "ok"
        assert server.ask("FETCH", f"{place}/a.md/v1", if_modified_since=modified).raw == NOT_MODIFIED

    @rule("4.1", "bad-times-ignored")
    @pytest.mark.parametrize(
        "time",
        [
            "2099-01-01", "2099-01-01T00:00:00", "2099-01-01 00:00:00Z", "2099-01-01t00:00:00z", "2099-13-01T00:00:00Z",
            "20990101T000000Z", "2099-01-01T00:00Z", "tomorrow", "4070908800", "2099-02-30T00:00:00Z", "",
        ],
    )  # fmt: skip
    def test_a_time_that_is_none_is_ignored(self, server: Server, place: str, time: str) -> None:
        server.publish(f"{place}/a.md")
        assert server.ask("FETCH", f"{place}/a.md", if_modified_since=time).status == "ok"

    @rule("4.1", "stale-etag")
    def test_both_conditions(self, server: Server, place: str) -> None:
        server.publish(f"{place}/a.md")
        meta = server.fetch(f"{place}/a.md").meta
        old = "1970-01-01T00:00:00Z"
        both = server.ask("FETCH", f"{place}/a.md", if_none_match=meta["etag"], if_modified_since=old)
        assert both.raw == NOT_MODIFIED
        assert server.ask("FETCH", f"{place}/a.md", if_none_match="0" * 64, if_modified_since=old).status == "ok"
        stale = server.ask("FETCH", f"{place}/a.md", if_none_match="0" * 64, if_modified_since=meta["modified"])
        assert stale.status in ("ok", "not-modified")
        reading = "the etag alone" if stale.status == "ok" else "the time still counts"
        server.reads(reading, of="16: a stale etag with a time that matches")


class TestDirectories:
    @rule("4.1.2", "index")
    def test_a_live_index_is_served(self, server: Server, place: str) -> None:
        server.publish(f"{place}/sub/index.md", b"# Index\n", tags="x")
        server.publish(f"{place}/sub/a.md")
        index = server.fetch(f"{place}/sub/index.md")
        for path in (f"{place}/sub", f"{place}/sub/"):
            assert server.fetch(path).raw == index.raw
        assert server.ask("FETCH", f"{place}/sub", if_none_match=index.meta["etag"]).raw == NOT_MODIFIED
        assert entries(server.ask("LIST", f"{place}/sub"), f"{place}/sub") == ["a.md", "index.md"]

    @rule("4.1.2", "archived-index")
    def test_an_archived_index_counts_as_absent(self, server: Server, place: str) -> None:
        server.publish(f"{place}/sub/index.md", b"# Index\n")
        server.publish(f"{place}/sub/a.md")
        server.archive(f"{place}/sub/index.md")
        assert server.ask("FETCH", f"{place}/sub/index.md").status == "archived"
        listing = eventually(
            "a listing", lambda: (found := server.fetch(f"{place}/sub")).meta.get("entries") == "1" and found
        )
        assert entries(listing, f"{place}/sub") == ["a.md"]

    @rule("4.1.2", "generated")
    def test_otherwise_a_listing_is_made(self, server: Server, place: str) -> None:
        for name in ("b.md", "a b.md", "sub/x.md"):
            server.publish(f"{place}/{name}")
        listed = eventually("three entries", lambda: (f := server.ask("LIST", place)).meta["entries"] == "3" and f)
        answer = server.fetch(place)
        assert answer.body == listed.body
        assert entries(answer, place) == ["a b.md", "b.md", "sub/"]
        digest = hashlib.sha256(answer.body).hexdigest()
        server.reads("yes" if "etag" in answer.meta else "no", of="16: etag and content-hash of generated listings")
        if "etag" in answer.meta:
            assert answer.meta == {"entries": "3", "etag": digest, "content-hash": f"sha256-{digest}"}
        else:
            assert answer.meta == {"entries": "3"}

    @rule("4.1.2", "generated-conditional")
    def test_a_listing_is_conditional_by_its_etag_alone(self, server: Server, place: str) -> None:
        server.publish(f"{place}/a.md")
        answer = eventually("a listing", lambda: (f := server.ask("FETCH", place)).status == "ok" and f)
        assert server.ask("FETCH", place, if_modified_since="2099-01-01T00:00:00Z").raw == answer.raw
        assert server.ask("FETCH", place, if_none_match="0" * 64).raw == answer.raw
        if "etag" in answer.meta:
            assert server.ask("FETCH", place, if_none_match=answer.meta["etag"]).raw == NOT_MODIFIED

    @rule("4.1.2", "include-archived")
    def test_archived_documents_show_for_the_exact_text_true(self, server: Server, place: str) -> None:
        server.publish(f"{place}/a.md")
        server.publish(f"{place}/b.md")
        server.archive(f"{place}/a.md")
        eventually("one entry", lambda: server.fetch(place).meta["entries"] == "1")
        assert entries(server.fetch(place, include_archived="true"), place) == ["a.md", "b.md"]
        for other in ("TRUE", "1", "yes", "false", "", "true "):
            assert entries(server.fetch(place, include_archived=other), place) == ["b.md"]

    @rule("4.1.2", "authorised")
    def test_a_directory_needs_the_right_to_read(self, server: Server) -> None:
        place = server.place("vault")
        server.publish(f"{place}/a.md", role="vault")
        eventually("a listing", lambda: server.ask("FETCH", place, role="vault").status == "ok")
        assert server.ask("FETCH", place, role="").message == "authentication required"
        server.publish(f"{place}/index.md", role="vault")
        assert server.ask("FETCH", place, role="").message == "authentication required"
        assert server.ask("FETCH", place, role="star").message == "insufficient permissions"
