"""`demarkus-world serve`: one world until SIGTERM or SIGINT, from a configuration file or as a drop-in.

A start that fails says why in one line on standard error, without a trace. Exit codes: 2 = something in the
configuration has to change, 1 = it may work later.
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
import signal
import sys
from collections.abc import Coroutine
from pathlib import Path
from typing import Any

import click
import uvloop

from demarkus_base import logs
from demarkus_base.blobs.port import BlobError
from demarkus_base.lifeline import stdin_closed
from demarkus_base.settings import SettingsError
from demarkus_world import dropin
from demarkus_world.commands.transfers import by
from demarkus_world.engine.engine import EngineError, StoreForeign
from demarkus_world.server import CannotServe, World
from demarkus_world.sources import Sources
from demarkus_world.transfer.model import SourceError
from mark_protocol.numbers import parse_go_duration

logger = logging.getLogger(__name__)

CHANGE_SOMETHING = 2
TRY_LATER = 1

LEVELS = {"debug": "debug", "info": "info", "warn": "warning", "warning": "warning", "error": "error"}
FILE = click.Path(path_type=Path, dir_okay=False)


class _Yes(click.ParamType[bool]):
    """`1`, `true` and `yes` switch something on, all else leaves it off, as in the Go server's variables."""

    name = "1|true|yes"

    def convert(self, value: object, param: click.Parameter | None, ctx: click.Context | None) -> bool:
        return value is True or str(value).strip().lower() in ("1", "true", "yes")


class _Duration(click.ParamType[str]):
    """A duration as Go writes it (`10s`, `1m30s`), as world.yaml has it."""

    name = "10s"

    def convert(self, value: object, param: click.Parameter | None, ctx: click.Context | None) -> str:
        seconds = parse_go_duration(str(value))
        if seconds is None or not 0 < seconds <= 600:
            self.fail(f"{value!r}: expected a time up to 10m, such as 10s or 1m30s", param, ctx)
        return f"{seconds * 1000:.0f}ms"


