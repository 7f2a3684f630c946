"""`mark archive`."""

from __future__ import annotations

import click

from mark_protocol.cli.output import show
from mark_protocol.cli.server import Server, on_a_server
from mark_protocol.request import Request, Verb


@click.command()
@on_a_server
def archive(server: Server) -> None:
    """Take a document out of sight; its versions stay, and `publish --unarchive` brings it back."""
    response = server.request(Request(Verb.ARCHIVE, server.url.path))
    show(response, as_json=server.json, summary=f"archived: version {response.metadata.get('version', '?')}")
