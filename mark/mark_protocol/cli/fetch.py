"""`mark fetch`."""

from __future__ import annotations

import click

from mark_protocol.cli.output import show
from mark_protocol.cli.server import Server, on_a_server
from mark_protocol.metadata import IF_NONE_MATCH
from mark_protocol.request import Request, Verb


@click.command()
@on_a_server
@click.option("--if-none-match", metavar="ETAG", help="Answer not-modified if the document still has this etag.")
def fetch(server: Server, if_none_match: str | None) -> None:
    """Print a document, one of its versions (.../doc.md/v3), or a directory."""
    if server.url.fragment:
        click.echo("note: the whole document is shown, not only the section after #", err=True)
    metadata = {} if if_none_match is None else {IF_NONE_MATCH: if_none_match}
    show(server.request(Request(Verb.FETCH, server.url.path, metadata)), as_json=server.json)