@click.command(name="serve")
@click.option("--config", envvar="DEMARKUS_CONFIG", type=FILE, show_envvar=True, help="Configuration, world.yaml.")
@click.option("--stop-on-stdin-eof", is_flag=True, help="End when standard input does, so never outlive the starter.")
@click.option(
    "--root",
    "-root",
    envvar="DEMARKUS_ROOT",
    type=click.Path(path_type=Path),
    show_envvar=True,
    help="Instead of a configuration: serve what is in this folder, as the Go server would.",
)
@click.option(
    "--port",
    "-port",
    envvar="DEMARKUS_PORT",
    type=click.IntRange(0, 65535),
    default=6309,
    show_default=True,
    show_envvar=True,
    help="With --root: UDP port.",
)
@click.option(
    "--host", default="::", show_default=True, help="With --root: address to listen on; :: takes IPv4 connections too."
)
@click.option(
    "--health", default="127.0.0.1:0", show_default=True, help="With --root: where probes are answered, host:port."
)
@click.option(
    "--tokens",
    "-tokens",
    envvar="DEMARKUS_TOKENS",
    type=FILE,
    show_envvar=True,
    help="With --root: file with hashes of tokens. Without it nobody writes.",
)
@click.option(
    "--tls-cert",
    "-tls-cert",
    envvar="DEMARKUS_TLS_CERT",
    type=FILE,
    show_envvar=True,
    help="With --root: certificate chain, PEM. Without it one for localhost is made.",
)
@click.option(
    "--tls-key", "-tls-key", envvar="DEMARKUS_TLS_KEY", type=FILE, show_envvar=True, help="With --root: its key, PEM."
)
@click.option(
    "--read-only",
    "-read-only",
    is_flag=True,
    flag_value=True,
    type=_Yes(),
    default=False,
    envvar="DEMARKUS_READ_ONLY",
    show_envvar=True,
    help="With --root: nobody writes.",
)
@click.option("--max-streams", envvar="DEMARKUS_MAX_STREAMS", type=click.IntRange(1, 10_000), hidden=True)
@click.option("--max-watches", envvar="DEMARKUS_MAX_WATCHES", type=click.IntRange(1, 100_000), hidden=True)
@click.option("--idle-timeout", envvar="DEMARKUS_IDLE_TIMEOUT", type=_Duration(), hidden=True)
@click.option("--request-timeout", envvar="DEMARKUS_REQUEST_TIMEOUT", type=_Duration(), hidden=True)
@click.option("--rate-limit", envvar="DEMARKUS_RATE_LIMIT", type=click.FloatRange(0, 1_000_000), hidden=True)
@click.option("--rate-burst", envvar="DEMARKUS_RATE_BURST", type=click.IntRange(1, 1_000_000), hidden=True)
@click.option(
    "--log-format", envvar="DEMARKUS_LOG_FORMAT", type=click.Choice(["text", "json"]), default="text", hidden=True
)
@click.option("--log-level", envvar="DEMARKUS_LOG_LEVEL", type=click.Choice(list(LEVELS)), default="info", hidden=True)
def command(config: Path | None, stop_on_stdin_eof: bool, root: Path | None, **given: Any) -> None:
    """Serve one world until SIGTERM or SIGINT.

    Either from a configuration (--config FILE), or, with --root DIR and no configuration, as a drop-in for a Go server:
    reads are public, the history is a compatible one, and the store is in DIR/world/. At the first start the documents
    of a Go server in DIR are taken over, with every version; its files stay as they are. The variables
    DEMARKUS_MAX_STREAMS, DEMARKUS_MAX_WATCHES, DEMARKUS_IDLE_TIMEOUT, DEMARKUS_REQUEST_TIMEOUT, DEMARKUS_RATE_LIMIT,
    DEMARKUS_RATE_BURST, DEMARKUS_LOG_FORMAT and DEMARKUS_LOG_LEVEL are heeded, too.
    """
    if (config is None) == (root is None):
        raise click.UsageError("name the world: --config FILE, or --root DIR")
    if (given["tls_cert"] is None) != (given["tls_key"] is None):
        raise click.UsageError("--tls-cert and --tls-key belong together")
    try:
        if config is not None:
            sources = Sources(config)
            logs.configure(sources.settings.log.level, format=sources.settings.log.format)
            uvloop.run(_serve(World(sources), stop_on_stdin_eof=stop_on_stdin_eof))
        else:
            assert root is not None
            _drop_in(_wanted(root, **given), stop_on_stdin_eof=stop_on_stdin_eof)
    except (SettingsError, StoreForeign) as error:
        _fail(error, CHANGE_SOMETHING)
    except (CannotServe, BlobError, EngineError, SourceError) as error:
        _fail(error, TRY_LATER)


def _wanted(root: Path, **given: Any) -> dropin.Wanted:
    given["log_level"] = LEVELS[given["log_level"]]
    return dropin.Wanted(root=root, **given)


def _drop_in(wanted: dropin.Wanted, *, stop_on_stdin_eof: bool) -> None:
    logs.configure(wanted.log_level, format=wanted.log_format)
    dropin.check(wanted)
    sources = Sources(dropin.settings(wanted, identity=uvloop.run(dropin.prepare(wanted, by=by()))))
    uvloop.run(_serve(World(sources), stop_on_stdin_eof=stop_on_stdin_eof, beside=dropin.renew(wanted)))


async def _serve(world: World, *, stop_on_stdin_eof: bool, beside: Coroutine[Any, Any, None] | None = None) -> None:
    stop = asyncio.Event()
    loop = asyncio.get_running_loop()
    for number in (signal.SIGTERM, signal.SIGINT):
        loop.add_signal_handler(number, stop.set)
    # Elsewhere it means "read your files again"; here they are followed anyway, so it must only not end the process.
    loop.add_signal_handler(signal.SIGHUP, logger.info, "SIGHUP: files are followed without it")
    async with contextlib.AsyncExitStack() as stack:
        if stop_on_stdin_eof:
            lifeline = asyncio.create_task(stdin_closed(), name="lifeline")
            lifeline.add_done_callback(lambda _: stop.set())
            stack.callback(lifeline.cancel)
        if beside is not None:
            stack.callback(asyncio.create_task(beside, name="beside the world").cancel)
        await world.run(stop)


def _fail(error: Exception, code: int) -> None:
    for line in str(error).splitlines():
        click.echo(f"demarkus-world: {line}", err=True)
    sys.exit(code)
