"""`mark list`."""

from __future__ import annotations

import click

from mark_protocol.cli.output import show
from mark_protocol.cli.server import Server, on_a_server
from mark_protocol.metadata import CURSOR, INCLUDE_ARCHIVED, PAGE_SIZE
from mark_protocol.request import Request, Verb


@click.command("list")
@on_a_server
@click.option("--page-size", type=click.IntRange(1, 1000), help="At most so many entries.")
@click.option("--cursor", help="Go on where a page ended.")
@click.option("--include-archived", is_flag=True, help="Show archived documents too.")
def list_(server: Server, page_size: int | None, cursor: str | None, include_archived: bool) -> None:
    """Print what is in a directory. If there is more, the next cursor is on standard error."""
    metadata: dict[str, str] = {}
    if page_size is not None:
        metadata[PAGE_SIZE] = str(page_size)
    if cursor is not None:
        metadata[CURSOR] = cursor
    if include_archived:
        metadata[INCLUDE_ARCHIVED] = "true"
    response = server.request(Request(Verb.LIST, server.url.path, metadata))
    show(response, as_json=server.json)
    if (more := response.metadata.get("next-cursor")) and not server.json:
        click.echo(f"more: --cursor {more}", err=True)
