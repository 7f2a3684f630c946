"""From a world's response to a tool's outcome: which metadata is shown, and what helps when the answer is a refusal.

Pure. A world's own answer is no error of the tool: not-found, archived, conflict and the like are passed on as they
are, with a line that says what to do next.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping
from typing import Any

from demarkus_broker.mcp.tools.tool import Outcome
from mark_protocol.response import Response

_FIRST = ("version", "modified", "etag")

_HELP: Mapping[str, str] = {
    "not-found": "Nothing is at this path: mark_list of the directory shows what there is.",
    "archived": "The document is archived. Its versions can still be fetched as <path>/v<N>; mark_publish with an "
    "empty body takes it out of the archive.",
    "not-permitted": "You are signed in, but this operation on this path is not yours; mark_worlds shows where you "
    "may write.",
    "unauthorized": "The world wants a right that you do not have here.",
    "rate-limited": "The world is busy: make the same call again in a few seconds.",
    "server-error": "The world could not do it; nothing helps but to try again later, or a smaller document.",
}


def outcome(
    response: Response, *, show: Collection[str] | None = None, help: str = "", data: Mapping[str, Any] | None = None
) -> Outcome:
    """The outcome that passes a generated answer on; `show` names the metadata keys to keep, None = all of them."""
    return Outcome(
        status=response.status,
        keys={key: value for key, value in ordered(response.metadata).items() if show is None or key in show},
        body=response.body.decode("utf-8", errors="replace").removeprefix("\n"),  # generated ones start with one
        help=help or _HELP.get(response.status, ""),
        data=data or {},
    )


def ordered(metadata: Mapping[str, str]) -> dict[str, str]:
    """Metadata in the order people read it: version, time and etag first, the rest by name."""
    first = [key for key in _FIRST if key in metadata]
    return {key: metadata[key] for key in (*first, *sorted(set(metadata) - set(first)))}
