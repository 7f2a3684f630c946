"""mark_list: what is in a directory, page by page."""

from __future__ import annotations

from typing import Annotated

from pydantic import Field

from demarkus_broker.mcp.tools.answers import outcome
from demarkus_broker.mcp.tools.tool import Arguments, Call, Cost, Kind, Outcome, Refusal, Text, Tool
from mark_protocol.request import Request, Verb


class ListArguments(Arguments):
    """Which directory, and which part of it."""

    url: Annotated[Text, Field(description="mark://<world>/<directory>/")]
    include_archived: Annotated[bool, Field(description="list archived documents too")] = False
    cursor: Annotated[Text, Field(max_length=16_384, description="next-cursor of the page before")] = ""
    page_size: Annotated[int, Field(ge=1, le=1000)] = 1000


async def list_directory(call: Call[ListArguments]) -> Outcome:
    """Answer one page; an incomplete one carries `next-cursor`."""
    arguments = call.arguments
    metadata = {"page-size": str(arguments.page_size)}
    if arguments.include_archived:
        metadata["include-archived"] = "true"
    if arguments.cursor:
        metadata["cursor"] = arguments.cursor
    target = call.targets["url"]
    response = await call.ask(target, Request(Verb.LIST, target.path, metadata))
    following = response.metadata.get("next-cursor")
    if following and following == arguments.cursor:
        raise Refusal(Kind.BUG, "the world gave the same cursor again", "List the directory from its start.")
    more = f"This is not all: call again with cursor {following}." if following else ""
    return outcome(response, help=more)


TOOL = Tool(
    name="mark_list",
    title="List a directory",
    description="List the documents and directories directly below a directory of a world. Conclude nothing from a "
    "page whose complete is false: go on with next-cursor.",
    arguments=ListArguments,
    world_arguments=("url",),
    cost=Cost.READ,
    operation=lambda _: "read",
    handler=list_directory,
)
