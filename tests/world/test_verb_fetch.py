"""FETCH: resolution, metadata, conditions, directories."""

import hashlib
from collections.abc import Callable
from typing import Any

import pytest

from mark_protocol.response import Response

PRIVATE = (("admin", "/**", ("publish",)), ("reader", "/vault/**", ("read",)))


def message(response: Response) -> str:
    return response.body.decode().split("\n")[3]


async def test_health_needs_nothing(a_world: Callable[..., Any]) -> None:
    world = await a_world(reads="universe", tokens=None)
    for path in ("/health", "//health", "/health/"):
        response = await world.ask("FETCH", path, auth="")
        assert response == Response("ok", {}, b"# Health Check\n\nServer is healthy.\n")


async def test_a_document_comes_with_its_metadata(a_world: Callable[..., Any]) -> None:
    world = await a_world()
    await world.publish("/notes/tea.md", b"# Tea\n", tags="a , b", importance="0.8")
    response = await world.ask("FETCH", "/notes/tea.md")
    assert response.body == b"# Tea\n"
    assert response.metadata == {
        "content-hash": "sha256-" + hashlib.sha256(b"# Tea\n").hexdigest(),
        "etag": response.metadata["etag"],
        "importance": "0.8",
        "modified": "2027-01-15T08:00:01Z",
        "tags": "a,b",
        "type": "Document",
        "version": "1",
    }


async def test_publisher_keys_never_hide_those_of_the_server(a_world: Callable[..., Any]) -> None:
    world = await a_world()
    await world.publish("/a.md", limit="3", complete="true")
    response = await world.ask("FETCH", "/a.md")
    assert (response.metadata["limit"], response.metadata["complete"]) == ("3", "true")


async def test_missing_and_archived_documents(a_world: Callable[..., Any]) -> None:
    world = await a_world()
    await world.publish("/a.md")
    await world.ask("ARCHIVE", "/a.md")
    assert await world.ask("FETCH", "/a.md") == Response("archived", {}, b"\n# Archived\n\n/a.md is archived\n")
    assert await world.ask("FETCH", "/b.md") == Response("not-found", {}, b"\n# Not found\n\n/b.md not found\n")


class TestVersions:
    async def test_a_31_versions_are_fetched_by_number(self, a_world: Callable[..., Any]) -> None:
        world = await a_world()
        await world.publish("/a.md", b"one")
        await world.publish("/a.md", b"two")
        await world.ask("ARCHIVE", "/a.md")
        for path in ("/a.md/v1", "/a.md/v01", "/a.md/v+1", "/a.md/v1/"):
            response = await world.ask("FETCH", path)
            assert (response.body, response.metadata["version"]) == (b"one", "1")
            assert response.metadata["current-version"] == "2"

    @pytest.mark.parametrize("path", ["/a.md/v3", "/a.md/v0", "/a.md/v-1", "/a.md/V1", "/a.md/v", "/b.md/v1", "/v1"])
    async def test_a_31_what_is_no_version_is_not_found(self, a_world: Callable[..., Any], path: str) -> None:
        world = await a_world()
        await world.publish("/a.md")
        assert message(await world.ask("FETCH", path)) == f"{path} not found"

    async def test_a_31_below_a_directory_a_version_is_a_plain_path(self, a_world: Callable[..., Any]) -> None:
        world = await a_world()
        await world.publish("/api/v2/x.md")
        assert (await world.ask("FETCH", "/api/v2")).metadata["entries"] == "1"
        assert (await world.ask("FETCH", "/api/v2/x.md")).status == "ok"

    async def test_the_read_right_is_that_of_the_document(self, a_world: Callable[..., Any]) -> None:
        world = await a_world(tokens=(("admin", "/**", ("publish",)), ("reader", "/vault/a.md", ("read",))))
        await world.publish("/vault/a.md")
        assert (await world.ask("FETCH", "/vault/a.md/v1", auth="")).status == "unauthorized"
        assert (await world.ask("FETCH", "/vault/a.md/v1", auth="reader")).status == "ok"

    async def test_versions_of_the_agent_manifest_are_open(self, a_world: Callable[..., Any]) -> None:
        world = await a_world(reads="scoped")
        await world.publish("/.well-known/agent-manifest.md")
        for path in ("/.well-known/agent-manifest.md", "/.well-known/agent-manifest.md/v1"):
            assert (await world.ask("FETCH", path, auth="")).status == "ok"


