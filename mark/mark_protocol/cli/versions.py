"""`mark versions`."""

from __future__ import annotations

import click

from mark_protocol.cli.output import show
from mark_protocol.cli.server import Server, on_a_server
from mark_protocol.request import Request, Verb


@click.command()
@on_a_server
def versions(server: Server) -> None:
    """Print the versions of a document, newest first, and whether their chain is intact."""
    response = server.request(Request(Verb.VERSIONS, server.url.path))
    show(response, as_json=server.json)
    if not server.json:
        click.echo(f"chain-valid: {response.metadata.get('chain-valid', 'unknown')}", err=True)
