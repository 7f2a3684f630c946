"""mark_discover: what a world says of itself to agents."""

from __future__ import annotations

from typing import Annotated

from pydantic import Field

from demarkus_broker.mcp.tools.answers import ordered, outcome
from demarkus_broker.mcp.tools.tool import Arguments, Call, Cost, Outcome, Text, Tool
from mark_protocol.request import Request, Verb
from mark_protocol.status import Status

MANIFEST = "/.well-known/agent-manifest.md"


class DiscoverArguments(Arguments):
    """Which world."""

    url: Annotated[Text, Field(description="mark://<world>/")]


async def discover(call: Call[DiscoverArguments]) -> Outcome:
    """Answer the world's agent manifest."""
    response = await call.ask(call.targets["url"], Request(Verb.FETCH, MANIFEST))
    if response.status == Status.NOT_FOUND:
        return outcome(response, help="This world has no manifest: mark_list of its root shows what there is.")
    if response.status != Status.OK:
        return outcome(response)
    keys = {key: value for key, value in ordered(response.metadata).items() if key in ("version", "title")}
    return Outcome(status=response.status, keys=keys, body=response.body.decode("utf-8", errors="replace"))


TOOL = Tool(
    name="mark_discover",
    title="A world's manifest for agents",
    description="Read what a world says of itself: what it holds, its paths, its rules for agents.",
    arguments=DiscoverArguments,
    world_arguments=("url",),
    cost=Cost.READ,
    operation=lambda _: "read",
    handler=discover,
)
