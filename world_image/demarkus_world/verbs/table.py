"""The table of verbs, and the steps before it (Mark protocol 4, "Dispatch order")."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Mapping
from typing import NamedTuple

from demarkus_world.engine.engine import StoreDamaged, Unavailable
from demarkus_world.verbs.answers import Answers, Ready
from demarkus_world.verbs.append import append
from demarkus_world.verbs.archive import archive
from demarkus_world.verbs.call import Call, Refused, not_found
from demarkus_world.verbs.fetch import fetch, fetch_at_once
from demarkus_world.verbs.list import list_directory
from demarkus_world.verbs.lookup import lookup
from demarkus_world.verbs.publish import publish
from demarkus_world.verbs.versions import versions
from demarkus_world.verbs.watch import watch
from mark_protocol.paths import has_parent_segment
from mark_protocol.request import Verb
from mark_protocol.response import Response
from mark_protocol.status import Status


class Row(NamedTuple):
    """A verb: its function, and whether it writes. A write keeps its own time: only the engine knows its outcome.

    `at_once` gives the same answer where that takes no wait and little work, None where it takes more.
    """

    function: Callable[[Call], Awaitable[Response]]
    writes: bool = False
    at_once: Callable[[Call, Answers], Ready | None] | None = None


VERBS: Mapping[Verb, Row] = {
    Verb.FETCH: Row(fetch, at_once=fetch_at_once),
    Verb.LIST: Row(list_directory),
    Verb.VERSIONS: Row(versions),
    Verb.PUBLISH: Row(publish, writes=True),
    Verb.APPEND: Row(append, writes=True),
    Verb.ARCHIVE: Row(archive, writes=True),
    Verb.LOOKUP: Row(lookup),
    Verb.WATCH: Row(watch),
}
"""Every verb of the grammar."""


class Answer(NamedTuple):
    """The response, for the log what went wrong on our side, if anything did, and the encoded head, if it is known."""

    response: Response
    fault: str = ""
    head: bytes | None = None


async def answer(call: Call) -> Answer:
    """Answers a request within the time it may take. Refusals and faults become statuses; only bugs are raised."""
    try:
        _check(call)
        row = VERBS[call.request.verb]
        async with asyncio.timeout(None if row.writes else call.timeout):
            return Answer(await row.function(call))
    except Refused as refused:
        return Answer(refused.response, refused.fault)
    except TimeoutError:
        return Answer(Response.error(Status.SERVER_ERROR, "request timed out"), f"not done within {call.timeout:g} s")
    except Unavailable as error:
        return Answer(Response.error(Status.SERVER_ERROR, "store is unavailable; try again later"), str(error))
    except StoreDamaged as error:
        return Answer(Response.error(Status.SERVER_ERROR, "stored data is damaged"), str(error))


def answer_at_once(call: Call, answers: Answers) -> Answer | None:
    """The answer to a request that needs no wait and little work; None for any other one."""
    at_once = VERBS[call.request.verb].at_once
    if at_once is None:
        return None
    try:
        _check(call)
        ready = at_once(call, answers)
    except Refused as refused:
        return Answer(refused.response, refused.fault)
    return None if ready is None else Answer(ready.response, head=ready.head)


def _check(call: Call) -> None:
    if has_parent_segment(call.request.path):
        raise not_found(call.request.path)
