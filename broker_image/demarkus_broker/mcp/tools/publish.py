"""mark_publish: a new document, or a new version of one."""

from __future__ import annotations

from dataclasses import replace
from typing import Annotated

from pydantic import Field

from demarkus_broker.mcp.tools.tool import Arguments, Call, Cost, Kind, Outcome, Refusal, Text, Tool
from demarkus_broker.mcp.tools.writing import STAMPED, Write, publisher_metadata, send
from mark_protocol import limits
from mark_protocol.metadata import RESERVED_KEYS
from mark_protocol.request import Request, Verb
from mark_protocol.status import Status


class PublishArguments(Arguments):
    """What to write where, and for which version it was written."""

    url: Annotated[Text, Field(description="mark://<world>/<path>.md")]
    body: Annotated[Text, Field(description="the whole text, without front matter; empty = only unarchive")]
    expected_version: Annotated[
        int, Field(ge=0, lt=2**31 - 1, description="the version your text is based on; 0 = the document is new")
    ]
    metadata: Annotated[
        dict[Text, Text],
        Field(description="all of the new version's metadata: tags (a,b), importance (0-1), title, type, ..."),
    ] = Field(default_factory=dict)


def operation(arguments: PublishArguments) -> str:
    """An empty body takes a document out of the archive."""
    return "write" if arguments.body else "archive"


async def publish(call: Call[PublishArguments]) -> Outcome:
    """Write, or take out of the archive. A conflict carries the text that is there now."""
    arguments, target = call.arguments, call.targets["url"]
    body = arguments.body.encode("utf-8")
    if len(body) > limits.BODY:
        raise Refusal(Kind.ARGUMENT, f"body: {len(body)} bytes; a document has at most {limits.BODY}", "Split it.")
    write = Write(
        verb=Verb.PUBLISH,
        path=target.path,
        expected=arguments.expected_version,
        body=body,
        metadata=publisher_metadata(arguments.metadata, call.agent) if body else {},
    )
    result = await send(call, target, write)
    if not body and result.status == Status.OK:
        return replace(result, help="Nothing was written: an empty body takes a document out of the archive.")
    if result.status == Status.CREATED and write.expected:
        return replace(result, help=await _lost_metadata(call, write) or result.help)
    return result


async def _lost_metadata(call: Call[PublishArguments], write: Write) -> str:
    """A note if the version before had metadata that this write, which replaces all of it, has dropped."""
    try:
        before = await call.ask(call.targets["url"], Request(Verb.FETCH, f"{write.path}/v{write.expected}"))
    except Refusal:
        return ""
    kept = {*write.metadata, *RESERVED_KEYS, *STAMPED, "type", "retention"}
    lost = sorted(set(before.metadata) - kept)
    if not lost:
        return ""
    return f"The version before had metadata that is gone now: {', '.join(lost)}. Metadata is replaced as a whole."


TOOL = Tool(
    name="mark_publish",
    title="Publish a document",
    description="Create a document or write its next version. Fetch it first and base your text on what you read: if "
    "it has changed since expected_version nothing is written, and you get the current text to merge with. Put no "
    "secrets in documents.",
    arguments=PublishArguments,
    world_arguments=("url",),
    cost=Cost.WRITE,
    operation=operation,
    handler=publish,
)
