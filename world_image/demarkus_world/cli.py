"""`demarkus-world`: the commands of a world.

A start that fails says why in one line on standard error, without a trace. Exit codes: 2 = something in the
configuration has to change, 1 = it may work later.
"""

from __future__ import annotations

import asyncio
import contextlib
import signal
import sys
from pathlib import Path

import click
import uvloop

from demarkus_base import logs
from demarkus_base.blobs.port import BlobError
from demarkus_base.lifeline import stdin_closed
from demarkus_base.settings import SettingsError
from demarkus_world.commands import export, import_, prune, sweep, verify
from demarkus_world.engine.engine import EngineError, StoreForeign
from demarkus_world.server import CannotServe, World
from demarkus_world.sources import Sources

CHANGE_SOMETHING = 2
TRY_LATER = 1


@click.group()
@click.version_option(package_name="demarkus")
def main() -> None:
    """A world: a versioned store of markdown documents, served by the Mark protocol."""


@main.command()
@click.option(
    "--config",
    required=True,
    envvar="DEMARKUS_CONFIG",
    type=click.Path(path_type=Path, dir_okay=False),
    show_envvar=True,
    help="The world's configuration, world.yaml.",
)
@click.option("--stop-on-stdin-eof", is_flag=True, help="End when standard input does, so never outlive the starter.")
def serve(config: Path, stop_on_stdin_eof: bool) -> None:
    """Serve one world until SIGTERM or SIGINT."""
    try:
        sources = Sources(config)
        logs.configure(sources.settings.log.level)
        uvloop.run(_serve(World(sources), stop_on_stdin_eof=stop_on_stdin_eof))
    except (SettingsError, StoreForeign) as error:
        _fail(error, CHANGE_SOMETHING)
    except (CannotServe, BlobError, EngineError) as error:
        _fail(error, TRY_LATER)


async def _serve(world: World, *, stop_on_stdin_eof: bool) -> None:
    stop = asyncio.Event()
    loop = asyncio.get_running_loop()
    for number in (signal.SIGTERM, signal.SIGINT):
        loop.add_signal_handler(number, stop.set)
    async with contextlib.AsyncExitStack() as stack:
        if stop_on_stdin_eof:
            lifeline = asyncio.create_task(stdin_closed(), name="lifeline")
            lifeline.add_done_callback(lambda _: stop.set())
            stack.callback(lifeline.cancel)
        await world.run(stop)


def _fail(error: Exception, code: int) -> None:
    for line in str(error).splitlines():
        click.echo(f"demarkus-world: {line}", err=True)
    sys.exit(code)


main.add_command(verify.command)
main.add_command(import_.command)
main.add_command(export.command)
main.add_command(prune.command)
main.add_command(sweep.command)
