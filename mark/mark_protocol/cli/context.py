"""`mark context`: what somebody who comes to a world reads first (Mark protocol 4.9)."""

from __future__ import annotations

from dataclasses import dataclass, replace

import click

from mark_protocol.cli.output import echo_json
from mark_protocol.cli.server import Server, on_a_server
from mark_protocol.client.client import MarkClient
from mark_protocol.client.walk import Refused, children
from mark_protocol.status import Status

HUB, JOURNAL, ROADMAP = "index.md", "journal", "roadmap.md"
ENTRIES = 3
CLIPPED = 4000
"""Bytes of a document that are shown."""


@dataclass(frozen=True, slots=True, kw_only=True)
class _Part:
    path: str
    version: str
    body: bytes
    size: int


@click.command()
@on_a_server
def context(server: Server) -> None:
    """Print the primer of a world, or of a directory: hub, three newest journal entries, roadmap.

    These are index.md, the last three documents below journal/ by name, and roadmap.md; each clipped at 4000 bytes.
    """
    base = server.url.path.rstrip("/")

    async def work(client: MarkClient) -> list[_Part]:
        paths = [f"{base}/{HUB}", *await _newest(client, f"{base}/{JOURNAL}", ENTRIES), f"{base}/{ROADMAP}"]
        parts = [await _part(client, path) for path in paths]
        return [part for part in parts if part is not None]

    parts = server.run(work)
    if not parts:
        raise click.ClickException(f"there is no {HUB}, {JOURNAL}/ or {ROADMAP} in {base}/")
    if server.json:
        echo_json([_as_json(part) for part in parts])
        return
    for part in parts:
        click.echo(f">>> {replace(server.url, path=part.path, fragment='').identity}/v{part.version}")
        click.echo(part.body.rstrip(b"\n"))
        if part.size > len(part.body):
            click.echo(f"[clipped: {len(part.body)} of {part.size} bytes]")
        click.echo()


async def _part(client: MarkClient, path: str) -> _Part | None:
    response = await client.fetch(path)
    if response.status in (Status.NOT_FOUND, Status.ARCHIVED):
        return None
    if response.status != Status.OK:
        raise Refused(f"FETCH {path}", response)
    # A character that is cut in two is left out.
    body = response.body[:CLIPPED].decode(errors="ignore").encode()
    return _Part(path=path, version=response.metadata.get("version", ""), body=body, size=len(response.body))


async def _newest(client: MarkClient, directory: str, most: int) -> list[str]:
    """The last documents below a directory in the order of names, last first: names of entries begin with dates."""
    try:
        found = [child async for child in children(client, directory)]
    except Refused as refused:
        if refused.response.status == Status.NOT_FOUND:
            return []
        raise
    paths: list[str] = []
    for child in reversed(found):
        if len(paths) >= most:
            break
        path = f"{directory}/{child.name}"
        if child.is_directory:
            paths += await _newest(client, path, most - len(paths))
        elif child.name != HUB:
            paths.append(path)
    return paths


def _as_json(part: _Part) -> dict[str, object]:
    text = part.body.decode(errors="replace")
    return {"path": part.path, "version": part.version, "body": text, "clipped": part.size > len(part.body)}
