"""mark_lookup_all: what matches a query in all worlds that are open to the caller."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Annotated

from pydantic import Field

from demarkus_broker.mcp.tools.address import Address, AddressError, parse
from demarkus_broker.mcp.tools.answers import outcome
from demarkus_broker.mcp.tools.expansion import expand
from demarkus_broker.mcp.tools.matches import LookupArguments, Row, fell_back, request, table
from demarkus_broker.mcp.tools.tool import Call, Cost, Kind, Outcome, Refusal, Target, Text, Tool
from demarkus_broker.worlds.directory import Entry
from mark_protocol.listings import ListingError, escape_cell
from mark_protocol.lookups import BODY, CATALOG, MATCH, parse_matches
from mark_protocol.response import Response
from mark_protocol.status import Status

AT_ONCE = 8
"""Worlds that are asked at one time."""
PATIENCE = 12.0
"""Seconds after which the worlds that have not answered count as failed."""

# A world in which there is nothing for the caller below the scope has no matches; that is no failure of it.
_NOTHING_THERE = frozenset({Status.NOT_FOUND, Status.NOT_PERMITTED, Status.UNAUTHORIZED})


class UniverseLookupArguments(LookupArguments):
    """What to look for, and below which path of every world."""

    scope: Annotated[Text, Field(description="a directory in every world")] = "/"


@dataclass(frozen=True, slots=True)
class _Found:
    """What a world has: rows in its order, and which of catalog and text was searched."""

    rows: list[Row]
    searched: str


_Answer = _Found | Response | Refusal | str
"""What a world found, how it or the way to it refused the query, or why there is no answer."""


async def lookup_all(call: Call[UniverseLookupArguments]) -> Outcome:
    """Ask every world, and merge what they found; some may fail, and the answer says which."""
    arguments = call.arguments
    scope = _scope(arguments.scope)
    entries = call.worlds.readable(call.person)
    answers = await _ask(call, entries, scope)
    for answer in answers.values():
        if isinstance(answer, Refusal):
            raise answer
        if isinstance(answer, Response):  # the query itself does not hold, and for no world
            return outcome(answer)
    found = {name: answer for name, answer in answers.items() if isinstance(answer, _Found)}
    failed = {name: answer for name, answer in answers.items() if isinstance(answer, str)}
    if failed and not found:
        reasons = "; ".join(f"{name}: {reason}" for name, reason in sorted(failed.items())[:10])
        raise Refusal(Kind.TRY_LATER, f"no world answered: {reasons}", "Make the same call again in a few seconds.")
    rows = merged(found)[: arguments.limit]
    searched = BODY if any(answer.searched == BODY for answer in found.values()) else CATALOG
    body = table(rows, body=searched == BODY, all_tags=arguments.verbose, qualified=True)
    if failed:
        lines = [f"| {name} | {escape_cell(reason)} |" for name, reason in sorted(failed.items())]
        body += "\n".join(["", "| World | Failure |", "|-------|---------|", *lines]) + "\n"
    if arguments.budget:
        body += await expand(call, rows, query=arguments.query, tokens=arguments.budget)
    note = fell_back(arguments, searched) if found else ""
    if failed:
        note = f"{note} Not all worlds have answered; what they hold may be missing here.".strip()
    return Outcome(
        status="partial" if failed else Status.OK,
        keys={
            "worlds": str(len(entries)),
            "succeeded": str(len(found)),
            "failed": str(len(failed)),
            "matches": str(len(rows)),
            MATCH: searched,
        },
        body=body,
        help=note,
    )


def merged(found: Mapping[str, _Found]) -> list[Row]:
    """The rows of all worlds: every world's first, then every world's second; within a rank the important first.

    Worlds rank by themselves, and their ranks are all that can be compared.
    """
    ranked = [(rank, row) for answer in found.values() for rank, row in enumerate(answer.rows)]
    ranked.sort(key=lambda pair: (pair[0], -pair[1].match.importance, pair[1].world, pair[1].match.path))
    return [row for _, row in ranked]


async def _ask(call: Call[UniverseLookupArguments], entries: list[Entry], scope: str) -> dict[str, _Answer]:
    """What each world says."""
    answers: dict[str, _Answer] = {entry.name: f"no answer within {PATIENCE:g} s" for entry in entries}
    gate = asyncio.Semaphore(AT_ONCE)

    async def ask(entry: Entry) -> None:
        async with gate:
            answers[entry.name] = await _one(call, Target(Address(entry.name, scope), entry))

    try:
        async with asyncio.timeout(PATIENCE), asyncio.TaskGroup() as group:
            for entry in entries:
                group.create_task(ask(entry))
    except TimeoutError:
        pass  # those that have not answered say so
    return answers


async def _one(call: Call[UniverseLookupArguments], target: Target) -> _Answer:
    try:
        response = await call.ask(target, request(call.arguments, target.path))
    except Refusal as refusal:
        return refusal if refusal.kind is Kind.ARGUMENT else refusal.message
    if response.status in _NOTHING_THERE:
        return _Found([], BODY if call.arguments.match == BODY else CATALOG)
    if response.status == Status.BAD_REQUEST:
        return response
    if response.status != Status.OK:
        return f"the world answered {response.status}"
    try:
        matches = parse_matches(response.body)
    except ListingError as error:
        return f"its answer can't be read: {error}"
    rows = [Row(world=target.entry.name, match=match) for match in matches]
    return _Found(rows, response.metadata.get(MATCH, CATALOG))


def _scope(text: str) -> str:
    try:
        return parse(f"mark://x/{text.removeprefix('/')}").path
    except AddressError as error:
        raise Refusal(Kind.ARGUMENT, f"scope: {error}", "Give a path, such as / or /notes/.") from None


TOOL = Tool(
    name="mark_lookup_all",
    title="Look something up in all worlds",
    description="Find documents in all your worlds at once; the rows hold URLs. With status partial some worlds did "
    "not answer.",
    arguments=UniverseLookupArguments,
    world_arguments=(),
    cost=Cost.FAN_OUT,
    operation=lambda _: "read",
    handler=lookup_all,
)
