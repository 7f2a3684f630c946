"""mark_versions: the history of a document and whether its chain of hashes holds."""

from __future__ import annotations

from typing import Annotated

from pydantic import Field

from demarkus_broker.mcp.tools.answers import outcome
from demarkus_broker.mcp.tools.tool import Arguments, Call, Cost, Outcome, Text, Tool
from mark_protocol.request import Request, Verb


class VersionsArguments(Arguments):
    """Which document."""

    url: Annotated[Text, Field(description="mark://<world>/<path>")]


async def versions(call: Call[VersionsArguments]) -> Outcome:
    """Answer all retained versions, newest first, with `chain-valid`."""
    target = call.targets["url"]
    return outcome(await call.ask(target, Request(Verb.VERSIONS, target.path)))


TOOL = Tool(
    name="mark_versions",
    title="History of a document",
    description="List the versions of a document, newest first, and whether its hash chain is intact (chain-valid). "
    "Works for archived documents too.",
    arguments=VersionsArguments,
    world_arguments=("url",),
    cost=Cost.READ,
    operation=lambda _: "read",
    handler=versions,
)
