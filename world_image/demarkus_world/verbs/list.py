"""LIST (Mark protocol 4.2): the children of a directory that the caller may see, page by page."""

from __future__ import annotations

from itertools import dropwhile

from demarkus_world.verbs.call import Call, Refused, not_found
from demarkus_world.verbs.children import enter, require_directory, visible_children
from mark_protocol.cursors import CursorError, decode_cursor, encode_cursor
from mark_protocol.limits import LIST_PAGE_ENTRIES
from mark_protocol.listings import render_list
from mark_protocol.metadata import CURSOR, INCLUDE_ARCHIVED, PAGE_SIZE
from mark_protocol.numbers import parse_go_integer
from mark_protocol.paths import content_address
from mark_protocol.response import Response
from mark_protocol.status import INVALID_INCLUDE_ARCHIVED, INVALID_PAGE_SIZE, Status


async def list_directory(call: Call) -> Response:
    """Answers a LIST; the order of the checks is the protocol's."""
    directory = call.path
    partial = enter(call, directory)
    if content_address(directory) is not None:
        raise not_found(directory)
    include_archived = _include_archived(call)
    size = _page_size(call)
    after = _after(call, include_archived=include_archived)
    view = await call.engine.view(exact=False)
    require_directory(call, view, directory, partial=partial, include_archived=include_archived)
    children = visible_children(call, view, directory, include_archived=include_archived)
    if after is not None:
        children = dropwhile(lambda child: child.name <= after, children)
    page = render_list(directory, children, page_size=size)
    metadata = {"entries": str(len(page.children)), "complete": "true"}
    if not page.complete:
        cursor = encode_cursor(directory, page.children[-1].name, include_archived=include_archived)
        metadata |= {"complete": "false", "next-cursor": cursor}
    return Response(Status.OK, metadata, page.body)


def _include_archived(call: Call) -> bool:
    match call.key(INCLUDE_ARCHIVED):
        case "true":
            return True
        case "false" | "":
            return False
        case _:
            raise Refused(Status.BAD_REQUEST, INVALID_INCLUDE_ARCHIVED)


def _page_size(call: Call) -> int:
    text = call.key(PAGE_SIZE)
    size = LIST_PAGE_ENTRIES if not text else parse_go_integer(text)
    if size is None or not 1 <= size <= LIST_PAGE_ENTRIES:
        raise Refused(Status.BAD_REQUEST, INVALID_PAGE_SIZE)
    return size


def _after(call: Call, *, include_archived: bool) -> str | None:
    text = call.key(CURSOR)
    if not text:
        return None
    try:
        return decode_cursor(text, call.path, include_archived=include_archived)
    except CursorError as error:
        raise Refused(Status.BAD_REQUEST, str(error)) from None
