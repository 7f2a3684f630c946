"""LOOKUP (Mark protocol 4.7, 8): documents, or sections of them, that match a query below a path.

Every row is authorised before it counts. A scope is a directory, and for whom it may not be listed it is what a missing
one is; so the answer tells nothing of a directory that its caller could not see anyway. A document that says by what
it was superseded is only found when the caller asks for such documents too.
"""

from __future__ import annotations

from collections.abc import Sequence

from demarkus_world.settings import ReadMode
from demarkus_world.verbs.call import Call, Refused, not_found, refuse
from demarkus_world.verbs.children import require_directory
from demarkus_world.view.filters import Condition, FilterError, conditions
from demarkus_world.view.search import EVERYTHING, Query
from mark_protocol.limits import LOOKUP_DEFAULT, LOOKUP_ROWS, LOOKUP_TERMS
from mark_protocol.lookups import BODY, CATALOG, FILTER, INCLUDE_SUPERSEDED, LIMIT, MATCH, QUERY, render_matches
from mark_protocol.metadata import quoted
from mark_protocol.numbers import parse_go_integer
from mark_protocol.response import Response
from mark_protocol.status import INVALID_LIMIT, QUERY_TOO_SHORT, Status


async def lookup(call: Call) -> Response:
    """Answers a LOOKUP; the order of the checks is the protocol's."""
    text = _query(call)
    limit = _limit(call)
    wanted = _conditions(call)
    body = _match(call) == BODY
    superseded = _include_superseded(call)
    await _require_scope(call)
    query = Query(text=text, scope=call.path, conditions=wanted, superseded=superseded, limit=limit)
    sections, matches = await call.engine.lookup(query, call.readable, body=body)
    metadata = {"matches": str(len(matches))}
    if MATCH in call.request.metadata:
        metadata[MATCH] = BODY if sections else CATALOG
    return Response(Status.OK, metadata, render_matches(text, call.path, matches, body=sections))


def _query(call: Call) -> str:
    text = call.key(QUERY).strip()
    if len(text) < 2 and text != EVERYTHING:
        raise Refused(Status.BAD_REQUEST, QUERY_TOO_SHORT)
    terms = len(set(text.lower().split()))
    if terms > LOOKUP_TERMS:
        raise Refused(Status.BAD_REQUEST, f"query has too many terms: {terms} > {LOOKUP_TERMS}")
    return text


def _limit(call: Call) -> int:
    text = call.key(LIMIT)
    limit = LOOKUP_DEFAULT if not text else parse_go_integer(text)
    if limit is None or limit < 1:
        raise Refused(Status.BAD_REQUEST, INVALID_LIMIT)
    return min(limit, LOOKUP_ROWS)


def _conditions(call: Call) -> Sequence[Condition]:
    try:
        return conditions(call.key(FILTER))
    except FilterError as error:
        raise Refused(Status.BAD_REQUEST, str(error)) from None


def _match(call: Call) -> str:
    match = call.key(MATCH)
    if match not in ("", CATALOG, BODY):
        raise Refused(Status.BAD_REQUEST, f'match must be "catalog" or "body", got {quoted(match)}')
    return match


def _include_superseded(call: Call) -> bool:
    match call.key(INCLUDE_SUPERSEDED):
        case "true":
            return True
        case "false" | "":
            return False
        case _:
            raise Refused(Status.BAD_REQUEST, f"{INCLUDE_SUPERSEDED} must be true or false")


async def _require_scope(call: Call) -> None:
    """Refused unless the scope is a directory in which this caller could see something."""
    denial = call.rules.read(call.credential, call.path)
    partial = denial is not None
    if call.rules.reads is ReadMode.PUBLIC:
        if call.path == "/":
            return
        if partial:
            raise not_found(call.path)
    elif partial and not call.rules.on_the_way(call.credential, call.path):
        refuse(denial)
    view = await call.engine.view(exact=False)
    require_directory(call, view, call.path, partial=partial, include_archived=False)
