"""mark_explore: a card of a document, enough to decide what to read of it and around it."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Annotated
from urllib.parse import quote

from pydantic import Field

from demarkus_broker.mcp.tools.address import Address
from demarkus_broker.mcp.tools.answers import ordered, outcome
from demarkus_broker.mcp.tools.reading import outline_of, size_of, text_of
from demarkus_broker.mcp.tools.tool import Arguments, Call, Cost, Outcome, Refusal, Target, Text, Tool
from mark_protocol.links import Link, links, relations
from mark_protocol.listings import ListingError, parse_list
from mark_protocol.outline import sections
from mark_protocol.request import Request, Verb
from mark_protocol.response import Response
from mark_protocol.status import Status
from mark_protocol.urls import DEFAULT_PORT, MarkURL
from mark_protocol.urls import resolve as resolve_url

ROWS = 10
"""Rows of each part of the card."""
_OPENING = 600
"""Characters of the opening."""


class ExploreArguments(Arguments):
    """Which document."""

    url: Annotated[Text, Field(description="mark://<world>/<path>")]
    verbose: Annotated[bool, Field(description="all metadata instead of version and title")] = False


async def explore(call: Call[ExploreArguments]) -> Outcome:
    """Answer outline, opening, outbound links and neighbours of a document."""
    target = call.targets["url"]
    response = await call.ask(target, Request(Verb.FETCH, target.path))
    if response.status != Status.OK:
        return outcome(response)
    keys = ordered(response.metadata)
    if not call.arguments.verbose:
        keys = {key: value for key, value in keys.items() if key in ("version", "title", "entries")}
    text = text_of(response.body)
    if text is None:
        return Outcome(status=response.status, keys={**keys, "mode": "binary"}, help="This document is not text.")
    parts = [
        f"## Outline\n\n{outline_of(response.body, most=ROWS)}",
        f"## Opening\n\n{_opening(response.body)}\n",
        _outbound(target.address, response),
        await _siblings(call, target),
    ]
    return Outcome(
        status=response.status,
        keys={**keys, "size": size_of(response.body)},
        body="\n".join(parts),
        help="mark_fetch of url#anchor reads one section.",
    )


def _opening(body: bytes) -> str:
    """The first text below a heading, or the beginning."""
    for section in sections(body):
        first, _, rest = section.text.partition("\n")
        lead = (rest if section.anchor else f"{first}\n{rest}").strip()
        if lead:
            return lead if len(lead) <= _OPENING else f"{lead[:_OPENING].rsplit(None, 1)[0]} ..."
    return "(no text)"


def _outbound(address: Address, response: Response) -> str:
    base = MarkURL(address.world, DEFAULT_PORT, address.path)
    rows: dict[str, str] = {}
    for link in (*relations(response.metadata), *links(response.body)):
        row = _link_row(base, link)
        if row:
            rows.setdefault(row, f"- {row}")
    return _part(f"Outbound links ({len(rows)})", rows.values(), len(rows))


def _link_row(base: MarkURL, link: Link) -> str:
    if link.target.startswith("#"):
        return ""
    url = resolve_url(base, link.target)
    anchor = f"#{quote(url.fragment, errors='surrogateescape')}" if url and url.fragment else ""
    where = f"{url.identity}{anchor}" if url else link.target
    return f"{where} [{link.relation}]" if link.relation else where


async def _siblings(call: Call[ExploreArguments], target: Target) -> str:
    """What else is in the document's directory."""
    parent, _, name = target.path.rpartition("/")
    directory = Address(target.address.world, parent or "/")
    try:
        listing = await call.ask(
            Target(directory, target.entry), Request(Verb.LIST, directory.path, {"page-size": "1000"})
        )
        children = parse_list(listing.body) if listing.status == Status.OK else []
    except (Refusal, ListingError):
        children = []
    names = [f"{child.name}/" if child.is_directory else child.name for child in children if child.name != name]
    folder = directory.path.rstrip("/")
    urls = (MarkURL(directory.world, DEFAULT_PORT, f"{folder}/{name}").identity for name in names[:ROWS])
    rows = [f"- {url}" for url in urls]
    return _part("Siblings", rows, len(names))


def _part(title: str, rows: Iterable[str], count: int) -> str:
    shown = list(rows)[:ROWS]
    if len(shown) < count:
        shown.append(f"- ... {count - len(shown)} more")
    return f"## {title}\n\n" + "\n".join(shown or ["(none)"]) + "\n"


TOOL = Tool(
    name="mark_explore",
    title="Explore around a document",
    description="A card of a document: outline, opening, outbound links, what else is in its directory.",
    arguments=ExploreArguments,
    world_arguments=("url",),
    cost=Cost.READ,
    operation=lambda _: "read",
    handler=explore,
)
