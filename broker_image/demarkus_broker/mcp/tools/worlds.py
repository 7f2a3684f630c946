"""mark_worlds: the worlds that exist for the caller."""

from __future__ import annotations

from demarkus_broker.mcp.tools.tool import Arguments, Call, Cost, Outcome, Tool
from mark_protocol.urls import DEFAULT_PORT


class WorldsArguments(Arguments):
    """Nothing."""


async def worlds(call: Call[WorldsArguments]) -> Outcome:
    """Answer a table; later columns may be added at its right, so read it by its header."""
    rows = []
    for entry in call.worlds.readable(call.person):
        rows.append(
            {
                "world": entry.name,
                "url": f"mark://{entry.name}/",
                "address": f"mark://{entry.world.tls_name}:{DEFAULT_PORT}/",
                "writable": entry.writable,
            }
        )
    lines = ["| world | url | address | writable |", "|-------|-----|---------|----------|"]
    lines += [
        f"| {row['world']} | {row['url']} | {row['address']} | {'yes' if row['writable'] else 'no'} |" for row in rows
    ]
    return Outcome(
        status="ok",
        keys={"count": str(len(rows))},
        body="\n".join(lines) + "\n",
        help="" if rows else "You are signed in, but no world is open to you: ask the owner of this universe.",
        data={"worlds": rows},
    )


TOOL = Tool(
    name="mark_worlds",
    title="List the worlds",
    description="List the worlds you may read, with the URL to use in the other tools and whether you may write there.",
    arguments=WorldsArguments,
    world_arguments=(),
    cost=Cost.LOCAL,
    operation=lambda _: "read",
    handler=worlds,
)
