"""`mark completion`."""

from __future__ import annotations

import click
from click.shell_completion import get_completion_class


@click.command()
@click.argument("shell", type=click.Choice(["bash", "zsh", "fish"]))
@click.pass_context
def completion(context: click.Context, shell: str) -> None:
    """Print the script with which SHELL completes `mark`: put it where the shell reads its own, or eval it."""
    found = get_completion_class(shell)
    assert found is not None, "the choices are shells that click knows"
    click.echo(found(context.find_root().command, {}, "mark", "_MARK_COMPLETE").source())
