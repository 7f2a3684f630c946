"""mark_fetch: one document, a section of it, one version of it, or a directory."""

from __future__ import annotations

from typing import Annotated

from pydantic import Field

from demarkus_broker.mcp.tools import primer
from demarkus_broker.mcp.tools.answers import ordered, outcome
from demarkus_broker.mcp.tools.reading import LARGE, outline_of, section_of, size_of, text_of
from demarkus_broker.mcp.tools.tool import Arguments, Call, Cost, Outcome, Text, Tool
from mark_protocol.request import Request, Verb
from mark_protocol.status import Status

_LEAN = ("version", "title", "current-version", "entries")


class FetchArguments(Arguments):
    """What to fetch, and how much of it."""

    url: Annotated[
        Text, Field(description="mark://<world>/<path>; append #<anchor> for a section, /v<N> for version N")
    ]
    known_version: Annotated[
        int | None, Field(ge=1, description="a version you hold: if it is still current, no text is sent")
    ] = None
    force: Annotated[bool, Field(description="the whole text, however large")] = False
    verbose: Annotated[bool, Field(description="all metadata instead of version and title")] = False


async def fetch(call: Call[FetchArguments]) -> Outcome:
    """Answer the text verbatim, a part of it, `unchanged`, or what the world says instead."""
    arguments, target = call.arguments, call.targets["url"]
    if target.path == primer.PATH:
        composed = await primer.compose(call.worlds, call.person, target)
        return Outcome(status=Status.OK, keys={"mode": "context"}, body=composed)
    response = await call.ask(target, Request(Verb.FETCH, target.path))
    if response.status != Status.OK:
        return outcome(response)
    everything = ordered(response.metadata)
    keys = everything if arguments.verbose else {key: everything[key] for key in everything if key in _LEAN}
    body = response.body
    text = text_of(body)
    if text is None:
        return Outcome(
            status=response.status,
            keys={**keys, "mode": "binary"},
            help=f"These {len(body)} bytes are not text; they can't be shown here.",
        )
    if anchor := target.address.anchor:
        return Outcome(status=response.status, keys={**keys, "section": f"#{anchor}"}, body=section_of(body, anchor))
    if not arguments.force:
        if arguments.known_version is not None and everything.get("version") == str(arguments.known_version):
            known = {key: value for key, value in everything.items() if key in ("version", "etag")}
            return Outcome(status="unchanged", keys=known, help="You hold this version; force sends its text.")
        if len(body) >= LARGE and "version" in everything:
            return Outcome(
                status=response.status,
                keys={**keys, "mode": "outline", "size": size_of(body)},
                body=outline_of(body),
                help="This is the outline: fetch the sections you need by url#anchor, or the whole text with force.",
            )
    return Outcome(status=response.status, keys=keys, body=text)


TOOL = Tool(
    name="mark_fetch",
    title="Fetch a document",
    description="Read a markdown document of a world, a section or version of it, or a directory's index. From 8 KiB "
    "on the answer is an outline. The version in it is what mark_publish and mark_append take as expected_version.",
    arguments=FetchArguments,
    world_arguments=("url",),
    anchored=True,
    cost=Cost.READ,
    operation=lambda _: "read",
    handler=fetch,
)
