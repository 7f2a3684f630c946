"""mark_lookup: what matches a query in one world."""

from __future__ import annotations

from typing import Annotated

from pydantic import Field

from demarkus_broker.mcp.tools.answers import outcome
from demarkus_broker.mcp.tools.expansion import expand
from demarkus_broker.mcp.tools.matches import LookupArguments, Row, fell_back, request, table
from demarkus_broker.mcp.tools.tool import Call, Cost, Kind, Outcome, Refusal, Text, Tool
from mark_protocol.listings import ListingError
from mark_protocol.lookups import BODY, CATALOG, MATCH, parse_matches
from mark_protocol.status import Status


class WorldLookupArguments(LookupArguments):
    """What to look for, and where."""

    url: Annotated[Text, Field(description="mark://<world>/, or a directory in it")]


async def lookup(call: Call[WorldLookupArguments]) -> Outcome:
    """Answer the table of matches, and text of them within the budget."""
    arguments, target = call.arguments, call.targets["url"]
    response = await call.ask(target, request(arguments, target.path))
    if response.status != Status.OK:
        return outcome(response)
    searched = response.metadata.get(MATCH, CATALOG)
    try:
        matches = parse_matches(response.body)
    except ListingError as error:
        raise Refusal(Kind.BUG, f"the world's answer can't be read: {error}") from None
    rows = [Row(world=target.entry.name, match=match) for match in matches]
    body = table(rows, body=searched == BODY, all_tags=arguments.verbose, qualified=False)
    if arguments.budget:
        body += await expand(call, rows, query=arguments.query, tokens=arguments.budget)
    return Outcome(
        status=Status.OK,
        keys={"matches": str(len(rows)), MATCH: searched},
        body=body,
        help=fell_back(arguments, searched),
    )


TOOL = Tool(
    name="mark_lookup",
    title="Look something up in a world",
    description="Find documents of a world by words in title, tags or text. Then fetch the section you need by its "
    "path#anchor.",
    arguments=WorldLookupArguments,
    world_arguments=("url",),
    cost=Cost.READ,
    operation=lambda _: "read",
    handler=lookup,
)
