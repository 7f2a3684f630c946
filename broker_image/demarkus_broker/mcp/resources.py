"""Resources: documents as MCP clients attach them to a conversation, and what completes an address half typed.

A resource is always the whole text (or the section that its anchor names), never an outline.
"""

from __future__ import annotations

import base64
from dataclasses import dataclass

from demarkus_broker.identity import Person
from demarkus_broker.mcp.tools import primer
from demarkus_broker.mcp.tools.address import Address, AddressError, parse
from demarkus_broker.mcp.tools.reading import section_of, text_of
from demarkus_broker.mcp.tools.tool import Kind, Refusal, Target, Worlds, ask
from mark_protocol.listings import ListingError, parse_list
from mark_protocol.request import Request, Verb
from mark_protocol.status import Status
from mark_protocol.urls import DEFAULT_PORT, MarkURL

TEMPLATE = "mark://{world}/{+path}"
MARKDOWN = "text/markdown"
MOST_COMPLETIONS = 100

_PLAIN_PATH = "/index.md"
_SCHEME = "mark://"


@dataclass(frozen=True, slots=True)
class Content:
    """What a resource holds: text, or bytes in base64."""

    text: str | None
    blob: str = ""


def homes(worlds: Worlds, person: Person) -> list[Address]:
    """The index of every world that is open to the person."""
    return [Address(entry.name, _PLAIN_PATH) for entry in worlds.readable(person)]


async def read(worlds: Worlds, person: Person, uri: str) -> Content:
    """A resource's content. Raises Refusal."""
    try:
        address = parse(uri, anchored=True)
    except AddressError as error:
        raise Refusal(Kind.ARGUMENT, f"uri: {error}") from None
    entry = worlds.find(address.world, person)
    if entry is None:
        raise Refusal(Kind.NO_SUCH_WORLD, f"uri: there is no world {address.world!r} that is open to you")
    target = Target(address, entry)
    if address.path == primer.PATH:
        return Content(await primer.compose(worlds, person, target))
    response = await ask(worlds, person, target, Request(Verb.FETCH, address.path))
    if response.status != Status.OK:
        raise Refusal(Kind.ARGUMENT, f"uri: the world answered {response.status}")
    text = text_of(response.body)
    if text is None:
        return Content(None, base64.b64encode(response.body).decode())
    return Content(section_of(response.body, address.anchor) if address.anchor else text)


def complete_world(worlds: Worlds, person: Person, begun: str) -> list[str]:
    """Names of worlds that begin so."""
    return [entry.name for entry in worlds.readable(person) if entry.name.startswith(begun)]


async def complete_url(worlds: Worlds, person: Person, begun: str) -> list[str]:
    """Addresses that begin so: of worlds, or of what is in the directory that was typed last."""
    if not begun.startswith(_SCHEME) or "/" not in begun.removeprefix(_SCHEME):
        urls = (f"{_SCHEME}{entry.name}/" for entry in worlds.readable(person))
        return [url for url in urls if url.startswith(begun)]
    world, _, path = begun.removeprefix(_SCHEME).partition("/")
    return [f"{_SCHEME}{world}/{found}" for found in await complete_path(worlds, person, world, path)]


async def complete_path(worlds: Worlds, person: Person, world: str, begun: str) -> list[str]:
    """Paths in a world (percent-encoded, without the first slash) that begin so; none if it can't be read."""
    folder, slash, _ = begun.rpartition("/")
    try:
        address = parse(f"{_SCHEME}{world}/{folder}")
        entry = worlds.find(address.world, person)
        if entry is None:
            return []
        response = await ask(worlds, person, Target(address, entry), Request(Verb.LIST, address.path))
        children = parse_list(response.body) if response.status == Status.OK else []
    except (AddressError, ListingError, Refusal):
        return []
    found = []
    for child in children:
        name = MarkURL(world, DEFAULT_PORT, f"/{child.name}").identity.rpartition("/")[2]
        path = f"{folder}{slash}{name}{'/' if child.is_directory else ''}"
        if path.startswith(begun):
            found.append(path)
    return found
