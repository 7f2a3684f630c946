"""`demarkus-broker serve`. Nothing heavy is imported before there is something to serve.

A start that fails says why in one line on standard error, without a trace. Exit codes: 2 = something in the
configuration has to change, 1 = it may work later.
"""

from __future__ import annotations

import asyncio
import signal
import sys
from pathlib import Path

import click

from demarkus_base.lifeline import stdin_closed
from demarkus_base.settings import SettingsError

CHANGE_SOMETHING = 2
TRY_LATER = 1


@click.group()
@click.version_option(package_name="demarkus")
def main() -> None:
    """The gateway of a universe: one MCP endpoint in front of its worlds."""


@main.command()
@click.option(
    "--config",
    envvar="DEMARKUS_CONFIG",
    required=True,
    type=click.Path(path_type=Path),
    help="broker.yaml; also DEMARKUS_CONFIG.",
)
@click.option("--stop-on-stdin-eof", is_flag=True, help="End when standard input ends, that is, with the starter.")
def serve(config: Path, stop_on_stdin_eof: bool) -> None:
    """Serve until SIGTERM or SIGINT."""
    import uvloop

    from demarkus_broker.app import StartError

    try:
        uvloop.run(_serve(config, lifeline=stop_on_stdin_eof))
    except SettingsError as error:
        _fail(error, CHANGE_SOMETHING)
    except StartError as error:
        _fail(error, TRY_LATER)


async def _serve(config: Path, *, lifeline: bool) -> None:
    from demarkus_broker.app import configure_logs, running

    configure_logs("info")
    stop = asyncio.Event()
    loop = asyncio.get_running_loop()
    for number in (signal.SIGTERM, signal.SIGINT):
        loop.add_signal_handler(number, stop.set)
    async with running(config) as (_, work):
        ends: list[asyncio.Task[object]] = [asyncio.create_task(stop.wait())]
        if lifeline:
            ends.append(asyncio.create_task(stdin_closed()))
        try:
            await asyncio.wait([work, *ends], return_when=asyncio.FIRST_COMPLETED)
        finally:
            for end in ends:
                end.cancel()
        if work.done():
            await work  # raises what broke


def _fail(error: Exception, code: int) -> None:
    click.echo(f"demarkus-broker: {error}", err=True)
    sys.exit(code)
