"""Cursors of LIST: where the next page begins. Opaque to clients; this is the layout of the Go server.

Source: Mark protocol, LIST.
"""

import base64
import binascii

from mark_protocol import limits

_VERSION = 1
_INCLUDE_ARCHIVED = 1


class CursorError(Exception):
    """A cursor that does not fit its request; the text is the message of the `bad-request` response."""


def encode_cursor(directory: str, last: str, *, include_archived: bool) -> str:
    """The cursor behind the entry `last` of a canonical directory."""
    path = directory.encode()
    raw = bytes([_VERSION, _INCLUDE_ARCHIVED if include_archived else 0]) + len(path).to_bytes(2, "big") + path
    return base64.urlsafe_b64encode(raw + last.encode()).decode().rstrip("=")


def decode_cursor(cursor: str, directory: str, *, include_archived: bool) -> str:
    """The name of the last entry of the page before. Raises CursorError."""
    if len(cursor) * 3 // 4 > limits.LIST_CURSOR:
        raise CursorError("LIST cursor exceeds limit")
    try:
        raw = base64.b64decode(cursor + "=" * (-len(cursor) % 4), altchars=b"-_", validate=True)
    except (binascii.Error, ValueError):
        raise CursorError("invalid LIST cursor") from None
    if len(raw) < 4 or "=" in cursor or "+" in cursor or "/" in cursor:
        raise CursorError("invalid LIST cursor")
    if raw[0] != _VERSION or raw[1] & ~_INCLUDE_ARCHIVED:
        raise CursorError("unsupported LIST cursor")
    end = 4 + int.from_bytes(raw[2:4], "big")
    try:
        path, last = raw[4:end].decode(), raw[end:].decode()
    except UnicodeDecodeError:
        raise CursorError("invalid LIST cursor") from None
    if len(raw) <= end or "/" in last:
        raise CursorError("invalid LIST cursor")
    if path != directory or bool(raw[1] & _INCLUDE_ARCHIVED) != include_archived:
        raise CursorError("LIST cursor does not match this request")
    return last
