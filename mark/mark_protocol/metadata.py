"""Publisher metadata: which keys a write may carry, how they are normalised, and what a version keeps of them.

Source: Mark protocol, metadata keys.
"""

import re
from collections.abc import Mapping

from mark_protocol import limits
from mark_protocol.numbers import parse_go_integer

AUTH = "auth"
EXPECTED_VERSION = "expected-version"
IF_NONE_MATCH = "if-none-match"
IF_MODIFIED_SINCE = "if-modified-since"
INCLUDE_ARCHIVED = "include-archived"
PAGE_SIZE = "page-size"
CURSOR = "cursor"
TAGS = "tags"
TYPE = "type"
RETENTION = "retention"
AGENT = "agent"
USER = "user"

# Consumed by the server and never stored.
CONTROL_KEYS = frozenset([AUTH, EXPECTED_VERSION, IF_NONE_MATCH, IF_MODIFIED_SINCE])
# Keys of responses: a write that carries one is refused.
RESERVED_KEYS = frozenset(
    ("version", "modified", "etag", "content-hash", "current-version", "server-version", "your-version", "total",
     "current", "chain-valid", "chain-error", "archived", "entries", "matches", "match", "status")
)  # fmt: skip
# What the header of a stored version holds for the store itself.
STORE_KEYS = frozenset(["version", "previous-hash", "archived"])
# Keys that a stored version keeps under their own name; all others stand behind `meta.`.
OKF_KEYS = frozenset([TYPE, "title", "description", "resource", TAGS, "timestamp"])

_DEFAULT_TYPE = "Document"
_WITHOUT_TYPE = frozenset(["index.md", "log.md"])
_KEY = re.compile(r"[a-z0-9-]+")


class MetadataError(Exception):
    """Metadata that a write may not carry; `message` is the text of the `bad-request` response."""

    def __init__(self, message: str) -> None:
        super().__init__(message)
        self.message = message


def publisher_metadata(request_metadata: Mapping[str, str]) -> dict[str, str]:
    """What a PUBLISH or APPEND asks to store: the request's entries without control keys, tags normalised.

    Raises MetadataError; of several faulty keys the first in order is named, so that answers can be repeated.
    """
    kept = {key: request_metadata[key] for key in sorted(request_metadata) if key not in CONTROL_KEYS}
    for key, value in kept.items():
        if key in RESERVED_KEYS:
            raise MetadataError(f"metadata key {quoted(key)} is reserved")
        if not _KEY.fullmatch(key):
            raise MetadataError(f"metadata key {quoted(key)} contains invalid characters")
        if not _is_line(value):
            raise MetadataError(f"metadata value for key {quoted(key)} contains newlines")
    if TAGS in kept:
        kept[TAGS] = normalise_tags(kept[TAGS])
    _check_limits(kept)
    return kept


def check_store_rules(metadata: Mapping[str, str]) -> None:
    """The rules for what a version is about to keep, after the default type and, on APPEND, the merge.

    Raises MetadataError.
    """
    prefix = "invalid publisher metadata: "
    for key in sorted(STORE_KEYS & metadata.keys()):
        raise MetadataError(f"{prefix}key {quoted(key)} is reserved by the store")
    retention = metadata.get(RETENTION)
    if retention is not None and (parse_go_integer(retention) or 0) < 1:
        raise MetadataError(f'{prefix}key "{RETENTION}" must be a positive integer, got {quoted(retention)}')
    _check_limits(metadata, prefix)


def _check_limits(metadata: Mapping[str, str], prefix: str = "") -> None:
    if len(metadata) > limits.PUBLISHER_KEYS:
        raise MetadataError(f"{prefix}too many metadata keys (max {limits.PUBLISHER_KEYS})")
    if stored_size(metadata) > limits.PUBLISHER_METADATA:
        raise MetadataError(f"{prefix}metadata too large (max {limits.PUBLISHER_METADATA} bytes)")


def stored_size(metadata: Mapping[str, str]) -> int:
    """Bytes of keys and values, tags in the list form a version keeps them in."""
    return sum(
        len(key.encode()) + len((tags_as_list(value) if key == TAGS else value).encode(errors="surrogateescape"))
        for key, value in metadata.items()
    )


def _is_line(value: str) -> bool:
    if "\n" in value or "\r" in value:
        return False
    try:
        value.encode()
    except UnicodeEncodeError:
        return False
    return True


def normalise_tags(value: str) -> str:
    """Tags in the form they are compared and returned in: `a,b`, blanks trimmed, empty ones dropped."""
    return ",".join(filter(None, (tag.strip() for tag in value.split(","))))


def tags_as_list(value: str) -> str:
    """Tags in the form a stored version has: `[a, b]`."""
    return "[" + ", ".join(filter(None, (tag.strip() for tag in value.split(",")))) + "]"


def with_default_type(path: str, metadata: Mapping[str, str]) -> dict[str, str]:
    """The metadata with `type: Document` where the type is missing or blank, except for an index or a log."""
    if metadata.get(TYPE, "").strip() or path.rpartition("/")[2] in _WITHOUT_TYPE:
        return dict(metadata)
    return {**metadata, TYPE: _DEFAULT_TYPE}


def merge_for_append(base: Mapping[str, str], overlay: Mapping[str, str]) -> dict[str, str]:
    """What an appended version keeps: the base's entries but its `retention`, overlaid with the request's."""
    merged = {key: value for key, value in base.items() if key != RETENTION}
    merged.update(overlay)
    return merged


def returned_metadata(metadata: Mapping[str, str]) -> dict[str, str]:
    """What FETCH returns of a version's entries; keys that mean something else in a response are left out."""
    return {
        key: value
        for key, value in metadata.items()
        if key not in RESERVED_KEYS and key not in CONTROL_KEYS and _KEY.fullmatch(key)
    }


_ESCAPES = {"\a": r"\a", "\b": r"\b", "\f": r"\f", "\n": r"\n", "\r": r"\r", "\t": r"\t", "\v": r"\v"}


def quoted(text: str) -> str:
    """Text in double quotes with everything unprintable escaped, as messages of the protocol show it."""
    return '"' + "".join(map(_quoted_character, text)) + '"'


def _quoted_character(character: str) -> str:
    if character in '"\\':
        return "\\" + character
    if character.isprintable():
        return character
    if character in _ESCAPES:
        return _ESCAPES[character]
    point = ord(character)
    if 0xDC80 <= point <= 0xDCFF:  # a byte that is no UTF-8
        return f"\\x{point - 0xDC00:02x}"
    if point < 0x80:
        return f"\\x{point:02x}"
    return f"\\u{point:04x}" if point <= 0xFFFF else f"\\U{point:08x}"
