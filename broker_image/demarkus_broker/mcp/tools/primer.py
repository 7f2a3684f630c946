"""`mark://<world>/.context`: what to know of a world before working in it, put together from its own documents.

No world can keep a document of that name. It holds the index, the roadmap and the newest entries of the journal, each
as far as it is there and open to the caller, and each cut to a size that a session can bear.
"""

from __future__ import annotations

import asyncio

from demarkus_broker.identity import Person
from demarkus_broker.mcp.tools.address import Address
from demarkus_broker.mcp.tools.reading import text_of
from demarkus_broker.mcp.tools.tool import Target, Worlds, ask
from mark_protocol.listings import ListingError, parse_list
from mark_protocol.request import Request, Verb
from mark_protocol.status import Status

PATH = "/.context"

_HUB, _ROADMAP, _JOURNAL = "/index.md", "/roadmap.md", "/journal"
_NEWEST = 3
"""Entries of the journal, by name: they begin with their dates."""
_MOST_PAGES = 5
_CLIP = 4000
"""Bytes of each document."""


async def compose(worlds: Worlds, person: Person, target: Target) -> str:
    """The primer of the target's world for a person. Raises Refusal if the world gives no answer."""
    paths = [_HUB, *await _journal(worlds, person, target), _ROADMAP]
    parts = await asyncio.gather(*(_part(worlds, person, target, path) for path in paths))
    there = [part for part in parts if part]
    if not there:
        there = [f"There is no {_HUB}, no {_ROADMAP} and no {_JOURNAL}/ here: mark_list shows what there is.\n"]
    return f"# Context of {target.entry.name}\n\n" + "\n".join(there)


async def _part(worlds: Worlds, person: Person, target: Target, path: str) -> str:
    response = await ask(worlds, person, target, Request(Verb.FETCH, path))
    text = text_of(response.body) if response.status == Status.OK else None
    version = response.metadata.get("version")
    if text is None or version is None:  # a directory's listing has none
        return ""
    pinned = Address(target.entry.name, f"{path}/v{version}")
    clipped = text.encode()[:_CLIP].decode("utf-8", errors="ignore")
    if clipped != text:
        clipped = f"{clipped.rpartition(chr(10))[0] or clipped}\n... clipped"
    return f">>> {pinned}\n{clipped.rstrip()}\n"


async def _journal(worlds: Worlds, person: Person, target: Target) -> list[str]:
    """Paths of the newest entries, newest first."""
    names: list[str] = []
    cursor = ""
    for _ in range(_MOST_PAGES):
        metadata = {"cursor": cursor} if cursor else {}
        listing = await ask(worlds, person, target, Request(Verb.LIST, _JOURNAL, metadata))
        if listing.status != Status.OK:
            break
        try:
            names += [child.name for child in parse_list(listing.body) if not child.is_directory]
        except ListingError:
            break
        cursor = listing.metadata.get("next-cursor", "")
        if not cursor:
            break
    entries = sorted(name for name in names if name.endswith(".md") and name != "index.md")
    return [f"{_JOURNAL}/{name}" for name in reversed(entries[-_NEWEST:])]
