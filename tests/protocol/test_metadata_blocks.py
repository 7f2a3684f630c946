"""Metadata blocks are read and written as the Go peers' YAML library (release 3.0.1) reads and writes them.

The three `.jsonl` files beside this one record what that library made of each case.
"""

import json
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from mark_protocol import frontmatter
from mark_protocol.frontmatter import BlockError, decode_block, encode_block, natural_order, split

HERE = Path(__file__).parent


def recorded(name: str) -> list[dict[str, Any]]:
    return [json.loads(line) for line in (HERE / name).read_text().splitlines()]


@pytest.mark.parametrize("case", recorded("blocks_read.jsonl"), ids=lambda case: ascii(case["block"]))
def test_blocks_read_as_peers_read_them(case: dict[str, Any]) -> None:
    block = case["block"].encode(errors="surrogateescape")
    if case["entries"] is None:
        with pytest.raises(BlockError):
            decode_block(block)
    else:
        assert decode_block(block) == case["entries"]


@pytest.mark.parametrize("case", recorded("values_written.jsonl"), ids=lambda case: ascii(case["value"]))
def test_values_written_as_peers_write_them(case: dict[str, Any]) -> None:
    block = encode_block({"k": case["value"]})
    assert block.decode() == f"k: {case['written']}\n"


@pytest.mark.parametrize("case", recorded("keys_ordered.jsonl"), ids=lambda case: " ".join(case["keys"])[:40])
def test_keys_in_the_order_of_peers(case: dict[str, Any]) -> None:
    assert encode_block(dict.fromkeys(case["keys"], "v")).decode() == case["block"]


def test_keys_of_servers_sort_as_bytes() -> None:
    keys = dict.fromkeys(["version", "status", "next-cursor", "etag", "content-hash", "chain-valid"], "")
    assert natural_order(keys) == sorted(keys)


any_text = st.text(alphabet=st.characters(exclude_categories=["Cs"]), max_size=20)
YAML_WORDS = "a key null ~ yes 1 0x .5 2026-01-01 - : # ' \" \\ , { } [ ] *a ! | > % @ ... --- << \u00e9"
YAML_PIECES = [*YAML_WORDS.split(" "), "&a ", "!!str ", ": ", " #", " ", "\n", "\t", "\u2028"]
yaml_text = st.lists(st.sampled_from(YAML_PIECES), max_size=12).map("".join)
raw_bytes_as_text = st.binary(max_size=20).map(lambda raw: raw.decode(errors="surrogateescape"))


@given(st.dictionaries(any_text | yaml_text | raw_bytes_as_text, any_text | yaml_text | raw_bytes_as_text, max_size=6))
def test_what_is_written_reads_back(entries: dict[str, str]) -> None:
    block = encode_block(entries)
    assert decode_block(block) == entries
    # No value can close the block it stands in.
    if entries:
        assert split(b"---\n" + block + b"---\nbody") == (block[:-1], b"body")


@pytest.mark.parametrize("value", ["\n", "a\n", "a\n\n", "\na", "\ta\nb", "\ufeffa", "\udcff" * 60])
def test_values_that_peers_would_lose_or_fold_survive_in_one_line(value: str) -> None:
    block = encode_block({"k": value})
    assert block.count(b"\n") == 1
    assert decode_block(block[:-1]) == {"k": value}


@given(st.lists(st.tuples(st.sampled_from(["a", "b-c", "y", "null", "key"]), yaml_text), min_size=1, max_size=4))
@settings(max_examples=500)
def test_short_way_of_reading_agrees_with_the_long_one(lines: list[tuple[str, str]]) -> None:
    text = "\n".join(f"{key}: {value}" for key, value in lines)
    short = frontmatter._decode_plain(text)
    if short is not None:
        assert short == frontmatter._decode_yaml(text)


@given(st.binary(max_size=80) | yaml_text.map(str.encode))
def test_any_bytes_are_entries_or_a_block_error(block: bytes) -> None:
    try:
        entries = decode_block(block)
    except BlockError:
        return
    assert all(isinstance(key, str) and isinstance(value, str) for key, value in entries.items())


def test_common_form_takes_the_short_way() -> None:
    block = 'auth: tea-party-secret\nexpected-version: "0"\nif-none-match: 00ff\ntags: drinks, kitchen\nempty:'
    assert frontmatter._decode_plain(block) == {
        "auth": "tea-party-secret",
        "expected-version": "0",
        "if-none-match": "00ff",
        "tags": "drinks, kitchen",
        "empty": "",
    }


def test_invalid_utf8_is_no_block() -> None:
    with pytest.raises(BlockError):
        decode_block(b"a: \xff")


def test_error_never_holds_a_value() -> None:
    for block in (
        b'auth: "tea-party-secret',
        b"auth: tea-party-secret\nauth: tea-party-secret",
        b"auth: [tea-party-secret]",
    ):
        with pytest.raises(BlockError) as caught:
            decode_block(block)
        assert "tea-party" not in str(caught.value)
        assert caught.value.__cause__ is None
        assert caught.value.__suppress_context__ or caught.value.__context__ is None


def test_alias_bomb_is_refused() -> None:
    entries = ", ".join(f"k{index}: v" for index in range(2000))
    with pytest.raises(BlockError, match="copy too much"):
        decode_block(f"<<: [&m {{{entries}}}{', *m' * 5000}]".encode())


def chain_of_merges(length: int) -> bytes:
    """Maps that each merge the one before twice, the last of them merged into the block."""
    links = "".join(f" - &m{n} {{<<: [*m{n - 1}, *m{n - 1}]}}\n" for n in range(1, length))
    return f"null:\n - &m0 {{a: b}}\n{links}<<: *m{length - 1}".encode()


def test_merges_of_merges_are_copied_once() -> None:
    assert decode_block(chain_of_merges(10)) == {"a": "b"}


def test_long_chain_of_merges_is_refused() -> None:
    with pytest.raises(BlockError, match="nested too deeply"):
        decode_block(chain_of_merges(2000))


def test_deep_nesting_is_refused() -> None:
    with pytest.raises(BlockError):
        decode_block(b"null: " + b"[" * 50_000)


def test_block_closes_at_first_fence_or_at_the_end() -> None:
    assert split(b"---\na: b\n---\nbody\n---\n") == (b"a: b", b"body\n---\n")
    assert split(b"---\na: b\n---") == (b"a: b", b"")
    assert split(b"---\n\n---\nbody") == (b"", b"body")
    assert split(b"no block") == (None, b"no block")
    assert split(b"---\r\na: b\r\n---\r\n") == (None, b"---\r\na: b\r\n---\r\n")


@pytest.mark.parametrize("data", [b"---\n", b"---\n---\n", b"---\n---", b"---\na: b\n--- \n", b"---\na: b"])
def test_open_block_is_an_error(data: bytes) -> None:
    with pytest.raises(BlockError):
        split(data)


def test_two_fences_in_a_row_swallow_a_later_block() -> None:
    assert split(b"---\n---\ntitle: mine\n---\n# Raw\n") == (b"---\ntitle: mine", b"# Raw\n")
