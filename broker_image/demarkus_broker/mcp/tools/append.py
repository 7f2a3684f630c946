"""mark_append: text at the end of a document."""

from __future__ import annotations

from typing import Annotated

from pydantic import Field

from demarkus_broker.mcp.tools.answers import outcome
from demarkus_broker.mcp.tools.tool import Arguments, Call, Cost, Kind, Outcome, Refusal, Text, Tool
from demarkus_broker.mcp.tools.writing import Write, publisher_metadata, send
from mark_protocol import limits
from mark_protocol.request import Request, Verb
from mark_protocol.status import Status


class AppendArguments(Arguments):
    """What to add where."""

    url: Annotated[Text, Field(description="mark://<world>/<path>.md")]
    body: Annotated[Text, Field(min_length=1, description="the text to add at the end")]
    expected_version: Annotated[
        int, Field(ge=0, lt=2**31 - 1, description="the version to add to; 0 = whichever is current")
    ] = 0
    metadata: Annotated[dict[Text, Text], Field(description="metadata to set; the rest stays")] = Field(
        default_factory=dict
    )


async def append(call: Call[AppendArguments]) -> Outcome:
    """Add to the version that the caller named, else to the one that is current now."""
    arguments, target = call.arguments, call.targets["url"]
    body = arguments.body.encode("utf-8")
    if len(body) > limits.BODY:
        raise Refusal(Kind.ARGUMENT, f"body: {len(body)} bytes; a document has at most {limits.BODY}", "Split it.")
    metadata = publisher_metadata(arguments.metadata, call.agent)
    expected = arguments.expected_version
    if not expected:
        history = await call.ask(target, Request(Verb.VERSIONS, target.path))
        if history.status == Status.NOT_FOUND:
            return outcome(history, help="There is nothing to add to: mark_publish with expected_version 0 creates it.")
        current = history.metadata.get("current", "")
        if history.status != Status.OK or not current.isdigit():
            return outcome(history)
        expected = int(current)
    write = Write(verb=Verb.APPEND, path=target.path, expected=expected, body=body, metadata=metadata)
    return await send(call, target, write)


TOOL = Tool(
    name="mark_append",
    title="Append to a document",
    description="Add text at the end of a document, as a new version; its metadata stays. Start the text with an empty "
    "line if it is a new paragraph or section.",
    arguments=AppendArguments,
    world_arguments=("url",),
    cost=Cost.WRITE,
    operation=lambda _: "append",
    idempotent=False,
    handler=append,
)
