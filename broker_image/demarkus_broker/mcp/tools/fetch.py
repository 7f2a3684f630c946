"""mark_fetch: one document, one version of it, or a directory."""

from __future__ import annotations

from typing import Annotated

from pydantic import Field

from demarkus_broker.mcp.tools.answers import ordered, outcome
from demarkus_broker.mcp.tools.tool import Arguments, Call, Cost, Outcome, Text, Tool
from mark_protocol.request import Request, Verb
from mark_protocol.status import Status

_LEAN = ("version", "title", "current-version", "entries")


class FetchArguments(Arguments):
    """What to fetch."""

    url: Annotated[Text, Field(description="mark://<world>/<path>; append /v<N> for version N")]
    known_version: Annotated[
        int | None, Field(ge=1, description="a version you hold: if it is still current, no text is sent")
    ] = None
    verbose: Annotated[bool, Field(description="all metadata instead of version and title")] = False


async def fetch(call: Call[FetchArguments]) -> Outcome:
    """Answer the text verbatim, `unchanged`, or what the world says instead."""
    arguments = call.arguments
    response = await call.ask(call.targets["url"], Request(Verb.FETCH, call.targets["url"].path))
    if response.status != Status.OK:
        return outcome(response)
    keys = ordered(response.metadata)
    if not arguments.verbose:
        keys = {key: value for key, value in keys.items() if key in _LEAN}
    if arguments.known_version is not None and response.metadata.get("version") == str(arguments.known_version):
        return Outcome(
            status="unchanged", keys=keys, help="You hold this version; leave out known_version for its text."
        )
    try:
        body = response.body.decode("utf-8")
    except UnicodeDecodeError:
        return Outcome(
            status=response.status,
            keys={**keys, "mode": "binary"},
            help=f"These {len(response.body)} bytes are not text; they can't be shown here.",
        )
    return Outcome(status=response.status, keys=keys, body=body)


TOOL = Tool(
    name="mark_fetch",
    title="Fetch a document",
    description="Read a markdown document of a world, one of its versions, or a directory's index. The version in the "
    "answer is what mark_publish and mark_append take as expected_version.",
    arguments=FetchArguments,
    world_arguments=("url",),
    cost=Cost.READ,
    operation=lambda _: "read",
    handler=fetch,
)
