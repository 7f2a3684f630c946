"""`demarkus down`: end what runs in a state folder."""

from __future__ import annotations

import click

from demarkus_operator.cli.options import Failure, shown, state_option
from demarkus_operator.local.detached import StillRunning, stop_holder
from demarkus_operator.local.state import StateFolder


@click.command()
@state_option
def down(folder: StateFolder) -> None:
    """End the universe of a state folder, however it was started. Everything in the folder stays."""
    try:
        ended = stop_holder(folder)
    except StillRunning as error:
        raise Failure(str(error)) from error
    click.echo("Stopped." if ended else f"Nothing runs in {shown(folder.root)}.")
