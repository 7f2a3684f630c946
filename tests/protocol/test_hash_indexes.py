"""Hash indexes are read strictly: what does not add up is refused, whatever the text is."""

from __future__ import annotations

import contextlib

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from mark_protocol.hash_indexes import HashIndexError, IndexRow, Shard, parse_index, parse_shard
from mark_protocol.versions import content_hash

HASH = "sha256-" + "ab" * 32
LEGACY = (
    "# Content Index\n\n> Source: mark://hub\n> Documents: 1\n\n| Hash | Server | Path |\n|-|-|-|\n"
    f"| {HASH} | mark://a | /a%7Cb%20c%2541.md |\n"
)
MANIFEST = (
    "# Content Index Manifest\n\n> Format: demarkus-hash-index/v2\n> Complete: true\n> Documents: 3\n"
    "> Active-Slot: b\n\n"
    "| Prefix | Path | Version | Content Hash | Rows | Bytes |\n|-|-|-|-|-|-|\n"
    f"| ab | /i.shards/b/ab-000.md | 4 | {HASH} | 2 | 900 |\n| ab | /i.shards/b/ab-001.md | 4 | {HASH} | 1 | 90 |\n"
)
PIECES = st.sampled_from([*LEGACY.splitlines(True), *MANIFEST.splitlines(True), "| x |\n", "> Rows: 9x\n", "\n", "|\n"])


def test_cells_are_decoded_once() -> None:
    assert parse_index(LEGACY.encode(), path="/i.md") == [IndexRow(HASH, "mark://a", "/a|b c%41.md")]


def test_a_manifest_gives_its_shards() -> None:
    shards = parse_index(MANIFEST.encode(), path="/i.md")
    assert [(shard.part, shard.rows) for shard in shards if isinstance(shard, Shard)] == [(0, 2), (1, 1)]


@pytest.mark.parametrize(
    ("old", "new"),
    [
        ("Documents: 3", "Documents: 4"),
        ("Complete: true", "Complete: false"),
        ("Active-Slot: b", "Active-Slot: a"),
        ("ab-001.md", "ab-002.md"),
        ("/i.shards/b/ab-000.md", "/secret.md"),
        ("index/v2", "index/v3"),
        ("> Documents: 3", "> Documents: 3\n> Documents: 3"),
        ("| 90 |", "| -9 |"),
    ],
)
def test_a_manifest_that_does_not_add_up_is_refused(old: str, new: str) -> None:
    with pytest.raises(HashIndexError):
        parse_index(MANIFEST.replace(old, new, 1).encode(), path="/i.md")


@settings(max_examples=200, deadline=None)
@given(st.lists(PIECES, max_size=12).map("".join) | st.text() | st.binary())
def test_any_text_is_an_index_or_refused(text: str | bytes) -> None:
    body = text if isinstance(text, bytes) else text.encode(errors="replace")
    with contextlib.suppress(HashIndexError):
        parse_index(body, path="/i.md")
    shard = Shard(prefix="ab", part=0, path="/x", version=1, content=content_hash(body), rows=0, size=len(body))
    with contextlib.suppress(HashIndexError):
        parse_shard(body, shard)