class TestContentAddresses:
    ADDRESS = "/sha256-" + hashlib.sha256(b"# Tea\n").hexdigest()

    async def test_the_smallest_path_that_may_be_read_answers(self, a_world: Callable[..., Any]) -> None:
        world = await a_world(tokens=PRIVATE)
        await world.publish("/vault/a.md", title="secret")
        await world.publish("/x.md", title="second")
        await world.publish("/y.md", title="third")
        assert (await world.ask("FETCH", self.ADDRESS, auth="")).metadata["title"] == "second"
        assert (await world.ask("FETCH", self.ADDRESS, auth="reader")).metadata["title"] == "secret"

    async def test_an_unreadable_body_looks_like_a_missing_one(self, a_world: Callable[..., Any]) -> None:
        world = await a_world(tokens=PRIVATE)
        absent = await world.ask("FETCH", self.ADDRESS, auth="")
        await world.publish("/vault/a.md")
        assert await world.ask("FETCH", self.ADDRESS, auth="") == absent
        assert message(absent) == f"content not found for hash {self.ADDRESS[1:]}"

    async def test_only_current_bodies_of_live_documents_are_found(self, a_world: Callable[..., Any]) -> None:
        world = await a_world()
        await world.publish("/a.md")
        await world.publish("/b.md")
        await world.ask("ARCHIVE", "/a.md")
        assert (await world.ask("FETCH", self.ADDRESS)).status == "ok"
        await world.publish("/b.md", b"other")
        assert (await world.ask("FETCH", self.ADDRESS)).status == "not-found"
        await world.publish("/a.md", b"")  # unarchive
        assert (await world.ask("FETCH", self.ADDRESS)).status == "ok"


class TestConditions:
    async def test_the_etag_of_now_is_not_modified(self, a_world: Callable[..., Any]) -> None:
        world = await a_world()
        await world.publish("/a.md")
        etag = (await world.ask("FETCH", "/a.md")).metadata["etag"]
        for path in ("/a.md", "/a.md/v1", "/sha256-" + hashlib.sha256(b"# Tea\n").hexdigest()):
            assert await world.ask("FETCH", path, if_none_match=etag) == Response("not-modified")
        assert (await world.ask("FETCH", "/a.md", if_none_match=f'"{etag}"')).status == "ok"

    @pytest.mark.parametrize(
        ("since", "status"),
        [
            ("2027-01-15T08:00:01Z", "not-modified"),  # equal: not after
            ("2027-01-15T09:00:01+01:00", "not-modified"),
            ("2099-01-01T00:00:00.5Z", "not-modified"),
            ("2027-01-15T08:00:00Z", "ok"),
            ("2099-01-01", "ok"),  # pitfall A33: no RFC 3339 time, so ignored
            ("2099-01-01T00:00:00", "ok"),
            ("2099-01-01t00:00:00z", "ok"),
            ("tomorrow", "ok"),
        ],
    )
    async def test_a_33_times_count_if_they_are_rfc_3339(
        self, a_world: Callable[..., Any], since: str, status: str
    ) -> None:
        world = await a_world()
        await world.publish("/a.md")
        assert (await world.ask("FETCH", "/a.md", if_modified_since=since)).status == status

    @pytest.mark.parametrize(("compatible", "status"), [(False, "ok"), (True, "not-modified")])
    async def test_beside_a_stale_etag_time_counts_only_where_upstream_is_followed(
        self, a_world: Callable[..., Any], compatible: bool, status: str
    ) -> None:
        world = await a_world(compatible=compatible)
        await world.publish("/a.md")
        since = "2099-01-01T00:00:00Z"
        assert (await world.ask("FETCH", "/a.md", if_none_match="0", if_modified_since=since)).status == status

    async def test_two_writes_in_one_second_are_told_apart_by_the_etag(self, a_world: Callable[..., Any]) -> None:
        world = await a_world()
        await world.publish("/a.md", b"one")
        etag = (await world.ask("FETCH", "/a.md")).metadata["etag"]
        world.clock[0] -= 2000
        await world.publish("/a.md", b"two")
        assert (await world.ask("FETCH", "/a.md", if_none_match=etag, if_modified_since="2099-01-01T00:00:00Z")).body


