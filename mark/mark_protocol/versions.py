"""The exact bytes of a stored version: header, publisher lines, body; the hashes over them; the link to the one before.

The block of a stored version looks like YAML and is not: a value is everything up to the line's end, never quoted.

Source: Mark protocol, stored version bytes; hash chain.
"""

import hashlib
import re
from collections.abc import Mapping
from dataclasses import dataclass

from mark_protocol import limits
from mark_protocol.metadata import (
    OKF_KEYS,
    RESERVED_KEYS,
    STORE_KEYS,
    TAGS,
    normalise_tags,
    stored_size,
    tags_as_list,
)
from mark_protocol.numbers import parse_go_integer

_META = "meta."
_KEY = re.compile(r"[a-z0-9-]+")
_HASH = re.compile(r"sha256-([0-9a-f]{64})")


class VersionError(Exception):
    """Bytes that are no stored version."""


@dataclass(frozen=True, slots=True)
class StoredVersion:
    """What the bytes of a version say. `previous` is 64 hex digits, None for a version without a link."""

    number: int
    archived: bool
    previous: str | None
    metadata: Mapping[str, str]
    body: bytes


def encode_version(number: int, previous: str | None, metadata: Mapping[str, str], body: bytes) -> bytes:
    """The bytes of version `number`; `previous` is the etag of the version before, None for the first.

    Raises ValueError for a number without its link, and for values that would not read back.
    """
    if not 1 <= number <= limits.VERSION_NUMBER or (number == 1) != (previous is None):
        raise ValueError(f"version {number} cannot be stored with the link {previous}")
    lines = [f"version: {number}", "archived: false"]
    if previous is not None:
        lines.append(f"previous-hash: sha256-{previous}")
    for key in sorted(metadata):
        value = metadata[key]
        if "\n" in value or value.endswith("\r"):
            raise ValueError(f"the value of {key} is more than a line")
        if key == TAGS:
            value = tags_as_list(value)
        lines.append(f"{key if key in OKF_KEYS else _META + key}: {value}")
    return b"---\n" + "\n".join(lines).encode() + b"\n---\n" + body


def parse_version(data: bytes) -> StoredVersion:
    """Read stored bytes as leniently as servers do, older forms included. Raises VersionError."""
    lines, body = _split(data)
    header: dict[str, str] = {}
    metadata: dict[str, str] = {}
    for line in lines:
        name, separator, value = line.removesuffix("\r").partition(": ")
        name = name.strip()
        if not separator:
            continue
        if name in STORE_KEYS:
            header.setdefault(name, value)
        elif name in OKF_KEYS:
            metadata[name] = _tags_from_list(value) if name == TAGS else value
        elif name.startswith(_META):
            key = name.removeprefix(_META)
            if key not in RESERVED_KEYS and key not in STORE_KEYS:
                metadata[key] = normalise_tags(value) if key == TAGS else value
    number = parse_go_integer(header.get("version", ""))
    if number is None or not 1 <= number <= limits.VERSION_NUMBER:
        raise VersionError("a stored version names its number: the version line is missing or broken")
    previous = header.get("previous-hash")
    link = None if previous is None else _HASH.fullmatch(previous)
    if previous is not None and link is None:
        raise VersionError(f"the previous-hash line of version {number} is no sha256- and 64 hex digits")
    return StoredVersion(number, header.get("archived") == "true", link[1] if link else None, metadata, body)


def check_header(data: bytes, number: int) -> None:
    """Whether bytes are well-formed as version `number`, line by line. Raises VersionError naming the first fault."""
    lines, _ = _split(data)
    fault = VersionError(f"the header of version {number} is not well-formed")
    if lines[0] != f"version: {number}" or lines[1:2] not in (["archived: false"], ["archived: true"]):
        raise fault
    publisher = lines[2:]
    if number > 1:
        if not publisher or not _HASH.fullmatch(publisher[0].removeprefix("previous-hash: ")):
            raise fault
        del publisher[0]
    metadata: dict[str, str] = {}
    last = ""
    for line in publisher:
        name, separator, value = line.partition(": ")
        key = name.removeprefix(_META)
        if not separator or key <= last or not _KEY.fullmatch(key):
            raise VersionError(f"the header of version {number} has lines out of order or without a key")
        if name == key and key not in OKF_KEYS:
            raise VersionError(f"the header of version {number} has a bare key that is not of the standard ones")
        if key in STORE_KEYS:
            raise VersionError(f"the header of version {number} repeats a key of the store")
        metadata[key] = _tags_from_list(value) if name == TAGS else value
        last = key
    if len(metadata) > limits.PUBLISHER_KEYS or stored_size(metadata) > limits.PUBLISHER_METADATA:
        raise VersionError(f"the header of version {number} is over the limits of publisher metadata")


def _split(data: bytes) -> tuple[list[str], bytes]:
    if len(data) > limits.STORED_VERSION:
        raise VersionError(f"a stored version has at most {limits.STORED_VERSION} bytes")
    end = data.find(b"\n---\n", 4)
    if not data.startswith(b"---\n") or end < 0:
        raise VersionError("a stored version begins with a closed block")
    return data[4:end].decode(errors="surrogateescape").split("\n"), data[end + 5 :]


def _tags_from_list(value: str) -> str:
    if value.startswith("[") and value.endswith("]"):
        value = value[1:-1]
    return normalise_tags(value)


def etag(data: bytes) -> str:
    """SHA-256 over a version's stored bytes, 64 hex digits: its etag, and the link its successor holds."""
    return hashlib.sha256(data).hexdigest()


def content_hash(body: bytes) -> str:
    """The content address of a body: `sha256-` and 64 hex digits."""
    return "sha256-" + hashlib.sha256(body).hexdigest()
