"""Which metadata a write may carry, and what a version keeps of it."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from mark_protocol.metadata import (
    CONTROL_KEYS,
    RESERVED_KEYS,
    MetadataError,
    check_store_rules,
    merge_for_append,
    normalise_tags,
    publisher_metadata,
    quoted,
    returned_metadata,
    stored_size,
    tags_as_list,
    with_default_type,
)


def refusal(metadata: dict[str, str]) -> str:
    with pytest.raises(MetadataError) as caught:
        publisher_metadata(metadata)
    return caught.value.message


def store_refusal(metadata: dict[str, str]) -> str:
    with pytest.raises(MetadataError) as caught:
        check_store_rules(metadata)
    return caught.value.message


def test_control_keys_are_dropped() -> None:
    assert publisher_metadata(dict.fromkeys(CONTROL_KEYS, "x") | {"title": "Tea"}) == {"title": "Tea"}


@pytest.mark.parametrize("key", sorted(RESERVED_KEYS))
def test_response_keys_are_reserved(key: str) -> None:
    assert refusal({key: "x"}) == f'metadata key "{key}" is reserved'


@pytest.mark.parametrize("key", ["Title", "my_key", "my key", "", "caf\u00e9", "a.b", "meta.x"])
def test_keys_have_few_characters(key: str) -> None:
    assert refusal({key: "x"}) == f'metadata key "{key}" contains invalid characters'


@pytest.mark.parametrize("value", ["a\nb", "a\rb", "a\r", "\udcff"])
def test_values_are_lines_of_text(value: str) -> None:
    assert refusal({"k": value}) == 'metadata value for key "k" contains newlines'


def test_a_24_the_first_faulty_key_is_named() -> None:  # A24
    assert refusal({"z_": "x", "etag": "x", "a": "b\n", "B": "x"}) == 'metadata key "B" contains invalid characters'
    assert refusal({"z_": "x", "etag": "x", "a": "b\n"}) == 'metadata value for key "a" contains newlines'


def test_fifty_keys_pass_and_one_more_does_not() -> None:
    keys = [f"k{index}" for index in range(51)]
    assert len(publisher_metadata(dict.fromkeys(keys[:50], "v"))) == 50
    assert refusal(dict.fromkeys(keys, "v")) == "too many metadata keys (max 50)"


def test_size_counts_keys_and_values_in_bytes() -> None:
    publisher_metadata({"k": "v" * 1023})
    assert refusal({"k": "v" * 1024}) == "metadata too large (max 1024 bytes)"
    assert refusal({"k": "\u00e9" * 512}) == "metadata too large (max 1024 bytes)"


def test_tags_count_in_the_form_they_are_stored_in() -> None:
    assert stored_size({"tags": "a,b"}) == len("tags") + len("[a, b]")
    tags = ",".join(["t"] * 341)
    assert len("tags" + tags) < 1024
    assert refusal({"tags": tags}) == "metadata too large (max 1024 bytes)"


def test_tags_have_one_form() -> None:  # C10, A27
    assert publisher_metadata({"tags": " alpha ,, beta,"}) == {"tags": "alpha,beta"}
    assert normalise_tags("alpha, beta") == normalise_tags(" alpha,beta ") == "alpha,beta"
    assert normalise_tags(" , ") == normalise_tags("") == ""
    assert tags_as_list("") == "[]"


def test_a_26_words_of_requests_are_ordinary_keys() -> None:  # A26
    words = ["limit", "cursor", "query", "complete", "next-cursor", "op", "hash", "page-size", "since", "filter"]
    assert set(publisher_metadata(dict.fromkeys(words, "x"))) == set(words)


def test_store_keys_are_refused_by_the_store() -> None:
    assert publisher_metadata({"previous-hash": "x"}) == {"previous-hash": "x"}
    message = 'invalid publisher metadata: key "previous-hash" is reserved by the store'
    assert store_refusal({"previous-hash": "x"}) == message


@pytest.mark.parametrize("value", ["x", "0", "-1", "", "1.5", " 1", "99999999999999999999"])
def test_retention_is_a_positive_integer(value: str) -> None:
    message = f'invalid publisher metadata: key "retention" must be a positive integer, got "{value}"'
    assert store_refusal({"retention": value}) == message


def test_retention_takes_the_integers_of_peers() -> None:
    for value in ("1", "+2", "007"):
        check_store_rules({"retention": value})


def test_default_type_counts_for_the_limits() -> None:
    metadata = publisher_metadata({"k": "v" * 1020})
    check_store_rules(metadata)
    assert store_refusal(with_default_type("/a.md", metadata)) == (
        "invalid publisher metadata: metadata too large (max 1024 bytes)"
    )
    many = {f"k{index}": "" for index in range(50)}
    assert store_refusal(with_default_type("/a.md", many)) == (
        "invalid publisher metadata: too many metadata keys (max 50)"
    )


def test_c_8_a_merge_can_pass_the_limits() -> None:
    merged = merge_for_append({"a": "x" * 600}, {"b": "y" * 600})
    assert store_refusal(merged) == "invalid publisher metadata: metadata too large (max 1024 bytes)"


@pytest.mark.parametrize(
    ("path", "metadata", "kept"),
    [
        ("/a.md", {}, {"type": "Document"}),
        ("/a.md", {"type": "  "}, {"type": "Document"}),
        ("/a.md", {"type": "Essay"}, {"type": "Essay"}),
        ("/a/index.md", {}, {}),
        ("/log.md", {}, {}),
        ("/a/index.md", {"type": ""}, {"type": ""}),
        ("/a/myindex.md", {}, {"type": "Document"}),
    ],
)
def test_default_type(path: str, metadata: dict[str, str], kept: dict[str, str]) -> None:
    assert with_default_type(path, metadata) == kept


def test_append_keeps_what_it_does_not_replace() -> None:  # C6, C7
    base = {"tags": "a,b", "importance": "0.8", "title": "Tea", "retention": "3"}
    assert merge_for_append(base, {"title": "Green"}) == {"tags": "a,b", "importance": "0.8", "title": "Green"}
    assert merge_for_append(base, {"retention": "5"})["retention"] == "5"


def test_fetch_returns_only_what_means_nothing_else() -> None:
    stored = {"title": "Tea", "complete": "false", "matches": "3", "auth": "x", "Bad": "x"}
    assert returned_metadata(stored) == {"title": "Tea", "complete": "false"}


@pytest.mark.parametrize(
    ("text", "shown"),
    [
        ('a"b\\c', r'"a\"b\\c"'),
        ("\a\b\f\n\r\t\v\0\x7f", r'"\a\b\f\n\r\t\v\x00\x7f"'),
        ("\u00e9\u65e5\U0001f600", '"\u00e9\u65e5\U0001f600"'),
        ("\x85\u2028\U000e0001", r'"\u0085\u2028\U000e0001"'),
        ("\udcff", r'"\xff"'),
    ],
)
def test_messages_quote_as_peers_do(text: str, shown: str) -> None:
    assert quoted(text) == shown


@given(st.dictionaries(st.text(max_size=5), st.text(max_size=5)))
def test_any_metadata_is_kept_or_refused(metadata: dict[str, str]) -> None:
    try:
        kept = publisher_metadata(metadata)
    except MetadataError:
        return
    assert publisher_metadata(kept) == kept
