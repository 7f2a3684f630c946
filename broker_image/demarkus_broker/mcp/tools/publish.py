"""mark_publish: a new document, or a new version of one."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Annotated, Literal, Self

from pydantic import Field, model_validator

from demarkus_broker.mcp.tools.answers import outcome
from demarkus_broker.mcp.tools.tool import Arguments, Call, Cost, Kind, Outcome, Refusal, Text, Tool
from demarkus_broker.mcp.tools.writing import STAMPED, Write, fetch_version, publisher_metadata, send
from mark_protocol import limits
from mark_protocol.metadata import RESERVED_KEYS, RETENTION, TAGS, TYPE, normalise_tags
from mark_protocol.request import Verb
from mark_protocol.status import Status


class PublishArguments(Arguments):
    """What to write where, and for which version it was written."""

    url: Annotated[Text, Field(description="mark://<world>/<path>.md")]
    body: Annotated[
        Text | None,
        Field(
            description="the whole text, without front matter; empty = only unarchive; null = keep, with metadata_patch"
        ),
    ]
    expected_version: Annotated[
        int, Field(ge=0, lt=2**31 - 1, description="the version your text is based on; 0 = the document is new")
    ]
    metadata: Annotated[
        dict[Text, Text],
        Field(description="all of the new version's metadata: tags (a,b), importance (0-1), title, type, ..."),
    ] = Field(default_factory=dict)
    metadata_patch: Annotated[
        dict[Text, Text | None], Field(description="instead of metadata: keys to set, or null to drop; the rest stays")
    ] = Field(default_factory=dict)
    on_conflict: Annotated[
        Literal["merge", "fail"], Field(description="answer a conflict with a merged text, or with the current one")
    ] = "merge"

    @model_validator(mode="after")
    def _is_one_write(self) -> Self:
        if self.metadata and self.metadata_patch:
            raise ValueError("give metadata or metadata_patch, not both")
        if self.body is None and not self.metadata_patch:
            raise ValueError("body: null goes with metadata_patch only")
        if not self.body and self.metadata_patch and (self.body == "" or not self.expected_version):
            raise ValueError("metadata_patch needs a body, or null for it and the version whose body is to stay")
        return self


def operation(arguments: PublishArguments) -> str:
    """An empty body takes a document out of the archive."""
    return "archive" if arguments.body == "" else "write"


async def publish(call: Call[PublishArguments]) -> Outcome:
    """Write, or take out of the archive. A conflict carries the text that is there now, or a merge with it."""
    arguments, target = call.arguments, call.targets["url"]
    expected = arguments.expected_version
    metadata: Mapping[str, str] = arguments.metadata
    body = None if arguments.body is None else arguments.body.encode("utf-8")
    if arguments.metadata_patch:
        publisher_metadata(dict.fromkeys(arguments.metadata_patch, ""), call.agent)  # refuses what is not theirs
        metadata = {}
        if expected:
            before = await fetch_version(call, target, expected)
            if before.status != Status.OK:
                return outcome(before, help=f"metadata_patch needs version {expected}; give metadata and body whole.")
            metadata = _publisher_keys(before.metadata)
            body = before.body if body is None else body
        metadata = _patched(metadata, arguments.metadata_patch)
    if body is None or (not body and arguments.body is None):
        raise Refusal(Kind.ARGUMENT, f"body: version {expected} has no text to keep", "Give one.")
    if len(body) > limits.BODY:
        raise Refusal(Kind.ARGUMENT, f"body: {len(body)} bytes; a document has at most {limits.BODY}", "Split it.")
    write = Write(
        verb=Verb.PUBLISH,
        path=target.path,
        expected=expected,
        body=body,
        metadata=publisher_metadata(metadata, call.agent) if body else {},
        merged=arguments.on_conflict == "merge",
    )
    result = await send(call, target, write)
    if not body and result.status == Status.OK:
        return replace(result, help="Nothing was written: an empty body takes a document out of the archive.")
    if result.status == Status.CREATED and expected and not arguments.metadata_patch:
        return replace(result, help=await _lost_metadata(call, write) or result.help)
    return result


def _publisher_keys(metadata: Mapping[str, str]) -> dict[str, str]:
    """What a version's publisher gave. `retention` is never carried over: it deletes, and is asked for each time."""
    return {key: value for key, value in metadata.items() if key not in {*RESERVED_KEYS, *STAMPED, RETENTION}}


def _patched(metadata: Mapping[str, str], patch: Mapping[str, str | None]) -> dict[str, str]:
    merged = {key: value for key, value in metadata.items() if key not in patch}
    return merged | {key: value for key, value in patch.items() if value is not None}


async def _lost_metadata(call: Call[PublishArguments], write: Write) -> str:
    """A note if the version before had metadata that this write, which replaces all of it, has dropped."""
    try:
        before = _publisher_keys((await fetch_version(call, call.targets["url"], write.expected)).metadata)
    except Refusal:
        return ""
    lost = sorted(set(before) - {*write.metadata, TYPE})
    tags = _tags(before) - _tags(write.metadata) if TAGS in write.metadata else set()
    if not lost and not tags:
        return ""
    gone = [*lost, *(f"the tag {tag}" for tag in sorted(tags))]
    return (
        f"The version before had metadata that is gone now: {', '.join(gone)}. Metadata is replaced as a whole; "
        "metadata_patch changes single keys."
    )


def _tags(metadata: Mapping[str, str]) -> set[str]:
    return set(filter(None, normalise_tags(metadata.get(TAGS, "")).split(",")))


TOOL = Tool(
    name="mark_publish",
    title="Publish a document",
    description="Create a document or write its next version. Fetch it first and base your text on what you read: if "
    "it has changed since expected_version nothing is written, and you get a merge-candidate to look through and "
    "publish at its publish-at-version. Put no secrets in documents.",
    arguments=PublishArguments,
    world_arguments=("url",),
    cost=Cost.WRITE,
    operation=operation,
    handler=publish,
)
