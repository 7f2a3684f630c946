"""`mark append`."""

from __future__ import annotations

from pathlib import Path

import click

from mark_protocol.cli.body import read_body
from mark_protocol.cli.metadata import key_values
from mark_protocol.cli.output import show, written
from mark_protocol.cli.server import Server, on_a_server
from mark_protocol.metadata import EXPECTED_VERSION
from mark_protocol.request import Request, Verb


@click.command()
@on_a_server
@click.argument("file", type=click.Path(path_type=Path), required=False)
@click.option("--body", "text", help="The text itself, instead of FILE or standard input.")
@click.option("--expect", type=click.IntRange(1), metavar="VERSION", required=True, help="The version to append to.")
@click.option("-m", "--metadata", multiple=True, metavar="KEY=VALUE", help="Metadata, for example -m title=Tea.")
def append(server: Server, file: Path | None, text: str | None, expect: int, metadata: tuple[str, ...]) -> None:
    """Add text to the end of a document. The text is FILE (- or none: standard input) or --body."""
    if not (body := read_body(file, text)):
        raise click.UsageError("the text is empty")
    fields = key_values(metadata) | {EXPECTED_VERSION: str(expect)}
    response = server.request(Request(Verb.APPEND, server.url.path, fields, body))
    show(response, as_json=server.json, summary=written(response))
