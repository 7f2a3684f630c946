"""Paths: canonical form, versions, content addresses, and what a store can keep."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from mark_protocol import limits
from mark_protocol.paths import (
    clean,
    content_address,
    decode_key,
    encode_key,
    has_parent_segment,
    split_version,
    unstorable,
)


@pytest.mark.parametrize(
    ("raw", "canonical"),
    [
        ("/", "/"),
        ("//", "/"),
        ("/.", "/"),
        ("//docs///a.md/", "/docs/a.md"),
        ("/a/./b/.", "/a/b"),
        ("/a/.b/..c", "/a/.b/..c"),
        ("/a/../b", "/b"),
        ("/..", "/"),
        ("a", "/a"),
        ("", "/"),
    ],
)
def test_canonical_form(raw: str, canonical: str) -> None:
    assert clean(raw) == canonical
    assert clean(canonical) == canonical


def test_only_a_whole_segment_leads_upwards() -> None:
    assert has_parent_segment("/a/../b")
    assert has_parent_segment("/..")
    assert not has_parent_segment("/a/..b")
    assert not has_parent_segment("/a../b")


@pytest.mark.parametrize(
    ("path", "version"),
    [  # A31
        ("/doc.md/v1", ("/doc.md", 1)),
        ("/doc.md/v01", ("/doc.md", 1)),
        ("/doc.md/v+3", ("/doc.md", 3)),
        ("/api/v2", ("/api", 2)),
        ("/a/v2/v3", ("/a/v2", 3)),
        ("/api/v2/x.md", None),
        ("/doc.md/v0", None),
        ("/doc.md/v-1", None),
        ("/doc.md/V1", None),
        ("/doc.md/v", None),
        ("/doc.md/v1_0", None),
        ("/doc.md/v1.md", None),
        ("/doc.md/v99999999999999999999", None),
        ("/v1", None),
        ("/", None),
    ],
)
def test_version_paths(path: str, version: tuple[str, int] | None) -> None:
    assert split_version(path) == version


def test_content_address_is_exact() -> None:
    digits = "0123456789abcdef" * 4
    assert content_address(f"/sha256-{digits}") == digits
    for path in (f"/sha256-{digits.upper()}", f"/sha256-{digits}0", f"/a/sha256-{digits}", f"/sha256-{digits}\n"):
        assert content_address(path) is None


@pytest.mark.parametrize(
    ("path", "rule"),
    [
        ("/a.md", None),
        ("/ä/b c.md", None),
        ("/" + "a" * 255, None),
        ("/" + "a" * 256, "segment is longer"),  # A37
        ("/" + "ä" * 128, "segment is longer"),
        ("/" + "/".join(["a" * 179] * 5), None),
        ("/" + "/".join(["a" * 180] * 5), "longer than 900"),
        ("/a/\udcff.md", "UTF-8"),
        ("/", None),
        ("/versions/a.md", "versions"),  # A13
        ("/a/versions", "versions"),
        ("/a/versions.md", None),
        ("/" + "%" * 85, None),
        ("/" + "%" * 86, "segment is longer"),
        ("/" + "/".join(["%" * 80] * 4), None),
        ("/" + "/".join(["%" * 80] * 5), "key is longer"),
    ],
)
def test_storable_paths(path: str, rule: str | None) -> None:
    broken = unstorable(path)
    assert (broken is None) if rule is None else (broken is not None and rule in broken)


def test_compatible_worlds_store_a_segment_named_versions() -> None:
    assert unstorable("/a/versions/b.md", versions_segment=True) is None


def test_keys_escape_what_stores_cannot_name() -> None:
    assert encode_key("/100%/tab\there\x7f\x85\ufffe.md") == "/100%25/tab%09here%7F%C2%85%EF%BF%BE.md"
    assert encode_key("/caf\u00e9 b.md") == "/caf\u00e9 b.md"


@given(st.text(alphabet=st.characters(exclude_categories=["Cs"])).map("/".__add__))
def test_keys_decode_to_their_path(path: str) -> None:
    key = encode_key(path)
    assert decode_key(key) == path
    assert not any(ord(character) < 32 or 127 <= ord(character) < 160 for character in key)


@pytest.mark.parametrize("key", ["/%", "/%2", "/%2f", "/%41", "/%FF", "/a\tb", "/%C2", "/\ud800"])
def test_other_keys_are_refused(key: str) -> None:
    with pytest.raises(ValueError, match="not a key of a store"):
        decode_key(key)


@given(st.lists(st.sampled_from(["/", ".", "..", "a", "b.md", "é"])).map("".join))
def test_canonical_paths_are_short_of_surprises(raw: str) -> None:
    path = clean("/" + raw)
    assert path == "/" or not path.endswith("/")
    assert not {"", ".", ".."} & set(path[1:].split("/")) or path == "/"


def test_every_storable_key_fits() -> None:
    longest = "/" + "/".join(["a" * 179] * 5)
    assert unstorable(longest) is None
    assert len(f"docs{encode_key(longest)}/v{limits.VERSION_NUMBER}-{'0' * 16}-{'0' * 8}.md") <= limits.STORE_KEY
