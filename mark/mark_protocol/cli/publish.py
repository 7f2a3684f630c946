"""`mark publish`."""

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
@click.option(
    "--expect",
    type=click.IntRange(0),
    metavar="VERSION",
    help="Only if the document is at this version; 0: only if new.",
)
@click.option("-m", "--metadata", multiple=True, metavar="KEY=VALUE", help="Metadata, for example -m title=Tea.")
@click.option("--unarchive", is_flag=True, help="Bring an archived document back; takes no text.")
def publish(
    server: Server, file: Path | None, text: str | None, expect: int | None, metadata: tuple[str, ...], unarchive: bool
) -> None:
    """Write a document as a new version. The text is FILE (- or none: standard input) or --body."""
    if unarchive:
        if file is not None or text is not None:
            raise click.UsageError("--unarchive takes no text")
        body = b""
    elif not (body := read_body(file, text)):
        raise click.UsageError("the text is empty; to bring an archived document back, use --unarchive")
    fields = key_values(metadata)
    if expect is not None:
        fields[EXPECTED_VERSION] = str(expect)
    response = server.request(Request(Verb.PUBLISH, server.url.path, fields, body))
    show(response, as_json=server.json, summary=written(response))
