"""Paths of documents: the canonical form, version and content addresses, and what a store can keep.

A path is text. Bytes that are no UTF-8 are kept as surrogate escapes, so that a path can be given back as it was sent.

Source: Mark protocol, path canonicalisation on the server; FETCH (resolution); design, names.
"""

import re

from mark_protocol import limits
from mark_protocol.numbers import parse_go_integer

_CONTENT_ADDRESS = re.compile(r"/sha256-([0-9a-f]{64})")
# What must not stand in a key of a store as it is: the escape itself, controls, and the two non-characters.
_UNSAFE_IN_KEY = re.compile("[%\x00-\x1f\x7f-\x9f\ufffe\uffff]")
_ESCAPE = re.compile(r"%([0-9A-F]{2})")
# A document's key is its path with `docs` in front and, behind it, `/v<number>-<16 hex>-<8 hex>.md`.
_KEY_AROUND_PATH = len("docs") + len("/v") + len(str(limits.VERSION_NUMBER)) + len("-") + 16 + len("-") + 8 + len(".md")


def has_parent_segment(raw: str) -> bool:
    """Whether a segment of the path as sent is `..`; such a path is answered `not-found` before anything else."""
    return ".." in raw and ".." in raw.split("/")


def clean(raw: str) -> str:
    """The canonical form: one slash between segments, no `.` and `..` segments, no slash at the end, root is `/`."""
    if "//" not in raw and "/." not in raw and raw[:1] == "/" and (raw[-1] != "/" or raw == "/"):
        return raw
    kept: list[str] = []
    for segment in raw.split("/"):
        if segment == "..":
            del kept[-1:]
        elif segment not in ("", "."):
            kept.append(segment)
    return "/" + "/".join(kept)


def split_version(path: str) -> tuple[str, int] | None:
    """The document and the number a canonical version path names, as `/a.md/v3`; None for any other path.

    Whether the base is a directory, which makes it an ordinary path, only the store knows.
    """
    base, _, last = path.rpartition("/")
    if not base or last[:1] != "v":
        return None
    number = parse_go_integer(last[1:])
    return (base, number) if number is not None and number >= 1 else None


def content_address(path: str) -> str | None:
    """The 64 hex digits of a path `/sha256-<hash>`; None for any other path."""
    match = _CONTENT_ADDRESS.fullmatch(path)
    return match[1] if match else None


def unstorable(path: str, *, versions_segment: bool = False) -> str | None:
    """The rule a canonical path breaks, in words, or None where every store can keep a document of that path.

    With `versions_segment` a segment named `versions` is allowed, as worlds with `history: compatible` do.
    """
    try:
        size = len(path.encode())
    except UnicodeEncodeError:
        return "it is not valid UTF-8"
    if size > limits.STORABLE_PATH:
        return f"it is longer than {limits.STORABLE_PATH} bytes"
    segments = path.split("/")[1:]
    if not versions_segment and "versions" in segments:
        return "a segment is named versions"
    key = encode_key(path)
    if any(len(segment.encode()) > limits.SEGMENT for segment in key.split("/")):
        return f"a segment is longer than {limits.SEGMENT} bytes"
    if len(key.encode()) + _KEY_AROUND_PATH > limits.STORE_KEY:
        return f"its key is longer than {limits.STORE_KEY} bytes"
    return None


def encode_key(path: str) -> str:
    """A path as part of a store's key: `%`, control characters and non-characters percent-encoded, all else kept.

    Slashes stay, also the first: a document's versions lie below `"docs" + encode_key(path)`.
    """
    return _UNSAFE_IN_KEY.sub(lambda match: "".join(f"%{byte:02X}" for byte in match[0].encode()), path)


def decode_key(key: str) -> str:
    """The path behind `encode_key`; raises ValueError for text that `encode_key` never makes."""
    try:
        # Escapes stand for single bytes, the rest for characters: bring both to bytes before decoding.
        path = b"".join(
            bytes([int(part, 16)]) if index % 2 else part.encode() for index, part in enumerate(_ESCAPE.split(key))
        ).decode()
    except UnicodeError as error:
        raise ValueError(f"not a key of a store: {error}") from None
    if encode_key(path) != key:
        raise ValueError("not a key of a store: it is not in its shortest form")
    return path
