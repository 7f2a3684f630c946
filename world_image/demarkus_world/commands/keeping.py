"""What `prune` and `sweep` have in common: who carries the command out, and how it ends.

On a volume that is the world that serves it, asked through its control socket; if none does, this process takes the
store's lock. On a bucket this process is one more writer.

Exit codes: 0 = done, 1 = refused, or it may work later, 2 = usage or configuration.
"""

from __future__ import annotations

import asyncio
import json
import os
import secrets
import sys
import tempfile
import time
from collections.abc import AsyncIterator, Callable, Mapping
from contextlib import AsyncExitStack, asynccontextmanager
from pathlib import Path
from typing import Any, NoReturn

import click

from demarkus_base.blobs.port import BlobError, NotFound, StoreLocked
from demarkus_world import control
from demarkus_world.engine import keys
from demarkus_world.engine.engine import Engine, EngineError, Identity
from demarkus_world.engine.sweep import Sweeper
from demarkus_world.housekeeping import Housekeeping
from demarkus_world.metrics import Metrics
from demarkus_world.settings import HistoryMode, Settings, SettingsError, parse_settings
from demarkus_world.stores import FOLDER, open_store

NOT_DONE, CHANGE_SOMETHING = 1, 2

ATTEMPTS = 20
PAUSE = 0.5
"""Seconds between two attempts to reach a world that starts or ends in this moment."""

with_config = click.option(
    "--config",
    required=True,
    envvar="DEMARKUS_CONFIG",
    type=click.Path(path_type=Path, dir_okay=False),
    show_envvar=True,
    help="The world's configuration, world.yaml.",
)
as_json_too = click.option("--json", "as_json", is_flag=True, help="Print what was done as JSON.")


def run(
    config: Path, command: Mapping[str, Any], *, as_json: bool, in_words: Callable[[Mapping[str, Any]], str]
) -> None:
    """Have a command carried out, and end the process."""
    verb = command["command"]
    try:
        settings = parse_settings(config.read_bytes(), source=str(config))
        done = asyncio.run(_carry_out(settings, command))
    except OSError as error:
        _fail(verb, f"{config}: {error.strerror}", CHANGE_SOMETHING)
    except SettingsError as error:
        _fail(verb, str(error), CHANGE_SOMETHING)
    except (control.Refused, control.Failed, control.BadCommand, BlobError, EngineError) as error:
        _fail(verb, str(error), NOT_DONE)
    click.echo(json.dumps(done, indent=2) if as_json else in_words(done))


async def _carry_out(settings: Settings, command: Mapping[str, Any]) -> Mapping[str, Any]:
    by = f"local:{control.user_name(os.getuid())}"
    mount = settings.store.directory
    attempt = 1
    while True:
        try:
            if mount is not None:
                return await control.ask(mount, command)
        except control.NotServed:
            pass
        try:
            async with _opened(settings) as housekeeping:
                return await housekeeping.carry_out(command, by)
        except StoreLocked:
            if attempt == ATTEMPTS:
                raise
        await asyncio.sleep(PAUSE)
        attempt += 1


@asynccontextmanager
async def _opened(settings: Settings) -> AsyncIterator[Housekeeping]:
    """The store, which has to be there already. Raises SettingsError, BlobError, EngineError."""
    if settings.store.memory is not None:
        raise SettingsError(["store.memory: a store in memory is swept by its own process alone"])
    mount = settings.store.directory
    if mount is not None and not await asyncio.to_thread((mount / FOLDER).is_dir):
        raise SettingsError([f"store.directory: there is no store in {mount}"])
    async with AsyncExitStack() as stack:
        store = await open_store(settings.store, Metrics())
        stack.push_async_callback(store.blobs.close)
        try:
            await store.blobs.get(keys.WORLD)
        except NotFound:
            raise SettingsError([f"store: there is no store yet ({keys.WORLD} is missing)"]) from None
        scratch = stack.enter_context(tempfile.TemporaryDirectory(prefix="demarkus-"))
        engine = await Engine.open(
            store.blobs,
            Identity(settings.identity.history, settings.identity.incarnation),
            now=_now,
            random=secrets.token_bytes,
            compatible=settings.history is HistoryMode.COMPATIBLE,
            # The world's own view is disposable and follows by itself when it is served again.
            view=Path(scratch) / "view",
            rules=lambda: settings.rules,
            reserve=store.reserve,
            expected=settings.expected,
        )
        stack.push_async_callback(engine.close)
        grace = int(settings.retention.grace * 1000)
        yield Housekeeping(
            engine, Sweeper(store.blobs, engine, now=_now, grace=lambda: grace, rules=lambda: settings.rules)
        )


def _now() -> int:
    return time.time_ns() // 1_000_000


def _fail(verb: str, text: str, code: int) -> NoReturn:
    for line in text.splitlines():
        click.echo(f"demarkus-world: {verb}: {line}", err=True)
    sys.exit(code)
