"""Text behind a lookup's table: whole sections of what was found, within a budget, each with where it is from.

Blocks begin with `>>>` and a location that stays true: the version is in it. First comes what matched, in the order of
the table; what is left of the budget goes to documents that the found ones name as related.
"""

from __future__ import annotations

import asyncio
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field, replace

from demarkus_broker.mcp.tools.address import Address
from demarkus_broker.mcp.tools.matches import Row
from demarkus_broker.mcp.tools.reading import LARGE, outline_of, text_of
from demarkus_broker.mcp.tools.tool import A, Call, Refusal, Target
from mark_protocol.links import relations
from mark_protocol.outline import cut, sections
from mark_protocol.request import Request, Verb
from mark_protocol.response import Response
from mark_protocol.status import Status
from mark_protocol.urls import DEFAULT_PORT, MarkURL, resolve

BYTES_IN_A_TOKEN = 4
MOST_DOCUMENTS = 10
"""Documents that are fetched for one lookup."""
PATIENCE = 8.0
"""Seconds after which the blocks that are there are all there will be: the table must not be lost to slow documents."""
_FIRST_RELATION = "supersedes"


async def expand(call: Call[A], rows: Sequence[Row], *, query: str, tokens: int) -> str:
    """The blocks for these rows that fit into so many tokens; a world that gives no answer is passed over."""
    expansion = _Expansion(tokens * BYTES_IN_A_TOKEN)
    try:
        async with asyncio.timeout(PATIENCE):
            await _fill(expansion, call, rows, query)
    except TimeoutError:
        expansion.blocks.append("\n>>> More could not be fetched in time.\n")
    return "".join(expansion.blocks)


async def _fill(expansion: _Expansion, call: Call[A], rows: Sequence[Row], query: str) -> None:
    found: dict[tuple[str, str], Response | None] = {}
    for row in rows:
        document = row.world, row.match.path
        if document not in found:
            if len(found) >= MOST_DOCUMENTS or expansion.full:
                continue
            found[document] = await _fetch(call, *document)
        if response := found[document]:
            expansion.add_match(Address(*document), response, row.match.anchor, query)
    related = [
        target
        for (world, path), response in found.items()
        if response
        for target in _related(world, path, response)
        if target not in found
    ]
    for document in dict.fromkeys(related):
        if len(found) >= MOST_DOCUMENTS or expansion.full:
            break
        found[document] = response = await _fetch(call, *document)
        if response:
            expansion.add_document(Address(*document), response)


async def _fetch(call: Call[A], world: str, path: str) -> Response | None:
    """A document that is there, open to the caller, and text."""
    entry = call.worlds.find(world, call.person)
    if entry is None:
        return None
    try:
        response = await call.ask(Target(Address(world, path), entry), Request(Verb.FETCH, path))
    except Refusal:
        return None
    return response if response.status == Status.OK and text_of(response.body) is not None else None


def _related(world: str, path: str, response: Response) -> Iterator[tuple[str, str]]:
    named = sorted(relations(response.metadata), key=lambda link: (link.relation != _FIRST_RELATION, link.relation))
    for link in named:
        target = resolve(MarkURL(world, DEFAULT_PORT, path), link.target)
        if target is not None and target.port == DEFAULT_PORT:
            yield target.host, target.path


@dataclass(slots=True)
class _Expansion:
    """Blocks, as long as there is room for them."""

    room: int
    blocks: list[str] = field(default_factory=list)
    _there: set[str] = field(default_factory=set)

    @property
    def full(self) -> bool:
        """Whether nothing worth a request fits any more."""
        return self.room < 64

    def add_match(self, address: Address, response: Response, anchor: str, query: str) -> None:
        """The section that matched; without one the document, or its sections that hold every word of the query."""
        if anchor:
            section = cut(response.body, anchor)
            if section is not None:
                self._add(address, response, anchor, section.decode("utf-8", errors="replace"))
            return
        if len(response.body) < LARGE:
            self.add_document(address, response)
            return
        words = query.casefold().split()
        fitting = [
            section
            for section in sections(response.body)
            if section.anchor and all(word in section.text.casefold() for word in words)
        ]
        for part in fitting:
            self._add(address, response, part.anchor, part.text)
        if not fitting:
            self.add_document(address, response)

    def add_document(self, address: Address, response: Response) -> None:
        """The whole text, or the outline of a large one."""
        large = len(response.body) >= LARGE
        text = outline_of(response.body) if large else response.body.decode("utf-8")
        self._add(address, response, "", text, note=" (outline)" if large else "")

    def _add(self, address: Address, response: Response, anchor: str, text: str, *, note: str = "") -> None:
        version = response.metadata.get("version", "")
        pinned = replace(address, path=f"{address.path}/v{version}" if version else address.path, anchor=anchor)
        block = f"\n>>> {pinned}{note}\n{text if text.endswith(chr(10)) else text + chr(10)}"
        size = len(block.encode())
        if size <= self.room and str(pinned) not in self._there:
            self._there.add(str(pinned))
            self.blocks.append(block)
            self.room -= size
