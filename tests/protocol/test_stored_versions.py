"""The exact bytes of stored versions, their hashes and links."""

import json
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from mark_protocol import limits
from mark_protocol.metadata import normalise_tags
from mark_protocol.versions import (
    StoredVersion,
    VersionError,
    check_header,
    content_hash,
    encode_version,
    etag,
    parse_version,
)

HERE = Path(__file__).parent
TEA = [(HERE / "stored" / f"tea.v{number}").read_bytes() for number in (1, 2, 3)]
ETAGS = [
    "f9528fa1e0cf93cc3ed94397c0a0d94bf1d5c1cf83e778d77d7600e73a678d81",
    "58547c19b50efc44ab153697fb3c5ec3d7cd2b54210d94fedaa80f2b257f6704",
    "f966e979353186a17c571238d1e8a2e4c390c4c5b2d496d777caae4d2a2971c1",
]
METADATA = {"tags": "drinks, kitchen", "importance": "0.8", "type": "Document"}


@pytest.mark.parametrize("index", [0, 1, 2])
def test_bytes_and_etags_of_the_specification(index: int) -> None:
    version = parse_version(TEA[index])
    previous = ETAGS[index - 1] if index else None
    assert etag(TEA[index]) == ETAGS[index]
    assert version.number == index + 1
    assert version.previous == previous
    assert version.metadata == {"tags": "drinks,kitchen", "importance": "0.8", "type": "Document"}
    assert encode_version(index + 1, previous, METADATA, version.body) == TEA[index]
    check_header(TEA[index], index + 1)


def test_content_hashes_of_the_specification() -> None:
    assert content_hash(parse_version(TEA[0]).body) == (
        "sha256-2ebef17656eb99668d04b1a986277fb815cfa45c17f098c99cf88547702b59dd"
    )
    assert content_hash(parse_version(TEA[2]).body) == (
        "sha256-6b8397be0e2f0bfde4ccd4dd590528df4771eae6929304962cb3882bf2293d4e"
    )


def test_bytes_of_a_recorded_document() -> None:
    """The March server's etag of a document without metadata that later rules would change."""
    lines = (HERE.parent / "interop" / "golden" / "documents.jsonl").read_text().splitlines()
    answer = next(json.loads(line) for line in lines if json.loads(line)["name"] == "fetch-directory-index")
    recorded = bytes.fromhex(answer["response_hex"])
    body = recorded.split(b"\n---\n", 1)[1]
    assert f"etag: {etag(encode_version(1, None, {}, body))}".encode() in recorded


@pytest.mark.parametrize("value", ["a: b", "#y", '"quoted"', "'", "  two  ", "", " ", "[x]", "- a", "\tx", "\u2028"])
def test_a_25_values_are_stored_without_quotes(value: str) -> None:  # A25
    data = encode_version(1, None, {"title": value, "x": value}, b"body")
    assert f"\nmeta.x: {value}\n".encode() in data
    assert parse_version(data).metadata == {"title": value, "x": value}
    check_header(data, 1)


def test_tags_are_stored_as_a_list() -> None:  # A27
    assert b"\ntags: [a, b]\n" in encode_version(1, None, {"tags": " a ,b"}, b"")
    empty = encode_version(1, None, {"tags": ""}, b"")
    assert b"\ntags: []\n" in empty
    assert parse_version(empty).metadata == {"tags": ""}


def test_lines_are_sorted_by_logical_key() -> None:
    data = encode_version(1, None, {"type": "a", "importance": "b", "zeta": "c", "title": "d", "a": "e"}, b"")
    assert data.split(b"\n")[3:8] == [b"meta.a: e", b"meta.importance: b", b"title: d", b"type: a", b"meta.zeta: c"]


def test_only_the_first_block_is_the_stores() -> None:  # C12
    body = b"---\nversion: 9\ntitle: mine\n---\n# Raw\n"
    version = parse_version(encode_version(1, None, {"title": "outer"}, body))
    assert version == StoredVersion(1, False, None, {"title": "outer"}, body)


def test_older_forms_are_read() -> None:
    lines = [
        b"version: 1",
        b"archived: true",
        b"meta.tags: a, b ",
        b"meta.title: Tea\r",
        b"unknown: x",
        b"meta.version: 9",
        b"x",
    ]
    assert parse_version(b"---\n" + b"\n".join(lines) + b"\n---\nbody") == StoredVersion(
        1, True, None, {"tags": "a,b", "title": "Tea"}, b"body"
    )


