"""Stored bytes rebuilt from what FETCH tells of a version: pure.

A server sends metadata and body, and the hash of the bytes it keeps; how it keeps them depends on its age (Mark
protocol 7.2; 14). The forms are few, so each is tried until one has the hash.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from mark_protocol.metadata import OKF_KEYS, TAGS, tags_as_list
from mark_protocol.versions import etag

SERVER_KEYS = frozenset({"modified", "etag", "version", "content-hash", "current-version", "status"})
"""What a FETCH of a version says beside the publisher's metadata."""

_NONE_BARE = frozenset[str]()


def publisher_part(metadata: Mapping[str, str]) -> dict[str, str]:
    """The publisher's metadata in a FETCH of a version."""
    return {key: value for key, value in metadata.items() if key not in SERVER_KEYS}


def rebuilt(wanted: str, number: int, previous: str | None, metadata: Mapping[str, str], body: bytes) -> bytes | None:
    """The form that has the etag, or None."""
    forms = _forms(number, previous, metadata, body)
    return next((data for data in forms if etag(data) == wanted), None)


def old_form(number: int, previous: str | None, metadata: Mapping[str, str], body: bytes) -> bytes:
    """The bytes of a version that a server of March 2026 keeps while the document is not archived."""
    return _form(number, previous, metadata, body, bare=_NONE_BARE, tags=metadata.get(TAGS, ""), archived=False)


def _forms(number: int, previous: str | None, metadata: Mapping[str, str], body: bytes) -> Iterator[bytes]:
    tags = metadata.get(TAGS, "")
    for bare, form in (
        (OKF_KEYS, tags_as_list(tags)),
        (_NONE_BARE, tags),
        # A server of today tells what an old one kept in the form of today.
        (_NONE_BARE, tags.replace(",", ", ")),
        (_NONE_BARE, tags_as_list(tags)),
    ):
        for archived in (False, True):
            yield _form(number, previous, metadata, body, bare=bare, tags=form, archived=archived)


def _form(
    number: int,
    previous: str | None,
    metadata: Mapping[str, str],
    body: bytes,
    *,
    bare: frozenset[str],
    tags: str,
    archived: bool,
) -> bytes:
    lines = [f"version: {number}", f"archived: {'true' if archived else 'false'}"]
    if previous is not None:
        lines.append(f"previous-hash: sha256-{previous}")
    for key in sorted(metadata):
        lines.append(f"{key if key in bare else f'meta.{key}'}: {tags if key == TAGS else metadata[key]}")
    return ("---\n" + "\n".join(lines) + "\n---\n").encode(errors="surrogateescape") + body
