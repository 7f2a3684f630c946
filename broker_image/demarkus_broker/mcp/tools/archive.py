"""mark_archive: a document out of sight, its history kept."""

from __future__ import annotations

from typing import Annotated

from pydantic import Field

from demarkus_broker.mcp.tools.answers import outcome
from demarkus_broker.mcp.tools.tool import Arguments, Call, Cost, Kind, Outcome, Refusal, Text, Tool
from mark_protocol.request import Request, Verb
from mark_protocol.status import Status


class ArchiveArguments(Arguments):
    """Which document."""

    url: Annotated[Text, Field(description="mark://<world>/<path>.md")]


async def archive(call: Call[ArchiveArguments]) -> Outcome:
    """Archive; a lost answer is settled by looking whether the document is archived now."""
    target = call.targets["url"]
    try:
        return outcome(await call.ask(target, Request(Verb.ARCHIVE, target.path)))
    except Refusal as lost:
        if lost.kind is not Kind.OUTCOME_UNKNOWN:
            raise
        try:
            now = await call.ask(target, Request(Verb.FETCH, target.path))
        except Refusal:
            raise lost from None
    if now.status == Status.ARCHIVED:
        return Outcome(
            status=Status.OK,
            keys={"archived": "true"},
            help="The world's answer was lost on the way; the document is archived.",
        )
    raise Refusal(
        Kind.TRY_LATER,
        "the world's answer was lost on the way, and the document is not archived",
        "Make the same call again; archiving twice does no harm.",
    )


TOOL = Tool(
    name="mark_archive",
    title="Archive a document",
    description="Take a document out of listings and searches. Its versions stay; mark_publish with an empty body "
    "brings it back.",
    arguments=ArchiveArguments,
    world_arguments=("url",),
    cost=Cost.WRITE,
    operation=lambda _: "archive",
    destructive=True,
    handler=archive,
)