class TestDirectories:
    async def test_a_directory_answers_with_its_index(self, a_world: Callable[..., Any]) -> None:
        world = await a_world()
        await world.publish("/notes/index.md", b"# Notes\n")
        response = await world.ask("FETCH", "/notes/")
        assert (response.body, response.metadata["version"]) == (b"# Notes\n", "1")
        assert "type" not in response.metadata

    async def test_a_26_words_of_listings_in_metadata_are_not_the_state_of_a_listing(
        self, a_world: Callable[..., Any]
    ) -> None:
        world = await a_world()
        words = {"complete": "false", "next_cursor": "AQAA", "cursor": "x", "limit": "1", "query": "*", "op": "archive"}
        await world.publish("/notes/index.md", **words)
        fetched = await world.ask("FETCH", "/notes/")
        # They are metadata like any other: without them nobody could rebuild the bytes that the etag is of. That it is
        # a document says `version`; a listing has `entries`, which no metadata can be.
        assert fetched.metadata["complete"] == "false"
        assert "version" in fetched.metadata
        assert "entries" not in fetched.metadata
        assert (await world.ask("PUBLISH", "/notes/index.md", b"x", entries="1")).status == "bad-request"
        listed = await world.ask("LIST", "/notes/")
        assert listed.metadata == {"entries": "1", "complete": "true"}

    async def test_c_4_an_archived_index_counts_as_absent(self, a_world: Callable[..., Any]) -> None:
        world = await a_world()
        await world.publish("/notes/index.md")
        await world.publish("/notes/tea.md")
        await world.ask("ARCHIVE", "/notes/index.md")
        assert (await world.ask("FETCH", "/notes")).body == b"\n# Index of /notes/\n\n- [tea.md](tea.md)\n"
        assert (await world.ask("FETCH", "/notes/index.md")).status == "archived"

    async def test_a_listing_has_an_etag_of_its_body(self, a_world: Callable[..., Any]) -> None:
        world = await a_world()
        await world.publish("/notes/tea.md")
        response = await world.ask("FETCH", "/notes")
        digest = hashlib.sha256(response.body).hexdigest()
        assert response.metadata == {"entries": "1", "etag": digest, "content-hash": f"sha256-{digest}"}
        assert await world.ask("FETCH", "/notes", if_none_match=digest) == Response("not-modified")
        assert (await world.ask("FETCH", "/notes", if_modified_since="2099-01-01T00:00:00Z")).status == "ok"

    @pytest.mark.parametrize(("value", "entries"), [("true", "1"), ("True", "0"), ("1", "0"), ("", "0")])
    async def test_archived_documents_show_for_the_exact_word(
        self, a_world: Callable[..., Any], value: str, entries: str
    ) -> None:
        world = await a_world()
        await world.publish("/notes/tea.md")
        await world.ask("ARCHIVE", "/notes/tea.md")
        response = await world.ask("FETCH", "/notes", include_archived=value)
        assert response.metadata["entries"] == entries

    async def test_an_empty_world_has_a_root(self, a_world: Callable[..., Any]) -> None:
        world = await a_world()
        assert (await world.ask("FETCH", "/")).body == b"\n# Index of /\n\n"

    async def test_a_private_index_refuses_in_public_worlds(self, a_world: Callable[..., Any]) -> None:
        world = await a_world(tokens=(("admin", "/**", ("publish",)), ("reader", "/notes/index.md", ("read",))))
        await world.publish("/notes/index.md")
        assert (await world.ask("FETCH", "/notes", auth="")).status == "unauthorized"


async def test_a_4_a_damaged_version_is_told_from_a_missing_one(a_world: Callable[..., Any]) -> None:
    world = await a_world()
    await world.publish("/a.md")
    view = await world.engine.view(exact=True)
    await world.blobs.delete(view.head("/a.md").record.blob)
    fresh = await world.reopened()
    response = await fresh.ask("FETCH", "/a.md")
    assert (response.status, message(response)) == ("server-error", "stored data is damaged")
    assert "/a.md" in fresh.fault
    await fresh.engine.close()
