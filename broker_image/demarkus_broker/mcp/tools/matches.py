"""What mark_lookup and mark_lookup_all share: their arguments, the request, the table they answer."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Annotated, Literal

from pydantic import Field

from demarkus_broker.mcp.tools.address import Address
from demarkus_broker.mcp.tools.tool import Arguments, Text
from mark_protocol.limits import LOOKUP_ROWS
from mark_protocol.listings import escape_cell, escape_link
from mark_protocol.lookups import BODY, CATALOG, FILTER, INCLUDE_SUPERSEDED, LIMIT, MATCH, QUERY, Match
from mark_protocol.request import Request, Verb

MOST_TAGS = 10
"""Tags of a row that are shown unless all are asked for."""
MOST_TOKENS = 50_000


class LookupArguments(Arguments):
    """What to look for."""

    query: Annotated[Text, Field(min_length=1, description="words, or * for all documents")]
    filter: Annotated[
        Text, Field(description="k=v,... on metadata; tag=, modified-after=, modified-before= (date)")
    ] = ""
    limit: Annotated[int, Field(ge=1, le=LOOKUP_ROWS, description="rows")] = 10
    match: Annotated[Literal["catalog", "body"], Field(description="titles and tags, or the text")] = "catalog"
    budget: Annotated[
        int, Field(ge=0, le=MOST_TOKENS, description="tokens of matching sections to append to the answer")
    ] = 0
    include_superseded: Annotated[bool, Field(description="also documents that others supersede")] = False
    verbose: Annotated[bool, Field(description="all tags")] = False


@dataclass(frozen=True, slots=True, kw_only=True)
class Row:
    """A match in a world."""

    world: str
    match: Match

    @property
    def address(self) -> Address:
        """Where it is, with its section."""
        return Address(self.world, self.match.path, self.match.anchor)


def request(arguments: LookupArguments, scope: str) -> Request:
    """The LOOKUP for these arguments below a canonical path."""
    metadata = {QUERY: arguments.query, LIMIT: str(arguments.limit), MATCH: arguments.match}
    if arguments.filter:
        metadata[FILTER] = arguments.filter
    if arguments.include_superseded:
        metadata[INCLUDE_SUPERSEDED] = "true"
    return Request(Verb.LOOKUP, scope, metadata)


def table(rows: Iterable[Row], *, body: bool, all_tags: bool, qualified: bool) -> str:
    """The rows as a table to be read by its header; `qualified` writes URLs instead of paths."""
    columns = ["Path", "Importance", "Title", "Tags", *(["Snippet"] if body else [])]
    lines = [_line(columns), "|" + "|".join("-" * (len(column) + 2) for column in columns) + "|"]
    for row in rows:
        match = row.match
        path = str(row.address) if qualified else _path(match)
        cells = [path, f"{match.importance:.2f}", escape_cell(match.title), escape_cell(_tags(match.tags, all_tags))]
        lines.append(_line([*cells, escape_cell(match.snippet or "")] if body else cells))
    return "\n".join(lines) + "\n"


def fell_back(arguments: LookupArguments, searched: str) -> str:
    """A note if the text was to be searched and only the catalog was."""
    if arguments.match == BODY and searched == CATALOG:
        return "The text can't be searched at present: these matches are by title and tags."
    return ""


def _line(cells: Iterable[str]) -> str:
    return "| " + " | ".join(cells) + " |"


def _path(match: Match) -> str:
    anchor = f"#{escape_link(match.anchor)}" if match.anchor else ""
    return escape_cell(match.path) + anchor


def _tags(tags: Sequence[str], all_tags: bool) -> str:
    shown = tags if all_tags else tags[:MOST_TAGS]
    more = f" +{len(tags) - len(shown)} more" if len(shown) < len(tags) else ""
    return ", ".join(shown) + more
