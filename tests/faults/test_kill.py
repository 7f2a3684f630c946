"""SIGKILL of a world in the middle of its writes: what was acknowledged is there, and nothing else is."""

import asyncio
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

from mark_protocol.request import Request, Verb, encode_request
from mark_protocol.response import Response, parse_response
from mark_protocol.transport.port import Connection, NotSent, Unanswered

RUNS, PUBLISHES, WRITERS, DOCUMENTS = 10, 1000, 10, 3
TIMEOUT = 20.0


@dataclass
class Document:
    """What its only writer knows of a document: the bodies of its versions, and a write without an answer."""

    path: str
    bodies: list[bytes] = field(default_factory=list)
    unknown: bytes | None = None


async def ask(connection: Connection, verb: Verb, path: str, body: bytes = b"", **metadata: str) -> Response:
    keys = {name.replace("_", "-"): value for name, value in metadata.items()}
    data = encode_request(Request(verb, path, keys, body))
    return parse_response(await connection.exchange(data, timeout=TIMEOUT))


async def write(connection: Connection, run: int, documents: list[Document], acknowledged: Callable[[], None]) -> None:
    """One writer's share of the publishes, each on what the one before left; ends when the world does."""
    for number in range(PUBLISHES // WRITERS):
        document = documents[number % len(documents)]
        body = f"run {run}, publish {number} of {document.path}\n".encode() * 20
        document.unknown = body
        try:
            answer = await ask(
                connection, Verb.PUBLISH, document.path, body, auth="admin", expected_version=str(len(document.bodies))
            )
        except NotSent:
            document.unknown = None
            return
        except Unanswered:
            return
        assert (answer.status, answer.metadata["version"]) == ("created", str(len(document.bodies) + 1))
        document.bodies.append(body)
        document.unknown = None
        acknowledged()


async def settle(connection: Connection, document: Document) -> bool:
    """Finds out what became of the write without an answer; whether it happened."""
    body, document.unknown = document.unknown, None
    if body is None:
        return False
    answer = await ask(connection, Verb.FETCH, f"{document.path}/v{len(document.bodies) + 1}")
    if answer.status == "not-found":
        return False
    assert answer.body == body
    document.bodies.append(body)
    return True


async def check(connection: Connection, document: Document, *, since: int) -> None:
    """Every version that was acknowledged is there with its bytes, none is that was not, and the chain holds."""
    history = await ask(connection, Verb.VERSIONS, document.path)
    if not document.bodies:
        assert history.status == "not-found"
        return
    assert history.metadata["current"] == history.metadata["total"] == str(len(document.bodies))
    assert (history.metadata["chain-valid"], history.metadata["chain-state"]) == ("true", "intact")
    for version in range(since + 1, len(document.bodies) + 1):
        answer = await ask(connection, Verb.FETCH, f"{document.path}/v{version}")
        assert (answer.status, answer.body) == ("ok", document.bodies[version - 1])


async def test_a_killed_world_has_every_acknowledged_version(
    start_world: Callable[..., Any], token_file: Callable[..., str], record_property: Callable[[str, object], None]
) -> None:
    world = start_world(tokens=token_file(("admin", "/**", ("publish",))), reads="public")
    shares = [[Document(f"/writer-{w}/{d}.md") for d in range(DOCUMENTS)] for w in range(WRITERS)]
    documents = [document for share in shares for document in share]
    total = unknown = happened = 0
    began = time.monotonic()
    for run in range(RUNS):
        before = {document.path: len(document.bodies) for document in documents}
        # The kill strikes once early, once late, and eight times in between.
        left = PUBLISHES * (2 * run + 1) // (2 * RUNS)

        connection = await world.dial()

        def acknowledged(connection: Connection = connection) -> None:
            nonlocal left, total
            left -= 1
            total += 1
            if left == 0:
                world.kill()
                connection.close()  # spares the wait for its silence to be noticed

        await asyncio.gather(*(write(connection, run, share, acknowledged) for share in shares))
        assert left <= 0, "the world was to be killed before all was written"
        world.start()
        connection = await world.dial()
        unknown += sum(document.unknown is not None for document in documents)
        for document in documents:
            happened += await settle(connection, document)
            await check(connection, document, since=before[document.path])
        connection.close()
    told = (
        f"{RUNS} kills in {time.monotonic() - began:.1f} s: {total} acknowledged, all there; "
        f"{unknown} without an answer, of which {happened} had happened"
    )
    record_property("measured", told)
    print(told)
    assert total >= RUNS * PUBLISHES // 2
    assert sum(len(document.bodies) for document in documents) == total + happened
