"""The table of verbs, and the steps before it (Mark protocol 4, "Dispatch order")."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Mapping
from typing import NamedTuple

from demarkus_world.authority import Credential, Rules
from demarkus_world.engine.engine import Engine, StoreDamaged, Unavailable
from demarkus_world.verbs.append import append
from demarkus_world.verbs.archive import archive
from demarkus_world.verbs.call import Call, Refused, not_found
from demarkus_world.verbs.fetch import fetch
from demarkus_world.verbs.list import list_directory
from demarkus_world.verbs.lookup import lookup
from demarkus_world.verbs.publish import publish
from demarkus_world.verbs.versions import versions
from demarkus_world.verbs.watch import watch
from mark_protocol.paths import clean, has_parent_segment
from mark_protocol.request import Request, Verb
from mark_protocol.response import Response
from mark_protocol.status import Status


class Row(NamedTuple):
    """A verb: its function, and whether it writes. A write keeps its own time: only the engine knows its outcome."""

    function: Callable[[Call], Awaitable[Response]]
    writes: bool = False


VERBS: Mapping[Verb, Row] = {
    Verb.FETCH: Row(fetch),
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
    """The response, and for the log what went wrong on our side, if anything did."""

    response: Response
    fault: str = ""


async def answer(
    request: Request,
    *,
    rules: Rules,
    credential: Credential | None,
    engine: Engine,
    timeout: float,
    compatible: bool,
    ignore_retention: bool = False,
) -> Answer:
    """Answers a parsed request within `timeout` seconds. Refusals and faults become statuses; only bugs are raised."""
    try:
        if has_parent_segment(request.path):
            raise not_found(request.path)
        row = VERBS[request.verb]
        call = Call(
            request=request,
            path=clean(request.path),
            rules=rules,
            credential=credential,
            engine=engine,
            timeout=timeout,
            compatible=compatible,
            ignore_retention=ignore_retention,
        )
        async with asyncio.timeout(None if row.writes else timeout):
            return Answer(await row.function(call))
    except Refused as refused:
        return Answer(refused.response, refused.fault)
    except TimeoutError:
        return Answer(Response.error(Status.SERVER_ERROR, "request timed out"), f"not done within {timeout:g} s")
    except Unavailable as error:
        return Answer(Response.error(Status.SERVER_ERROR, "store is unavailable; try again later"), str(error))
    except StoreDamaged as error:
        return Answer(Response.error(Status.SERVER_ERROR, "stored data is damaged"), str(error))
