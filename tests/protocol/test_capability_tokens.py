"""Token files, and finding a token in them."""

import tomllib
from datetime import UTC, datetime, timedelta

import pytest
from hypothesis import given
from hypothesis import strategies as st

from mark_protocol.tokens import (
    CapabilityToken,
    TokenFileError,
    TokenSet,
    hash_token,
    merge,
    new_token,
    parse_tokens,
    render_entry,
)

KETTLE = """
[tokens.kettle-laptop]
hash = "sha256-8a6ef8659920f7719611b58073053df0549d124884931bfa100f31408127acb2"
paths = ["/notes/**"]
operations = ["read", "publish"]
expires = "2027-01-01T00:00:00Z"
"""


def a_token(label: str = "kettle", *, raw: str = "tea-party-secret", operations: str = "read") -> CapabilityToken:
    return CapabilityToken(label, hash_token(raw), ("/**",), frozenset(operations.split()))


def refusal(text: str) -> str:
    with pytest.raises(TokenFileError) as caught:
        parse_tokens(text, source="/etc/tokens.toml")
    message = str(caught.value)
    assert message.startswith("/etc/tokens.toml: ")
    assert "8a6ef8659920f771" not in message
    return message


def test_entry_of_the_specification_is_read_and_written() -> None:
    tokens = parse_tokens(KETTLE, source="tokens.toml")
    assert tokens.tokens == (
        CapabilityToken(
            "kettle-laptop",
            "sha256-8a6ef8659920f7719611b58073053df0549d124884931bfa100f31408127acb2",
            ("/notes/**",),
            frozenset(["read", "publish"]),
            datetime(2027, 1, 1, tzinfo=UTC),
        ),
    )
    assert render_entry(tokens.tokens[0]) == KETTLE


def test_token_is_found_by_what_a_request_carries() -> None:
    tokens = TokenSet([a_token("one", raw="a"), a_token("two", raw="b")])
    found = tokens.find("b")
    assert found is not None
    assert found.label == "two"
    assert tokens.find("c") is None
    assert tokens.find("") is None
    assert tokens.find(hash_token("b")) is None
    assert tokens.find("\udcff") is None


def test_an_expiry_of_long_ago_is_written_with_four_digits() -> None:
    token = CapabilityToken("a", hash_token("a"), expires=datetime(53, 1, 1, tzinfo=UTC))
    assert 'expires = "0053-01-01T00:00:00Z"\n' in render_entry(token)
    assert parse_tokens(render_entry(token), source="tokens.toml").tokens == (token,)


def test_token_is_valid_up_to_its_last_instant() -> None:
    instant = datetime(2027, 1, 1, tzinfo=UTC)
    token = CapabilityToken("a", hash_token("a"), expires=instant)
    assert not token.expired(instant)
    assert token.expired(instant + timedelta(microseconds=1))
    assert not a_token().expired(instant)


def test_hash_is_not_shown() -> None:  # A19
    assert "sha256" not in repr(a_token())


def test_new_token_is_32_random_bytes_in_hex() -> None:
    assert new_token(lambda size: bytes(range(size))) == bytes(range(32)).hex()


HASH = 'hash = "sha256-8a6ef8659920f7719611b58073053df0549d124884931bfa100f31408127acb2"\n'


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("[tokens.a\n", "not valid TOML"),
        pytest.param(f"a = {'[' * 5000}", "not valid TOML", id="lists beyond the library's depth"),
        pytest.param(f"a = {'9' * 5000}", "not valid TOML", id="a number beyond the library's length"),
        ("tokens = 1\n", "must be a table"),
        ("[tokens]\na = 1\n", "token 'a': must be a table"),
        ("[tokens.a]\npaths = []\n", "token 'a': hash"),
        ('[tokens.a]\nhash = ""\n', "token 'a': hash"),
        ('[tokens.a]\nhash = "8a6ef8659920f7719611b58073053df0549d124884931bfa100f31408127acb2"\n', "token 'a': hash"),
        (f'[tokens.a]\n{HASH}paths = "/**"\n', "token 'a': paths must be a list"),
        (f"[tokens.a]\n{HASH}paths = [1]\n", "token 'a': paths must be a list"),
        (f'[tokens.a]\n{HASH}paths = ["/["]\n', "token 'a': paths: the pattern '/['"),
        (f"[tokens.a]\n{HASH}operations = 1\n", "token 'a': operations must be a list"),
        (f'[tokens.a]\n{HASH}expires = "tomorrow"\n', "token 'a': expires"),
        (f"[tokens.a]\n{HASH}expires = 2027-01-01T00:00:00Z\n", "token 'a': expires"),
        (f"[tokens.a]\n{HASH}[tokens.b]\n{HASH}", "tokens 'a' and 'b' have the same hash"),
        # The shape that the upstream specification prints and its loader refuses.
        ('[tokens]\n"sha256-8a6ef8659920f7719611" = { paths = ["/**"] }\n', "named by a label"),
    ],
)
def test_broken_files_name_label_and_field(text: str, expected: str) -> None:
    assert expected in refusal(text)


def test_empty_file_holds_no_tokens() -> None:
    assert parse_tokens("", source="a").tokens == ()


def test_other_tables_and_fields_are_left_alone() -> None:
    tokens = parse_tokens(f'[server]\nport = 1\n[tokens.a]\n{HASH}note = "x"\n', source="a")
    assert [token.label for token in tokens.tokens] == ["a"]


def test_unknown_operations_and_useless_patterns_are_warned_about() -> None:  # A16
    text = f'[tokens.a]\n{HASH}paths = ["/team-*/**", "/**"]\noperations = ["read", "fly"]\n'
    tokens = parse_tokens(text, source="a")
    assert tokens.unknown_operations == ("fly",)
    assert len(tokens.warnings) == 2
    assert "'fly'" in tokens.warnings[0]
    assert "token 'a'" in tokens.warnings[1]
    assert "/team-*/**" in tokens.warnings[1]


def test_files_are_merged() -> None:
    tokens = merge([TokenSet([a_token("one", raw="a")]), TokenSet([a_token("two", raw="b")])])
    assert [token.label for token in tokens.tokens] == ["one", "two"]


def test_same_hash_in_two_files_is_an_error() -> None:
    with pytest.raises(TokenFileError, match="'one' and 'two'"):
        merge([TokenSet([a_token("one")]), TokenSet([a_token("two")])])


text = st.text(alphabet=st.characters(exclude_categories=["Cs"]), max_size=10)
tokens = st.builds(
    CapabilityToken,
    label=text.filter(lambda label: not label.startswith("sha256-")),
    hash=text.map(hash_token),
    paths=st.lists(text.map(lambda path: "/" + "".join(c for c in path if c not in "*[\\"))).map(tuple),
    operations=st.frozensets(text | st.sampled_from(["read", "publish", "append"])),
    expires=st.none()
    | st.datetimes(datetime(1000, 1, 1), datetime(9999, 1, 1)).map(
        lambda time: time.replace(microsecond=0, tzinfo=UTC)
    ),
)


@given(tokens)
def test_entries_read_back(token: CapabilityToken) -> None:
    assert parse_tokens(render_entry(token), source="a").tokens == (token,)


@given(st.text() | st.text().map("[tokens.a]\n".__add__))
def test_any_text_is_a_token_file_or_an_error(text: str) -> None:
    try:
        parse_tokens(text, source="a")
    except TokenFileError:
        return
    tomllib.loads(text)
