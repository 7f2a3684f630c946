"""Conditional FETCH (Mark protocol 4.1)."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import UTC, datetime

from mark_protocol.metadata import IF_MODIFIED_SINCE, IF_NONE_MATCH
from mark_protocol.times import parse_rfc3339


def not_modified(metadata: Mapping[str, str], *, etag: str, modified: int | None, etag_decides: bool) -> bool:
    """Whether a conditional request is answered `not-modified`.

    `modified` is in milliseconds since 1970, None for what has no time (listings). With `etag_decides` a sent
    `if-none-match` alone counts; without it a stale etag does not stop the test of the time, as in upstream servers.
    """
    sent = metadata.get(IF_NONE_MATCH, "")
    if sent and sent == etag:
        return True
    if modified is None or (sent and etag_decides):
        return False
    since = parse_rfc3339(metadata.get(IF_MODIFIED_SINCE, ""))
    return since is not None and datetime.fromtimestamp(modified // 1000, UTC) <= since
