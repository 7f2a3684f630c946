"""Signed notes: a log's size and root, and the name of the log, signed with the log's key.

    <origin>
    <size>
    <base64 of the root>

    — <key name> <base64 of key id and signature>

Source: C2SP signed-note and tlog-checkpoint, one Ed25519 signature; extension lines are refused.
"""

import base64
import binascii
import hashlib
from collections.abc import Mapping
from dataclasses import dataclass

from cryptography.exceptions import InvalidSignature
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey, Ed25519PublicKey

from demarkus_base.tlog.tree import HASH_BYTES

MAX_BYTES = 4096
_ALGORITHM = b"\x01"
_ID_BYTES = 4
_DASH = "\u2014 "


class NoteError(Exception):
    """Text that is no note, or not signed by whom it should be."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Note:
    """What a log says of itself: `size` entries under `root` (32 bytes); `origin` names the log."""

    origin: str
    size: int
    root: bytes


def signed(note: Note, *, name: str, key: Ed25519PrivateKey) -> str:
    """The note as text, signed in the name of `name`. Raises ValueError for what a note can't hold."""
    text = _text(note)
    if not _is_name(name):
        raise ValueError("the name of a key has no spaces, line ends or plus signs")
    signature = _key_id(name, key.public_key()) + key.sign(text.encode())
    return f"{text}\n{_DASH}{name} {base64.b64encode(signature).decode()}\n"


def claimed(text: str) -> Note:
    """What a note says, whoever signed it, if it is one by its form. Raises NoteError."""
    body, signatures = _parted(text)
    for line in signatures:
        _signature(line)
    return _parsed(body)


def opened(text: str, keys: Mapping[str, Ed25519PublicKey]) -> Note:
    """The note in `text`, if one of its signatures is valid for a known key (by name) and none of those is invalid.

    Raises NoteError.
    """
    body, signatures = _parted(text)
    known = 0
    for line in signatures:
        name, claimed, signature = _signature(line)
        key = keys.get(name)
        if key is None or claimed != _key_id(name, key):
            continue
        try:
            key.verify(signature, body.encode())
        except (InvalidSignature, UnicodeEncodeError):
            raise NoteError(f"the signature of {name} is not valid") from None
        known += 1
    if not known:
        raise NoteError("no signature of a known key")
    return _parsed(body)


def _text(note: Note) -> str:
    if not note.origin or "\n" in note.origin or note.size < 0 or len(note.root) != HASH_BYTES:
        raise ValueError("a note has an origin of one line, a size and a root of 32 bytes")
    return f"{note.origin}\n{note.size}\n{base64.b64encode(note.root).decode()}\n"


def _parted(text: str) -> tuple[str, list[str]]:
    """The text that is signed, and the lines of its signatures."""
    if len(text.encode("utf-8", "surrogateescape")) > MAX_BYTES:
        raise NoteError(f"a note has at most {MAX_BYTES} bytes")
    body, separator, signatures = text.rpartition("\n\n")
    if not separator or not signatures.endswith("\n"):
        raise NoteError("a note is its text, an empty line and its signatures")
    return f"{body}\n", signatures.removesuffix("\n").split("\n")


def _parsed(body: str) -> Note:
    lines = body.split("\n")
    if len(lines) != 4 or lines[3]:
        raise NoteError("a note has three lines: origin, size and root")
    origin, size, root = lines[:3]
    decoded = _decoded(root)
    if not origin or not size.isdecimal() or not size.isascii() or size != str(int(size)) or len(decoded) != HASH_BYTES:
        raise NoteError("a note has an origin, a decimal size and a root of 32 bytes")
    return Note(origin=origin, size=int(size), root=decoded)


def _signature(line: str) -> tuple[str, bytes, bytes]:
    """Key name, key id and signature of a signature line."""
    name, space, text = line.removeprefix(_DASH).partition(" ")
    raw = _decoded(text)
    if not line.startswith(_DASH) or not space or not _is_name(name) or len(raw) <= _ID_BYTES:
        raise NoteError("a signature line is a dash, a name and base64")
    return name, raw[:_ID_BYTES], raw[_ID_BYTES:]


def _key_id(name: str, key: Ed25519PublicKey) -> bytes:
    return hashlib.sha256(name.encode() + b"\n" + _ALGORITHM + key.public_bytes_raw()).digest()[:_ID_BYTES]


def _is_name(name: str) -> bool:
    return bool(name) and "+" not in name and not any(c.isspace() for c in name)


def _decoded(text: str) -> bytes:
    try:
        return base64.b64decode(text, validate=True)
    except (binascii.Error, ValueError):
        raise NoteError("a part of the note is not base64") from None
