"""WATCH (Mark protocol 10.1, 10.3): what may be watched, from where on. The stream itself is the business of `watches`.

The answer is the first block: the acknowledgement, or a `resync` for a cursor that can't be resumed from.
"""

from __future__ import annotations

from dataclasses import dataclass

from demarkus_world.authority import Credential, Denial, Rules
from demarkus_world.changes import cursor_at, resumable
from demarkus_world.verbs.call import Call, Refused, refuse
from mark_protocol.changes import COALESCE, SINCE, parse_cursor
from mark_protocol.metadata import quoted
from mark_protocol.paths import clean, content_address
from mark_protocol.response import Response
from mark_protocol.status import HASH_PATH_RESERVED, INVALID_SINCE, Status

PATH = "path"


@dataclass(frozen=True, slots=True)
class Scope:
    """What is watched: a document, or with `subtree` all that is below a path."""

    path: str
    subtree: bool

    def covers(self, path: str) -> bool:
        """Whether a document is part of it."""
        if not self.subtree:
            return path == self.path
        return path.startswith(self.path if self.path == "/" else self.path + "/")

    def denial(self, rules: Rules, credential: Credential | None) -> Denial | None:
        """Why this caller may not watch it. Where it may read only some of a subtree, it watches only those."""
        denial = rules.read(credential, self.path)
        if denial is not None and self.subtree and rules.on_the_way(credential, self.path):
            return None
        return denial


def scope_of(raw: str) -> Scope:
    """The scope that a request names: a slash at its end asks for a subtree."""
    return Scope(clean(raw), raw.endswith("/"))


async def watch(call: Call) -> Response:
    """Answers a WATCH with its first block, or refuses it."""
    if content_address(call.path) is not None:
        raise Refused(Status.BAD_REQUEST, HASH_PATH_RESERVED)
    text = call.key(SINCE)
    since = parse_cursor(text) if text else None
    if text and since is None:
        raise Refused(Status.BAD_REQUEST, INVALID_SINCE)
    coalesce = call.key(COALESCE)
    if coalesce not in ("", PATH):
        raise Refused(Status.BAD_REQUEST, f"{COALESCE} must be {quoted(PATH)}, got {quoted(coalesce)}")
    refuse(scope_of(call.request.path).denial(call.rules, call.credential))
    view = await call.engine.view(exact=True)
    head = cursor_at(call.engine.identity, view.sequence)
    if since is not None and not resumable(since, head):
        return Response(Status.RESYNC, {"cursor": str(head)})
    return Response(Status.OK, {"cursor": str(since or head)})
