"""The blocks of a WATCH stream, read and written (Mark protocol 10)."""

from __future__ import annotations

from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st

from mark_protocol.changes import (
    Block,
    BlockReader,
    BlockTooLong,
    Change,
    Control,
    Cursor,
    MalformedBlock,
    encode_change,
    encode_control,
    parse_cursor,
)
from mark_protocol.limits import WATCH_BLOCK

ACK = b"---\ncursor: 7c1f0a9be2d4:41\nstatus: ok\n---\n"
EVENT = (
    b"---\nagent: kettle\ncursor: 7c1f0a9be2d4:42\n"
    b"hash: sha256-6b8397be0e2f0bfde4ccd4dd590528df4771eae6929304962cb3882bf2293d4e\n"
    b'op: append\npath: /notes/tea.md\nversion: "3"\n---\n'
)
CHANGE = Change(
    cursor="7c1f0a9be2d4:42",
    path="/notes/tea.md",
    version=3,
    op="append",
    hash="sha256-6b8397be0e2f0bfde4ccd4dd590528df4771eae6929304962cb3882bf2293d4e",
    agent="kettle",
)


def a_change(**fields: object) -> Change:
    return Change(**{"cursor": "e:1", "path": "/a.md", "version": 1, "op": "publish", **fields})  # type: ignore[arg-type]


def read(*pieces: bytes) -> list[Block]:
    reader = BlockReader()
    blocks = [block for piece in pieces for block in reader.feed(piece)]
    reader.finish()
    return blocks


def test_the_recorded_stream_is_written_and_read() -> None:
    assert encode_control(Control("ok", "7c1f0a9be2d4:41")) == ACK
    assert encode_change(CHANGE) == EVENT
    assert read(ACK + EVENT + ACK) == [Control("ok", "7c1f0a9be2d4:41"), CHANGE, Control("ok", "7c1f0a9be2d4:41")]


def test_a_cursor_of_digits_alone_is_quoted_and_read_back() -> None:
    data = encode_control(Control("ok", "123456789012:17"))
    assert data == b'---\ncursor: "123456789012:17"\nstatus: ok\n---\n'
    assert read(data) == [Control("ok", "123456789012:17")]


@pytest.mark.parametrize(
    ("text", "cursor"),
    [
        ("7c1f0a9be2d4:41", Cursor("7c1f0a9be2d4", 41)),
        ("a:0", Cursor("a", 0)),
        ("A.b_c-9:18446744073709551615", Cursor("A.b_c-9", 2**64 - 1)),
        ("x" * 64 + ":1", Cursor("x" * 64, 1)),
        ("a:18446744073709551616", None),
        ("x" * 65 + ":1", None),
        ("a:01", None),
        ("a:-1", None),
        ("a:+1", None),
        ("a:١", None),
        ("a:1\n", None),
        ("a", None),
        (":1", None),
        ("a:", None),
        ("a b:1", None),
        ("a:1:2", None),
    ],
)
def test_cursors(text: str, cursor: Cursor | None) -> None:
    assert parse_cursor(text) == cursor
    if cursor is not None:
        assert str(cursor) == text


@given(st.lists(st.integers(1, len(ACK + EVENT + ACK) - 1)))
def test_blocks_come_whole_however_they_are_cut(cuts: list[int]) -> None:
    data = ACK + EVENT + ACK
    edges = [0, *sorted(cuts), len(data)]
    assert len(read(*(data[start:end] for start, end in pairwise(edges)))) == 3


@given(
    st.builds(
        a_change,
        path=st.text(st.characters(exclude_characters="\n\r", exclude_categories=["Cs"]), max_size=50).map("/".__add__),
        version=st.integers(1, 2**31 - 1),
        op=st.sampled_from(["publish", "append", "archive", "yes", "1"]),
        agent=st.none() | st.text(st.characters(exclude_characters="\n\r", exclude_categories=["Cs"]), max_size=50),
        by=st.none() | st.sampled_from(["on", "0x1f", "~", "a: b", "#"]),
    )
)
def test_what_is_written_is_read_back(change: Change) -> None:
    assert read(encode_change(change)) == [change]


def test_crlf_is_read_as_lf() -> None:
    assert read((ACK + EVENT).replace(b"\n", b"\r\n")) == [Control("ok", "7c1f0a9be2d4:41"), CHANGE]


def test_unknown_keys_are_left_out_and_unknown_kinds_are_told() -> None:
    [change] = read(b"---\ncursor: e:7\nmood: fine\nop: rename\npath: /a.md\nversion: '2'\n---\n")
    assert change == a_change(cursor="e:7", version=2, op="rename")


def test_c_28_a_block_that_no_reader_takes_is_not_written() -> None:
    with pytest.raises(BlockTooLong):
        encode_change(a_change(agent="k" * WATCH_BLOCK))
    head = len(encode_change(a_change(agent="k"))) - 1
    longest = encode_change(a_change(agent="k" * (WATCH_BLOCK - head)))
    assert len(longest) == WATCH_BLOCK
    assert len(read(longest)) == 1
    with pytest.raises(BlockTooLong):
        encode_change(a_change(agent="k" * (WATCH_BLOCK - head + 1)))


@pytest.mark.parametrize(
    "data",
    [
        b"cursor: e:1\nstatus: ok\n---\n",
        b"---\ncursor: e:1\nop: publish\n---\n",
        b"---\ncursor: e:1\nop: publish\npath: a.md\nversion: '1'\n---\n",
        b"---\ncursor: e:1\nop: publish\npath: /a.md\nversion: '0'\n---\n",
        b"---\ncursor: e:1\nop: publish\npath: /a.md\nversion: x\n---\n",
        b"---\nop: publish\npath: /a.md\nversion: '1'\n---\n",
        b"---\n---\n",
        b"---\n- x\n---\n",
        b"---\n" + b"x" * WATCH_BLOCK,
        b"---\na: " + b"x" * WATCH_BLOCK + b"\n---\n",
        ACK[:-2],
        b"-",
    ],
)
def test_what_is_no_block_is_malformed(data: bytes) -> None:
    with pytest.raises(MalformedBlock):
        read(data)


def test_nothing_is_read_behind_the_last_block_but_the_text_of_a_refusal() -> None:
    reader = BlockReader()
    refusal = b"---\nstatus: not-permitted\n---\n\n# Not permitted\n\ninsufficient permissions\n"
    assert list(reader.feed(refusal + b"x" * 20_000)) == [Control("not-permitted")]
    assert reader.rest.startswith(b"\n# Not permitted\n\ninsufficient permissions\nxxx")
    assert list(reader.feed(ACK)) == []
    assert len(reader.rest) == WATCH_BLOCK
    reader.finish()


def test_a_clean_end_is_between_blocks() -> None:
    assert read() == []
    assert read(ACK) == [Control("ok", "7c1f0a9be2d4:41")]


@given(st.lists(st.binary(max_size=200) | st.sampled_from([ACK, EVENT, b"---\n", b"\n", b"status: ok\n"]), max_size=20))
def test_whatever_comes_it_is_blocks_or_malformed(pieces: list[bytes]) -> None:
    try:
        blocks = read(*pieces)
    except MalformedBlock:
        return
    assert all(isinstance(block, Change | Control) for block in blocks)
