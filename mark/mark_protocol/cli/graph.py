"""`mark graph`."""

from __future__ import annotations

import time
from dataclasses import asdict, replace

import click

from mark_protocol.cli.output import echo_json
from mark_protocol.cli.progress import Progress
from mark_protocol.cli.server import Server, on_a_server
from mark_protocol.client.crawl import MOST, crawl
from mark_protocol.graphs import render_graph
from mark_protocol.paths import clean
from mark_protocol.status import Status
from mark_protocol.times import format_rfc3339


@click.command()
@on_a_server
@click.option("--depth", type=click.IntRange(1, 5), default=2, show_default=True, help="Follow links so far.")
@click.option("--most", type=click.IntRange(1, 10_000), default=MOST, show_default=True, help="Read so many documents.")
def graph(server: Server, depth: int, most: int) -> None:
    """Follow the links of a document and print what they connect, as the tables of a graph document.

    Documents of other servers and other places are shown and not followed: a credential is for one server.
    """
    with Progress("documents read") as progress:
        found = server.run(lambda client: crawl(client, server.url, depth=depth, most=most, looked_at=progress.step))
    if server.json:
        nodes = [asdict(found.nodes[url]) for url in sorted(found.nodes)]
        edges = [asdict(found.edges[key]) for key in sorted(found.edges)]
        echo_json({"nodes": nodes, "edges": edges, "complete": found.complete})
    else:
        now = format_rfc3339(time.time_ns() // 1_000_000)
        click.echo(render_graph(found.nodes.values(), found.edges.values(), exported=now), nl=False)
    if not found.complete:
        click.echo(f"note: there is more than {most} documents; --most reads more", err=True)
    start = found.nodes[replace(server.url, path=clean(server.url.path), fragment="").identity]
    if start.status != Status.OK:
        click.echo(f"{start.status}: {start.url}", err=True)
        raise SystemExit(1)
