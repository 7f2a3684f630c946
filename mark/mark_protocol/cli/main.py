"""The command `mark`."""

from __future__ import annotations

from importlib.metadata import version

import click

from mark_protocol.cli.append import append
from mark_protocol.cli.archive import archive
from mark_protocol.cli.fetch import fetch
from mark_protocol.cli.list import list_
from mark_protocol.cli.publish import publish
from mark_protocol.cli.versions import versions


@click.group(context_settings={"help_option_names": ["-h", "--help"]})
@click.version_option(version("demarkus"), prog_name="mark")
def mark() -> None:
    """Read and write documents of a Mark server.

    Exit status: 0 done, 1 refused or failed (the status is on standard error), 2 the command was used wrongly.
    """


for command in (fetch, list_, versions, publish, append, archive):
    mark.add_command(command)


def main() -> None:
    """Entry point of the console script."""
    mark(prog_name="mark")
