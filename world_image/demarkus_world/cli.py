"""`demarkus-world`: the commands of a world."""

from __future__ import annotations

import click

from demarkus_world.commands import export, import_, prune, restore, serve, sweep, token, verify


@click.group()
@click.version_option(package_name="demarkus")
def main() -> None:
    """A world: a versioned store of markdown documents, served by the Mark protocol."""


main.add_command(serve.command)
main.add_command(verify.command)
main.add_command(import_.command)
main.add_command(export.command)
main.add_command(restore.command)
main.add_command(prune.command)
main.add_command(sweep.command)
main.add_command(token.command)
