"""`mark proposals`: writes that a policy leaves to somebody else."""

from __future__ import annotations

import click

from mark_protocol.cli.output import echo_json, show
from mark_protocol.cli.server import Server, on_a_server
from mark_protocol.client.client import MarkClient
from mark_protocol.client.walk import Refused, children
from mark_protocol.request import Request, Verb
from mark_protocol.status import Status

DIRECTORY = "/.well-known/demarkus/proposals"


@click.command()
@on_a_server
@click.option("--accept", metavar="ID", help="Carry a proposal out.")
@click.option("--reject", metavar="ID", help="Turn a proposal down.")
def proposals(server: Server, accept: str | None, reject: str | None) -> None:
    """List the writes that wait for a decision, or decide one; the path of the URL does not matter.

    A line for each: id, time, the document it is about. `mark fetch` on /.well-known/demarkus/proposals/ID.md shows it
    whole. Who decides needs the right `review`, and `write` on that document, and is not its author.
    """
    if accept is not None and reject is not None:
        raise click.UsageError("--accept or --reject, not both")
    if (name := accept if accept is not None else reject) is not None:
        decision = "reject" if accept is None else "accept"
        metadata = {"decision": decision}
        request = Request(Verb.PUBLISH, f"{DIRECTORY}/{name}.md", metadata, f"decision: {decision}\n".encode())
        show(server.request(request), as_json=server.json, summary=f"{decision}ed: {name}")
        return
    found = server.run(_listed)
    if server.json:
        echo_json(found)
        return
    for entry in found:
        click.echo(f"{entry['id']}  {entry['modified']}  {entry['target']}")
    if not found:
        click.echo("no proposals", err=True)


async def _listed(client: MarkClient) -> list[dict[str, str]]:
    try:
        names = [child.name async for child in children(client, DIRECTORY) if not child.is_directory]
    except Refused as refused:
        if refused.response.status == Status.NOT_FOUND:
            return []
        raise
    found: list[dict[str, str]] = []
    for name in names:
        response = await client.fetch(f"{DIRECTORY}/{name}")
        if response.status != Status.OK:
            continue  # decided in the meantime
        told = response.metadata
        found.append(
            {
                "id": name.removesuffix(".md"),
                "modified": told.get("modified", ""),
                "target": told.get("target", ""),
                "request": response.body.decode(errors="replace"),
            }
        )
    return found
