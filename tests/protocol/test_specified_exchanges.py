"""The examples of the Mark protocol's reference, byte for byte: read, written, and made from their parts."""

from pathlib import Path

import pytest

from mark_protocol import frontmatter, listings, status
from mark_protocol.cursors import decode_cursor, encode_cursor
from mark_protocol.frontmatter import decode_block, encode_block
from mark_protocol.listings import Child, VersionLine, parse_list, parse_versions, render_list, render_versions
from mark_protocol.request import Request, Verb, encode_request, parse_request
from mark_protocol.response import Response, encode_response, parse_response
from mark_protocol.status import Status

EXCHANGES = Path(__file__).parent / "exchanges"
TOKEN = "tea-party-secret"


def example(name: str) -> bytes:
    return (EXCHANGES / name).read_bytes()


@pytest.mark.parametrize("name", sorted(path.name for path in EXCHANGES.glob("*.request")))
def test_requests_round_trip(name: str) -> None:
    assert encode_request(parse_request(example(name))) == example(name)


@pytest.mark.parametrize("name", sorted(path.name for path in EXCHANGES.glob("*.response")))
def test_responses_round_trip(name: str) -> None:
    assert encode_response(parse_response(example(name))) == example(name)


def test_block_of_a_watch_event_round_trips() -> None:
    block, rest = frontmatter.split(example("watch-event.block"))
    assert (block is not None, rest) == (True, b"")
    assert frontmatter.FENCE + encode_block(decode_block(block or b"")) + frontmatter.FENCE == example(
        "watch-event.block"
    )


def test_create() -> None:
    metadata = {"auth": TOKEN, "expected-version": "0", "importance": "0.8", "tags": "drinks, kitchen"}
    body = b"# Tea\n\nBoil water first.\n"
    assert encode_request(Request(Verb.PUBLISH, "/notes/tea.md", metadata, body)) == example("create.request")


def test_append_body_begins_with_an_empty_line() -> None:
    assert parse_request(example("append.request")).body == b"\n## Black\n\nSteep four minutes.\n"


def test_own_front_matter_stays_in_the_body() -> None:  # C12
    request = parse_request(example("own-front-matter.request"))
    assert request == Request(Verb.PUBLISH, "/notes/raw.md", {}, b"---\ntitle: mine\n---\n# Raw\n")


def test_errors() -> None:
    missing = Response.error(Status.NOT_FOUND, "/notes/coffee.md not found")
    assert encode_response(missing) == example("missing.response")
    archived = Response.error(Status.ARCHIVED, "/notes/tea.md is archived")
    assert encode_response(archived) == example("archived.response")
    unauthorized = Response.error(Status.UNAUTHORIZED, status.AUTHENTICATION_REQUIRED)
    assert encode_response(unauthorized) == example("unauthorized.response")
    assert encode_response(Response(Status.RATE_LIMITED)) == example("rate-limited.response")
    assert encode_response(Response(Status.NOT_MODIFIED)) == example("fetch-unchanged.response")
    assert encode_response(Response(Status.OK, {}, status.HEALTH_BODY)) == example("health.response")


def test_conflict() -> None:
    metadata = {"your-version": "1", "server-version": "3"}
    response = Response(Status.CONFLICT, metadata, listings.conflict_body(1, 3))
    assert encode_response(response) == example("conflict.response")


def test_list_pages() -> None:
    children = [Child("cups.md"), Child("old_pots", is_directory=True), Child("tea.md")]
    first, rest = (
        parse_response(example("list-first-page.response")),
        parse_response(example("list-last-page.response")),
    )
    page = render_list("/notes", children, page_size=1)
    assert (page.body, page.complete, page.children) == (first.body, False, tuple(children[:1]))
    cursor = encode_cursor("/notes", page.children[-1].name, include_archived=False)
    assert cursor == first.metadata["next-cursor"]
    assert decode_cursor(cursor, "/notes", include_archived=False) == "cups.md"
    page = render_list("/notes", children[1:])
    assert (page.body, page.complete) == (rest.body, True)
    assert parse_list(first.body) + parse_list(rest.body) == children


def test_versions() -> None:
    lines = [
        VersionLine(3, "2026-11-30T09:10:00Z"),
        VersionLine(2, "2026-11-30T09:05:00Z"),
        VersionLine(1, "2026-11-30T09:00:00Z"),
    ]
    body = parse_response(example("versions.response")).body
    assert render_versions("/notes/tea.md", lines) == body
    assert parse_versions(body) == lines
