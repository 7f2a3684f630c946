"""The command `demarkus`."""

from __future__ import annotations

from importlib.metadata import version

import click

from demarkus_operator.cli.crds import crds
from demarkus_operator.cli.down import down
from demarkus_operator.cli.status import status
from demarkus_operator.cli.token import token
from demarkus_operator.cli.up import up


@click.group(context_settings={"help_option_names": ["-h", "--help"]})
@click.version_option(version("demarkus"), prog_name="demarkus")
def demarkus() -> None:
    """Worlds and Universes on this machine, from the YAML that a cluster takes.

    Exit status: 0 done; 1 it did not work here and now; 2 the command line or the manifests have to be changed; 3 (only
    `status`) nothing runs.
    """


for command in (up, down, status, token, crds):
    demarkus.add_command(command)


def main() -> None:
    """Entry point of the console script."""
    demarkus(prog_name="demarkus")


if __name__ == "__main__":
    main()
