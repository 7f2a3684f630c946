"""The command `mark`."""

from __future__ import annotations

import os
from importlib.metadata import version

import click

from mark_protocol.cli.append import append
from mark_protocol.cli.archive import archive
from mark_protocol.cli.completion import completion
from mark_protocol.cli.context import context
from mark_protocol.cli.export import export
from mark_protocol.cli.fetch import fetch
from mark_protocol.cli.graph import graph
from mark_protocol.cli.list import list_
from mark_protocol.cli.lookup import lookup
from mark_protocol.cli.proposals import proposals
from mark_protocol.cli.publish import publish
from mark_protocol.cli.verify import verify
from mark_protocol.cli.versions import versions
from mark_protocol.cli.watch import watch


@click.group(context_settings={"help_option_names": ["-h", "--help"]})
@click.version_option(version("demarkus"), prog_name="mark")
@click.pass_context
def mark(context: click.Context) -> None:
    """Read and write documents of a Mark server.

    Exit status: 0 done, 1 refused or failed (the status is on standard error), 2 the command was used wrongly.
    NO_COLOR is heeded.
    """
    if os.environ.get("NO_COLOR"):
        context.color = False


for command in (
    *(fetch, list_, versions, lookup, publish, append, archive, watch),
    *(proposals, verify, context, export, graph, completion),
):
    mark.add_command(command)


def main() -> None:
    """Entry point of the console script."""
    mark(prog_name="mark")
