"""mark_resolve: the document with a content hash, wherever an index says that it is."""

from __future__ import annotations

from typing import Annotated

from pydantic import Field

from demarkus_broker.mcp.tools.address import Address
from demarkus_broker.mcp.tools.answers import outcome
from demarkus_broker.mcp.tools.reading import text_of
from demarkus_broker.mcp.tools.tool import Arguments, Call, Cost, Kind, Outcome, Refusal, Target, Text, Tool
from demarkus_broker.worlds.directory import Entry
from mark_protocol.hash_indexes import HashIndexError, IndexRow, Shard, parse_index, parse_shard
from mark_protocol.request import Request, Verb
from mark_protocol.response import Response
from mark_protocol.status import Status
from mark_protocol.urls import URLError, parse_url
from mark_protocol.versions import content_hash

MOST_CANDIDATES = 10
"""Places that are tried for one hash."""
_MOST_SHARDS = 20


class ResolveArguments(Arguments):
    """Which content, and the index that knows where it is."""

    hash: Annotated[Text, Field(pattern=r"^sha256-[0-9a-f]{64}$", description="sha256-<64 hex>, a content-hash")]
    index: Annotated[Text, Field(description="mark://<world>/<path>.md of a hash index")]


async def resolve(call: Call[ResolveArguments]) -> Outcome:
    """Answer the text from the first place of the index that has it and is open to the caller."""
    wanted, index = call.arguments.hash, call.targets["index"]
    response = await call.ask(index, Request(Verb.FETCH, index.path))
    if response.status != Status.OK:
        return outcome(response)
    try:
        rows = await _rows(call, index, response, wanted)
    except HashIndexError as error:
        raise Refusal(Kind.ARGUMENT, f"index: {error}", "Give the address of a hash index.") from None
    places = _open_places(call, [row for row in rows if row.content == wanted])
    if not places:
        help = "The index names no place for it" + (" that is open to you." if rows else ".")
        return Outcome(status=Status.NOT_FOUND, help=help)
    failure: Refusal | None = None
    for row, entry in places[:MOST_CANDIDATES]:
        try:
            return await _content(call, row, entry)
        except Refusal as refusal:
            failure = refusal
    assert failure is not None
    raise failure


async def _rows(call: Call[ResolveArguments], index: Target, response: Response, wanted: str) -> list[IndexRow]:
    """The rows of the index that may name the hash. Raises HashIndexError."""
    rows: list[IndexRow] = []
    prefix = wanted.removeprefix("sha256-")[:2]
    for part in parse_index(response.body, path=index.path):
        if isinstance(part, IndexRow):
            rows.append(part)
        elif part.prefix == prefix and part.part < _MOST_SHARDS:
            rows += await _shard(call, index, part)
    return [row for row in rows if row.content == wanted]


async def _shard(call: Call[ResolveArguments], index: Target, shard: Shard) -> list[IndexRow]:
    answer = await call.ask(index, Request(Verb.FETCH, f"{shard.path}/v{shard.version}"))
    if answer.status != Status.OK:
        raise HashIndexError(f"the index names a shard that can't be read: {answer.status}")
    return parse_shard(answer.body, shard)


def _open_places(call: Call[ResolveArguments], rows: list[IndexRow]) -> list[tuple[IndexRow, Entry]]:
    """The places whose worlds are open to the caller, each world once; an index names servers in its own way."""
    by_host = {entry.world.tls_name: entry for entry in call.worlds.readable(call.person)}
    by_host |= {entry.name: entry for entry in by_host.values()}
    places: dict[str, tuple[IndexRow, Entry]] = {}
    for row in rows:
        try:
            host = parse_url(row.server).host
        except URLError:
            continue
        if entry := by_host.get(host):
            places.setdefault(entry.name, (row, entry))
    return list(places.values())


async def _content(call: Call[ResolveArguments], row: IndexRow, entry: Entry) -> Outcome:
    """The content as its world gives it by hash. Raises Refusal if it does not."""
    response = await call.ask(Target(Address(entry.name, f"/{row.content}"), entry), _by_hash(row))
    if response.status != Status.OK:
        raise Refusal(Kind.TRY_LATER, f"world {entry.name!r} answered {response.status} for {row.content}")
    if content_hash(response.body) != row.content:
        raise Refusal(Kind.BUG, f"world {entry.name!r} gave other content than {row.content}")
    text = text_of(response.body)
    keys = {"url": str(Address(entry.name, row.path)), "content-hash": row.content}
    if text is None:
        return Outcome(status=Status.OK, keys={**keys, "mode": "binary"}, help="This content is not text.")
    return Outcome(status=Status.OK, keys=keys, body=text)


def _by_hash(row: IndexRow) -> Request:
    return Request(Verb.FETCH, f"/{row.content}")


TOOL = Tool(
    name="mark_resolve",
    title="Find content by its hash",
    description="Read the document with a content hash from whichever of your worlds a hash index names for it.",
    arguments=ResolveArguments,
    world_arguments=("index",),
    cost=Cost.FAN_OUT,
    operation=lambda _: "read",
    handler=resolve,
)
