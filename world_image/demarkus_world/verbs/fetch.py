"""FETCH (Mark protocol 4.1): a document, one of its versions, a body by its hash, a directory, or `/health`.

A directory with a live `index.md` answers with that document, any other one with a generated listing.
"""

from __future__ import annotations

import hashlib
from collections.abc import Mapping
from types import MappingProxyType
from typing import NamedTuple

from demarkus_world.engine.engine import VersionRecord, View
from demarkus_world.settings import ReadMode
from demarkus_world.verbs.answers import Answers, Ready
from demarkus_world.verbs.call import Call, Refused, not_found, refuse
from demarkus_world.verbs.children import below, enter, require_directory, visible_children
from demarkus_world.verbs.conditions import not_modified
from mark_protocol.listings import render_list
from mark_protocol.metadata import INCLUDE_ARCHIVED, returned_metadata
from mark_protocol.paths import content_address, split_version
from mark_protocol.response import Response
from mark_protocol.status import HEALTH_BODY, Status
from mark_protocol.times import format_rfc3339
from mark_protocol.versions import parse_version

HEALTH_PATH = "/health"
HEALTH = Response(Status.OK, body=HEALTH_BODY)
NOT_MODIFIED = Response(Status.NOT_MODIFIED)
READY_HEALTH, READY_NOT_MODIFIED = Ready.of(HEALTH), Ready.of(NOT_MODIFIED)


class Found(NamedTuple):
    """The version that answers, and what its response says beside what the version itself tells."""

    record: VersionRecord
    extra: Mapping[str, str] = MappingProxyType({})


async def fetch(call: Call) -> Response:
    """Answers a FETCH; resolution as in Mark protocol 4.1, first match wins."""
    if call.path == HEALTH_PATH:
        return HEALTH
    view = await call.engine.view(exact=True)
    found = _document(call, view) or _directory(call, view)
    if isinstance(found, Response):
        return found
    return NOT_MODIFIED if _unchanged(call, found) else _answer(found, await call.engine.stored(found.record))


def fetch_at_once(call: Call, answers: Answers) -> Ready | None:
    """The same answer, if it takes no wait for the store and no listing; None otherwise."""
    if call.path == HEALTH_PATH:
        return READY_HEALTH
    view = call.engine.exact_view
    found = None if view is None else _document(call, view)
    if found is None:
        return None
    if _unchanged(call, found):
        return READY_NOT_MODIFIED
    ready = None if found.extra else answers.get(found.record)
    if ready is None:
        data = call.engine.stored_at_hand(found.record)
        if data is None:
            return None
        ready = Ready.of(_answer(found, data))
        if not found.extra:
            answers.keep(found.record, ready)
    return ready


def _document(call: Call, view: View) -> Found | None:
    """The version that is asked for; None if it can only be a directory. Raises Refused."""
    digest = content_address(call.path)
    if digest is not None:
        return _by_content(call, view, digest)
    pinned = split_version(call.path)
    if pinned is not None and not view.is_directory(pinned[0]):
        return _version(call, view, *pinned)
    partial = enter(call, call.path)
    head = view.head(call.path)
    if head is None or partial:
        return None
    if head.archived:
        raise Refused(Status.ARCHIVED, f"{call.path} is archived")
    return Found(head.record)


def _by_content(call: Call, view: View, digest: str) -> Found:
    for path in view.by_body(digest):
        head = view.head(path)
        if head is not None and call.readable(path):
            return Found(head.record)
    raise Refused(Status.NOT_FOUND, f"content not found for hash sha256-{digest}")


def _version(call: Call, view: View, base: str, number: int) -> Found:
    call.require_readable(base)
    record = view.version(base, number)
    head = view.head(base)
    if record is None or head is None:
        raise not_found(call.path)
    return Found(record, {"current-version": str(head.record.version)})


def _unchanged(call: Call, found: Found) -> bool:
    record = found.record
    return not_modified(
        call.request.metadata, etag=record.etag, modified=record.modified, etag_decides=not call.compatible
    )


def _answer(found: Found, data: bytes) -> Response:
    record, version = found.record, parse_version(data)
    server = {
        "content-hash": f"sha256-{record.body_hash}",
        "etag": record.etag,
        "modified": format_rfc3339(record.modified),
        "version": str(record.version),
    }
    return Response(Status.OK, {**returned_metadata(version.metadata), **server, **found.extra}, version.body)


def _directory(call: Call, view: View) -> Found | Response:
    """A directory's `index.md`, or a listing."""
    partial = enter(call, call.path)
    include_archived = call.key(INCLUDE_ARCHIVED) == "true"
    require_directory(call, view, call.path, partial=partial, include_archived=include_archived)
    index = view.head(below(call.path, "index.md"))
    if index is not None and not index.archived:
        denial = call.rules.read(call.credential, index.record.path)
        if denial is None:
            return Found(index.record)
        if call.rules.reads is ReadMode.PUBLIC:
            refuse(denial)
    children = visible_children(call, view, call.path, include_archived=include_archived)
    page = render_list(call.path, children)
    etag = hashlib.sha256(page.body).hexdigest()
    if not_modified(call.request.metadata, etag=etag, modified=None, etag_decides=True):
        return NOT_MODIFIED
    metadata = {"entries": str(len(page.children)), "etag": etag, "content-hash": f"sha256-{etag}"}
    return Response(Status.OK, metadata, page.body)
