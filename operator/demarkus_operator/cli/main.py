"""The command `demarkus`."""

from __future__ import annotations

from importlib.metadata import version

import click

from demarkus_operator.cli.cluster import PLUGIN
from demarkus_operator.cli.crds import crds
from demarkus_operator.cli.down import down
from demarkus_operator.cli.plan import plan
from demarkus_operator.cli.render import render
from demarkus_operator.cli.status import status
from demarkus_operator.cli.token import token
from demarkus_operator.cli.up import up
from demarkus_operator.cli.verify import verify


@click.group(context_settings={"help_option_names": ["-h", "--help"]})
@click.version_option(version("demarkus"), prog_name="demarkus")
def demarkus() -> None:
    """Worlds and Universes, on this machine and in a cluster.

    `up` runs them here, from the YAML that a cluster takes; `kubectl demarkus` is the same command, for which `status`
    and `token` ask the cluster.

    Exit status: 0 done; 1 it did not work here and now; 2 the command line or the manifests have to be changed; 3 (only
    `status`) nothing runs; 4 (only `plan`) something would be written.
    """


for command in (up, down, status, token, verify, render, plan, crds):
    demarkus.add_command(command)


def main() -> None:
    """Entry point of the console script."""
    demarkus(prog_name="demarkus")


def kubectl_plugin() -> None:
    """Entry point of `kubectl demarkus`."""
    demarkus(prog_name=PLUGIN)


if __name__ == "__main__":
    main()
