"""`mark://` URLs."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from mark_protocol.urls import MarkURL, URLError, parse_url, resolve


@pytest.mark.parametrize(
    ("text", "url"),
    [  # C40
        ("mark://host", MarkURL("host")),
        ("mark://host/", MarkURL("host")),
        ("MARK://Host/A.md", MarkURL("host", 6309, "/A.md")),
        ("mark://host:7000/a.md", MarkURL("host", 7000, "/a.md")),
        ("mark://host:/a.md", MarkURL("host", 6309, "/a.md")),
        ("mark://user:secret@host/a.md", MarkURL("host", 6309, "/a.md")),
        ("mark://host/a.md?x=1#sec%20tion", MarkURL("host", 6309, "/a.md", "sec tion")),
        ("mark://host?x=1", MarkURL("host")),
        ("mark://host#top", MarkURL("host", 6309, "/", "top")),
        ("mark://host/a%20b%2Fc%3F.md", MarkURL("host", 6309, "/a b/c?.md")),
        ("mark://host/a b.md", MarkURL("host", 6309, "/a b.md")),
        ("mark://host//a/../b.md", MarkURL("host", 6309, "//a/../b.md")),
        ("mark://host/%ff", MarkURL("host", 6309, "/\udcff")),
        ("mark://127.0.0.1/a.md", MarkURL("127.0.0.1", 6309, "/a.md")),
        ("mark://[::1]/a.md", MarkURL("::1", 6309, "/a.md")),
        ("mark://[FE80::1%25eth0]:7000/a.md", MarkURL("fe80::1%eth0", 7000, "/a.md")),
    ],
)
def test_c_40_urls(text: str, url: MarkURL) -> None:
    assert parse_url(text) == url


@pytest.mark.parametrize(
    "text",
    [
        "",
        "host/a.md",
        "http://host/a.md",
        "mark:/host/a.md",
        "mark:///a.md",
        "mark://",
        "mark://:6309/a.md",
        "mark://ho st/a.md",
        "mark://host:0/a.md",
        "mark://host:65536/a.md",
        "mark://host:x/a.md",
        "mark://host:1:2/a.md",
        "mark://host:\u0661/a.md",
        "mark://host/%zz",
        "mark://host/%2",
        "mark://host/a\nb",
        "mark://::1/a.md",
        "mark://[::1/a.md",
        "mark://[::1]x/a.md",
        "mark://[host]/a.md",
    ],
)
def test_c_40_what_is_no_url(text: str) -> None:
    with pytest.raises(URLError):
        parse_url(text)


def test_c_39_four_spellings_one_document() -> None:
    spellings = ["mark://Host/a%20b.md", "mark://host:6309/a b.md", "MARK://HOST:/a%20b.md", "mark://me@host/a%20b.md"]
    assert {parse_url(text).identity for text in spellings} == {"mark://host/a%20b.md"}


def test_identity_keeps_case_of_the_path_and_other_ports() -> None:
    assert parse_url("mark://Host:7000/A(b).md#c").identity == "mark://host:7000/A%28b%29.md"
    assert parse_url("mark://[::1]/a.md").identity == "mark://[::1]/a.md"


def test_authority_and_server_name_are_two_values() -> None:
    assert parse_url("mark://Host/a.md").authority == "host:6309"
    assert parse_url("mark://Host:7000/a.md").server_name == "host"
    assert parse_url("mark://[::1]:7000/a.md").authority == "[::1]:7000"
    assert parse_url("mark://[::1]:7000/a.md").server_name == "::1"


def test_error_does_not_hold_user_info() -> None:
    with pytest.raises(URLError) as caught:
        parse_url("mark://user:tea-party-secret@host:x/a.md")
    assert "tea-party" not in str(caught.value)


paths = st.text(alphabet=st.characters(exclude_categories=["Cs"])).map("/".__add__)


@given(st.sampled_from(["host", "a.b-c.svc", "::1", "fe80::1%eth0", "127.0.0.1"]), st.integers(1, 65535), paths)
def test_identity_reads_back(host: str, port: int, path: str) -> None:
    url = MarkURL(host, port, path)
    assert parse_url(url.identity) == url


@given(st.text() | st.text(alphabet="a:/@[]%#?1").map("mark://".__add__))
def test_any_text_is_a_url_or_a_url_error(text: str) -> None:
    try:
        parse_url(text)
    except URLError:
        return


def test_bytes_that_are_no_utf8_stay_and_other_surrogates_are_refused() -> None:
    assert parse_url("mark://host/\udcff%FF").path == "/\udcff\udcff"
    assert resolve(MarkURL("host"), "a\udcff.md") == MarkURL("host", path="/a\udcff.md")
    assert resolve(MarkURL("host"), "a\ud800.md") is None
    with pytest.raises(URLError):
        parse_url("mark://host/\ud800")
