"""Requests to bytes and back, and what is answered to bytes that are none."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from mark_protocol import limits
from mark_protocol.request import Request, RequestError, Verb, encode_request, parse_request
from mark_protocol.status import Status


def refusal(data: bytes) -> tuple[Status, str]:
    with pytest.raises(RequestError) as caught:
        parse_request(data)
    return caught.value.status, caught.value.message


MALFORMED = (Status.BAD_REQUEST, "bad request")
UNREADABLE = (Status.SERVER_ERROR, "could not read request")


def test_path_is_kept_as_sent() -> None:
    assert parse_request(b"FETCH //a b%20/../c.md?x=1#y \n").path == "//a b%20/../c.md?x=1#y "


def test_bytes_of_a_path_survive() -> None:
    request = parse_request(b"FETCH /caf\xe9\xc2\x85.md\n")
    assert encode_request(request) == b"FETCH /caf\xe9\xc2\x85.md\n"


def test_one_carriage_return_before_the_line_feed_is_dropped() -> None:
    assert parse_request(b"FETCH /a.md\r\nbody\r\n") == Request(Verb.FETCH, "/a.md", {}, b"body\r\n")
    assert refusal(b"FETCH /a.md\r\r\n") == MALFORMED


def test_line_without_line_feed_is_a_request() -> None:
    assert parse_request(b"FETCH /a.md") == Request(Verb.FETCH, "/a.md")


def test_tab_in_a_path_is_allowed() -> None:  # A30
    assert parse_request(b"FETCH /a\tb.md\n").path == "/a\tb.md"


@pytest.mark.parametrize(
    "data",
    [
        b"\n",
        b"FETCH\n",
        b" /a.md\n",
        b"fetch /a.md\n",
        b"DELETE /a.md\n",
        b"FETCH \n",
        b"FETCH  /a.md\n",
        b"FETCH a.md\n",
        b"FETCH /a\x00.md\n",
        b"FETCH /a\x1f.md\n",
        b"FETCH /a\x7f.md\n",
        b"FETCH /" + b"a" * limits.PATH + b"\n",
        b"FETCH /a.md\n---\na: b\n",
        b"FETCH /a.md\n---\n- a\n---\n",
        b"FETCH /a.md\n---\na: \xff\n---\n",
        b"FETCH /a.md\n---\na: b\na: c\n---\n",
    ],
)
def test_faults_of_grammar_are_bad_requests(data: bytes) -> None:
    assert refusal(data) == MALFORMED


@pytest.mark.parametrize(
    "data",
    [
        b"",
        b"F" * 4097,
        b"FETCH /" + b"a" * 4090 + b"\n",
        b"PUBLISH /a.md\n" + b"a" * (limits.BODY + 1),
        b"PUBLISH /a.md\n" + b"a" * (limits.REQUEST_PAYLOAD + 1),
        b"PUBLISH /a.md\n---\na: " + b"b" * limits.METADATA_BLOCK + b"\n---\n",
    ],
    ids=["empty", "no line", "line", "body", "payload", "block"],
)
def test_a_23_limits_are_server_errors(data: bytes) -> None:  # A23
    assert refusal(data) == UNREADABLE


def test_everything_at_its_limit_is_accepted() -> None:
    block = b"a: " + b"b" * (limits.METADATA_BLOCK - 3)
    path = b"/" + b"a" * (limits.PATH - 1)
    request = parse_request(b"VERSIONS " + path + b"\n---\n" + block + b"\n---\n" + b"c" * limits.BODY)
    assert len(request.path) == limits.PATH
    assert len(request.metadata["a"]) == limits.METADATA_BLOCK - 3
    assert len(request.body) == limits.BODY


def test_body_with_front_matter_is_guarded_by_an_empty_block() -> None:  # C12
    request = Request(Verb.PUBLISH, "/a.md", {}, b"---\ntitle: mine\n---\n# Raw\n")
    assert encode_request(request) == b"PUBLISH /a.md\n---\n\n---\n---\ntitle: mine\n---\n# Raw\n"
    assert parse_request(encode_request(request)) == request


def test_body_that_only_looks_like_a_fence_needs_no_guard() -> None:
    request = Request(Verb.PUBLISH, "/a.md", {}, b"----\n")
    assert encode_request(request) == b"PUBLISH /a.md\n----\n"


@pytest.mark.parametrize(
    "request_",
    [
        Request(Verb.FETCH, "a.md"),
        Request(Verb.FETCH, "/a\nb"),
        Request(Verb.FETCH, "/" + "a" * limits.PATH),
        Request(Verb.FETCH, "/\ud800"),
        Request(Verb.PUBLISH, "/a.md", {}, b"a" * (limits.BODY + 1)),
        Request(Verb.PUBLISH, "/a.md", {"a": "b" * limits.METADATA_BLOCK}),
    ],
    ids=["relative", "control", "long", "surrogate", "body", "metadata"],
)
def test_what_no_server_could_read_is_not_sent(request_: Request) -> None:
    with pytest.raises(ValueError):  # noqa: PT011 -- the text is for people
        encode_request(request_)


def test_credential_is_not_in_representation_or_error() -> None:  # A19
    request = parse_request(b"FETCH /a.md\n---\nauth: tea-party-secret\n---\n")
    assert "tea-party" not in repr(request)
    with pytest.raises(RequestError) as caught:
        parse_request(b"FETCH /a.md\n---\nauth: [tea-party-secret]\n---\n")
    assert "tea-party" not in repr(caught.value)


text = st.text(alphabet=st.characters(exclude_categories=["Cs"]), max_size=12)
paths = st.text(alphabet=st.characters(exclude_categories=["Cs", "Cc"]), max_size=20).map("/".__add__)
requests = st.builds(
    Request, st.sampled_from(Verb), paths, st.dictionaries(text, text, max_size=4), st.binary(max_size=60)
)


@given(requests)
def test_what_is_sent_is_received(request_: Request) -> None:
    assert parse_request(encode_request(request_)) == request_


pieces = st.sampled_from(
    [b"FETCH", b"PUBLISH", b" ", b"/a.md", b"\n", b"\r\n", b"---\n", b"\n---\n", b"a: b", b"a: [", b"\xff", b"\0", b"x"]
)


@given(st.binary(max_size=60) | st.lists(pieces, max_size=10).map(b"".join))
def test_any_bytes_are_a_request_or_a_request_error(data: bytes) -> None:
    try:
        request = parse_request(data)
    except RequestError:
        return
    assert request.path.startswith("/")
