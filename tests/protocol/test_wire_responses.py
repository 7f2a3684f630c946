"""Responses to bytes and back."""

from contextlib import suppress

import pytest
from hypothesis import given
from hypothesis import strategies as st

from mark_protocol import limits
from mark_protocol.response import Response, ResponseError, encode_head, encode_response, parse_response
from mark_protocol.status import Status, error_body


def test_status_is_sorted_among_the_keys() -> None:
    response = Response(Status.CREATED, {"version": "1", "modified": "2026-11-30T09:00:00Z"})
    assert encode_response(response) == b'---\nmodified: "2026-11-30T09:00:00Z"\nstatus: created\nversion: "1"\n---\n'


def test_status_cannot_be_replaced_by_metadata() -> None:
    assert parse_response(encode_response(Response(Status.OK, {"status": "created"}))) == Response("ok")


def test_head_and_body_are_the_response() -> None:
    response = Response(Status.OK, {"version": "1"}, b"# Tea\n")
    assert encode_head(response) + response.body == encode_response(response)


def test_error_body_begins_with_an_empty_line() -> None:
    response = Response.error(Status.NOT_FOUND, "/a.md not found")
    assert encode_response(response) == b"---\nstatus: not-found\n---\n\n# Not found\n\n/a.md not found\n"


def test_error_body_gives_back_the_bytes_of_a_path() -> None:
    assert error_body(Status.NOT_FOUND, "/\udcff not found").endswith(b"/\xff not found\n")


def test_a_22_an_empty_stream_has_no_status() -> None:  # A22
    assert parse_response(b"") == Response("")


def test_answer_without_block_is_all_body() -> None:
    assert parse_response(b"# Tea\n") == Response("", {}, b"# Tea\n")


def test_blank_block_has_neither_status_nor_metadata() -> None:
    assert parse_response(b"---\n\n---\nbody") == Response("", {}, b"body")


def test_closing_fence_at_the_end_needs_no_line_feed() -> None:
    assert parse_response(b"---\nstatus: ok\n---") == Response("ok")


def test_unknown_keys_and_statuses_are_kept() -> None:
    assert parse_response(b"---\nstatus: too-large\nnew-key: x\n---\n") == Response("too-large", {"new-key": "x"})


@pytest.mark.parametrize("data", [b"---\nstatus: ok\n", b"---\nstatus: [ok]\n---\n", b"a" * (limits.RESPONSE + 1)])
def test_broken_answers_are_errors(data: bytes) -> None:
    with pytest.raises(ResponseError):
        parse_response(data)


def test_answer_of_four_mebibytes_is_accepted() -> None:
    assert len(parse_response(b"a" * limits.RESPONSE).body) == limits.RESPONSE


text = st.text(alphabet=st.characters(exclude_categories=["Cs"]), max_size=12)


@given(st.sampled_from(Status), st.dictionaries(text.filter(lambda key: key != "status"), text), st.binary(max_size=60))
def test_what_is_answered_is_received(status: Status, metadata: dict[str, str], body: bytes) -> None:
    response = Response(status, metadata, body)
    assert parse_response(encode_response(response)) == response


@given(st.binary(max_size=60) | st.binary(max_size=40).map(b"---\n".__add__))
def test_any_bytes_are_a_response_or_a_response_error(data: bytes) -> None:
    with suppress(ResponseError):
        parse_response(data)
