"""`mark fetch`."""

from __future__ import annotations

from dataclasses import replace

import click

from mark_protocol.cli.output import show
from mark_protocol.cli.server import Server, on_a_server
from mark_protocol.metadata import IF_NONE_MATCH
from mark_protocol.outline import cut, sections
from mark_protocol.request import Request, Verb
from mark_protocol.status import Status


@click.command()
@on_a_server
@click.option("--if-none-match", metavar="ETAG", help="Answer not-modified if the document still has this etag.")
def fetch(server: Server, if_none_match: str | None) -> None:
    """Print a document, a section of it (...doc.md#anchor), one of its versions (.../doc.md/v3), or a directory."""
    metadata = {} if if_none_match is None else {IF_NONE_MATCH: if_none_match}
    response = server.request(Request(Verb.FETCH, server.url.path, metadata))
    if (section := server.url.fragment) and response.status == Status.OK:
        body = cut(response.body, section)
        if body is None:
            there = " ".join(f"#{found.anchor}" for found in sections(response.body) if found.anchor) or "none"
            raise click.ClickException(f"there is no section #{section}; sections: {there}")
        show(replace(response, body=body), as_json=server.json, more={"section": section})
    else:
        show(response, as_json=server.json)
