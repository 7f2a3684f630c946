"""`mark watch`."""

from __future__ import annotations

import json
from contextlib import aclosing
from dataclasses import asdict

import click

from mark_protocol.changes import Change
from mark_protocol.cli.server import Server, on_a_server
from mark_protocol.client.client import MarkClient
from mark_protocol.client.watch import Resync


@click.command()
@on_a_server
@click.option("--since", default="", metavar="CURSOR", help="Begin behind this place, as an earlier watch named it.")
@click.option("--coalesce", is_flag=True, help="Of changes that wait together only the newest of each document.")
@click.option("--count", type=click.IntRange(1), help="End after so many changes.")
def watch(server: Server, since: str, coalesce: bool, count: int | None) -> None:
    """Print changes as they happen: of one document, or of all below a URL that ends in a slash.

    A line for each change, with --json a JSON object. Goes on until Ctrl-C, over lost connections too; in the end the
    place to go on from is on standard error. A line `resync` says that changes may have been missed: read anew.
    """
    reached = [since]

    async def follow(client: MarkClient) -> None:
        await client.fetch("/health")  # a wrong address is told at once, not waited for
        changes = client.watch(server.url.path, since=since, coalesce=coalesce)
        seen = 0
        async with aclosing(changes):
            async for change in changes:
                reached[0] = changes.cursor
                click.echo(_line(change, as_json=server.json))
                seen += isinstance(change, Change)
                if seen == count:
                    return

    try:
        server.run(follow)
    except KeyboardInterrupt:
        pass  # how a watch is ended
    finally:
        if reached[0]:
            click.echo(f"go on: --since {reached[0]}", err=True)


def _line(change: Change | Resync, *, as_json: bool) -> str:
    if isinstance(change, Resync):
        return json.dumps({"resync": change.cursor}) if as_json else "resync"
    if as_json:
        given = {name: value for name, value in asdict(change).items() if value is not None}
        return json.dumps(given, ensure_ascii=True)
    who = change.user or change.by or change.agent
    what = click.style(f"{change.op:8}", fg="yellow" if change.op == "archive" else "green")
    path = change.path.encode(errors="backslashreplace").decode()
    return f"{what} {path} v{change.version}" + (f"  {who}" if who else "")