@pytest.mark.parametrize(
    "data",
    [
        b"",
        b"# no block\n",
        b"---\nversion: 1\narchived: false\n---",
        b"---\narchived: false\n---\n",
        b"---\nversion: 0\n---\n",
        b"---\nversion: x\n---\n",
        b"---\nversion: 2147483648\n---\n",
        b"---\nversion: 2\nprevious-hash: sha256-00\n---\n",
        b"---\nversion: 1\n---\n" + b"a" * (limits.BODY + 2048),
    ],
    ids=["empty", "no block", "open", "no number", "zero", "text", "too high", "bad link", "too long"],
)
def test_what_is_no_stored_version(data: bytes) -> None:
    with pytest.raises(VersionError):
        parse_version(data)


GOOD = b"---\nversion: 2\narchived: false\nprevious-hash: sha256-" + b"0" * 64 + b"\nmeta.a: b\ntitle: c\n---\nbody"


def test_well_formed_header_passes() -> None:
    check_header(GOOD, 2)
    check_header(GOOD.replace(b"archived: false", b"archived: true"), 2)


@pytest.mark.parametrize(
    ("old", "new"),
    [
        (b"version: 2", b"version: 02"),
        (b"version: 2", b"version: 3"),
        (b"version: 2", b"version:  2"),
        (b"version: 2\n", b""),
        (b"archived: false", b"archived: no"),
        (b"archived: false\n", b""),
        (b"sha256-0", b"sha256-A"),
        (b"previous-hash: ", b"previous-hash:"),
        (b"meta.a: b\ntitle: c", b"title: c\nmeta.a: b"),
        (b"title: c", b"title: c\ntitle: d"),
        (b"title: c", b"meta.a: c"),
        (b"title: c", b"zeta: c"),
        (b"title: c", b"title"),
        (b"title: c", b"meta.version: 3"),
        (b"title: c", b"meta.previous-hash: 3"),
        (b"meta.a", b"meta.A"),
        (b"title: c", b"title: " + b"c" * 1024),
        (b"title: c", b"\n".join(b"meta.k%02d: v" % index for index in range(50))),
    ],
)
def test_fault_in_a_header_is_found(old: bytes, new: bytes) -> None:
    with pytest.raises(VersionError):
        check_header(GOOD.replace(old, new, 1), 2)


def test_first_version_has_no_link() -> None:
    with pytest.raises(VersionError):
        check_header(b"---\nversion: 1\narchived: false\nprevious-hash: sha256-" + b"0" * 64 + b"\n---\n", 1)


@pytest.mark.parametrize(("number", "previous"), [(0, None), (1, "0" * 64), (2, None), (2**31, "0" * 64)])
def test_number_and_link_belong_together(number: int, previous: str | None) -> None:
    with pytest.raises(ValueError, match="cannot be stored"):
        encode_version(number, previous, {}, b"")


def test_value_of_two_lines_is_not_stored() -> None:
    with pytest.raises(ValueError, match="more than a line"):
        encode_version(1, None, {"a": "b\nc"}, b"")


keys = st.text(alphabet="abcz019-", min_size=1, max_size=8) | st.sampled_from(["title", "tags", "type", "resource"])
values = st.text(
    alphabet=st.characters(exclude_categories=["Cs"], exclude_characters="\r\n"), max_size=12
) | st.sampled_from([": ", " #", "[a, b]", "---", "\u0085", "a,b"])


@given(st.integers(1, 2**31 - 1), st.dictionaries(keys, values, max_size=6), st.binary(max_size=60))
def test_a_25_what_is_stored_reads_back(number: int, metadata: dict[str, str], body: bytes) -> None:
    previous = None if number == 1 else "5" * 64
    data = encode_version(number, previous, metadata, body)
    expected = {key: normalise_tags(value) if key == "tags" else value for key, value in metadata.items()}
    assert parse_version(data) == StoredVersion(number, False, previous, expected, body)
    check_header(data, number)
    again = encode_version(number, previous, parse_version(data).metadata, body)
    assert again == data


@given(st.binary(max_size=80) | st.binary(max_size=60).map(b"---\nversion: 1\n".__add__))
def test_any_bytes_are_a_version_or_a_version_error(data: bytes) -> None:
    for read in (parse_version, lambda data: check_header(data, 1)):
        try:
            read(data)
        except VersionError:
            continue
