"""`mark lookup`."""

from __future__ import annotations

from dataclasses import asdict

import click

from mark_protocol.cli.output import show
from mark_protocol.cli.server import Server, on_a_server
from mark_protocol.listings import ListingError
from mark_protocol.lookups import BODY, CATALOG, FILTER, INCLUDE_SUPERSEDED, LIMIT, MATCH, QUERY, parse_matches
from mark_protocol.request import Request, Verb
from mark_protocol.status import Status


@click.command()
@on_a_server
@click.argument("query")
@click.option("--filter", "filter_", metavar="KEY=VALUE,...", help="For example tag=draft,modified-after=2026-01-01.")
@click.option("--limit", type=click.IntRange(1), help="At most so many rows; 10 if not given.")
@click.option("--match", type=click.Choice([CATALOG, BODY]), help="Look in titles and tags, or in the text.")
@click.option("--include-superseded", is_flag=True, help="Show documents that name a successor too.")
def lookup(
    server: Server, query: str, filter_: str | None, limit: int | None, match: str | None, include_superseded: bool
) -> None:
    """Find documents below a directory. QUERY is words, or * for all."""
    options = {
        FILTER: filter_,
        LIMIT: None if limit is None else str(limit),
        MATCH: match,
        INCLUDE_SUPERSEDED: "true" if include_superseded else None,
    }
    given = {key: value for key, value in options.items() if value is not None}
    response = server.request(Request(Verb.LOOKUP, server.url.path, {QUERY: query, **given}))
    more: dict[str, object] = {}
    if server.json and response.status == Status.OK:
        try:
            more["matches"] = [asdict(found) for found in parse_matches(response.body)]
        except ListingError as error:
            raise click.ClickException(str(error)) from error
    show(response, as_json=server.json, more=more)
    if match is not None and response.metadata.get(MATCH, match) != match and not server.json:
        click.echo(f"note: the server looked in its {response.metadata[MATCH]}", err=True)
