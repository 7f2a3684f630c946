"""FETCH (Mark protocol 4.1): a document, one of its versions, a body by its hash, a directory, or `/health`.

A directory with a live `index.md` answers with that document, any other one with a generated listing.
"""

from __future__ import annotations

import hashlib
from collections.abc import Mapping
from types import MappingProxyType

from demarkus_world.engine.engine import VersionRecord, View
from demarkus_world.settings import ReadMode
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


async def fetch(call: Call) -> Response:
    """Answers a FETCH; resolution as in Mark protocol 4.1, first match wins."""
    if call.path == HEALTH_PATH:
        return HEALTH
    view = await call.engine.view(exact=True)
    digest = content_address(call.path)
    if digest is not None:
        return await _by_content(call, view, digest)
    pinned = split_version(call.path)
    if pinned is not None and not view.is_directory(pinned[0]):
        return await _version(call, view, *pinned)
    partial = enter(call, call.path)
    head = view.head(call.path)
    if head is None or partial:
        return await _directory(call, view, partial=partial)
    if head.archived:
        raise Refused(Status.ARCHIVED, f"{call.path} is archived")
    return await _document(call, head.record)


async def _by_content(call: Call, view: View, digest: str) -> Response:
    for path in view.by_body(digest):
        head = view.head(path)
        if head is not None and call.readable(path):
            return await _document(call, head.record)
    raise Refused(Status.NOT_FOUND, f"content not found for hash sha256-{digest}")


async def _version(call: Call, view: View, base: str, number: int) -> Response:
    call.require_readable(base)
    record = view.version(base, number)
    if record is None:
        raise not_found(call.path)
    newest = view.versions(base)[-1].version
    return await _document(call, record, extra={"current-version": str(newest)})


async def _document(call: Call, record: VersionRecord, extra: Mapping[str, str] = MappingProxyType({})) -> Response:
    if not_modified(
        call.request.metadata, etag=record.etag, modified=record.modified, etag_decides=not call.compatible
    ):
        return NOT_MODIFIED
    version = parse_version(await call.engine.stored(record))
    server = {
        "content-hash": f"sha256-{record.body_hash}",
        "etag": record.etag,
        "modified": format_rfc3339(record.modified),
        "version": str(record.version),
    }
    return Response(Status.OK, {**returned_metadata(version.metadata), **server, **extra}, version.body)


async def _directory(call: Call, view: View, *, partial: bool) -> Response:
    include_archived = call.key(INCLUDE_ARCHIVED) == "true"
    require_directory(call, view, call.path, partial=partial, include_archived=include_archived)
    index = view.head(below(call.path, "index.md"))
    if index is not None and not index.archived:
        denial = call.rules.read(call.credential, index.record.path)
        if denial is None:
            return await _document(call, index.record)
        if call.rules.reads is ReadMode.PUBLIC:
            refuse(denial)
    children = visible_children(call, view, call.path, include_archived=include_archived)
    page = render_list(call.path, children)
    etag = hashlib.sha256(page.body).hexdigest()
    if not_modified(call.request.metadata, etag=etag, modified=None, etag_decides=True):
        return NOT_MODIFIED
    metadata = {"entries": str(len(page.children)), "etag": etag, "content-hash": f"sha256-{etag}"}
    return Response(Status.OK, metadata, page.body)
