"""`demarkus-world restore`: a store made from another one, up to an entry or a time.

Exit codes: 0 = restored, 1 = it broke off or the source is damaged, 2 = something has to change.
"""

from __future__ import annotations

import asyncio
import json
import secrets
import sys
import time
from pathlib import Path
from typing import Any

import click
from pydantic import ValidationError

from demarkus_base.blobs.port import BlobError
from demarkus_base.settings import SettingsError
from demarkus_world.commands.transfers import CHANGE_SOMETHING, REFUSED, by, fail
from demarkus_world.engine.notes import KeyFault, public_key
from demarkus_world.engine.refusals import EngineError, RestoreRefused, StoreForeign
from demarkus_world.engine.restore.restore import Restored, Witness, restore
from demarkus_world.engine.restore.survey import Until
from demarkus_world.metrics import Metrics
from demarkus_world.settings import Bucket, Settings, Store, parse_settings
from demarkus_world.stores import open_for_reading, open_store
from mark_protocol.times import parse_rfc3339

FILE = click.Path(path_type=Path, dir_okay=False)


def _until(context: click.Context, parameter: click.Parameter, value: str | None) -> Until:
    if value is None:
        return Until()
    if value.isascii() and value.isdigit() and 0 < int(value) < 1 << 63:
        return Until(sequence=int(value))
    instant = parse_rfc3339(value)
    if instant is None:
        raise click.BadParameter(f"{value!r} is neither an entry such as 812 nor a time such as 2026-01-01T00:00:00Z")
    return Until(time=int(instant.timestamp() * 1000))


@click.command(name="restore")
@click.option("--from", "source", required=True, metavar="STORE", help="What is restored; it is only read.")
@click.option("--to", "target", metavar="STORE", help="An empty place; otherwise that of the configuration.")
@click.option(
    "--until",
    metavar="ENTRY|TIME",
    callback=_until,
    help="Up to this entry of the log, or what was there at this time; otherwise all of it.",
)
@click.option("--witness", type=FILE, help="The newest note that the world signed and that was kept elsewhere.")
@click.option(
    "--config",
    envvar="DEMARKUS_CONFIG",
    type=FILE,
    show_envvar=True,
    help="The world's configuration, world.yaml; of it only identity and store are used.",
)
@click.option(
    "--key", "key_file", type=FILE, help="The world's key, public or private, in PEM; else identity.keyFile is used."
)
@click.option("--json", "as_json", is_flag=True, help="Print what was done as JSON.")
def command(
    source: str,
    target: str | None,
    until: Until,
    witness: Path | None,
    config: Path | None,
    key_file: Path | None,
    as_json: bool,
) -> None:
    """Make a store from another one: the same history, up to an entry or a time, as a new incarnation of it.

    A STORE is a folder, as store.directory names it, or a bucket, gs://NAME[/PREFIX]. What is restored is verified
    before anything is made. A restore that broke off is finished by running it again; until then nobody can serve it.

    Exit code 0: restored. 1: it broke off, or the source is damaged. 2: something has to change.
    """
    if target is None and config is None:
        raise click.UsageError("say where it is restored to: --to STORE, or --config FILE")
    try:
        settings = None if config is None else parse_settings(_read(config), source=str(config))
        note = None if witness is None else _witness(witness, key_file, settings)
        places = [_place(text, settings) for text in (source, target) if text is not None]
        if settings is not None and target is None:
            if settings.store.memory is not None:
                raise SettingsError([f"{config}: store.memory is gone when the command ends; name a store that lasts"])
            places.append(settings.store)
        history = None if settings is None else settings.identity.history
        made = asyncio.run(_restore(places[0], places[1], until=until, witness=note, history=history))
    except (SettingsError, RestoreRefused, StoreForeign) as error:
        fail("restore", error, CHANGE_SOMETHING)
    except (BlobError, EngineError) as error:
        fail("restore", error, REFUSED)
    click.echo(json.dumps(_as_json(made), indent=2) if as_json else _in_words(made))


async def _restore(
    source: Store, target: Store, *, until: Until, witness: Witness | None, history: str | None
) -> Restored:
    shown = sys.stderr.isatty()

    def told(what: str, done: int) -> None:
        if shown:
            click.echo(f"\r\x1b[K{what}: {done:,}", err=True, nl=False)

    read = await open_for_reading(source)
    try:
        written = await open_store(target, Metrics())
        try:
            return await restore(
                read,
                written.blobs,
                now=lambda: time.time_ns() // 1_000_000,
                random=secrets.token_bytes,
                history=history,
                until=until,
                witness=witness,
                by=by(),
                told=told,
            )
        finally:
            await written.blobs.close()
    finally:
        if shown:
            click.echo("\r\x1b[K", err=True, nl=False)
        await read.close()


def _place(text: str, settings: Settings | None) -> Store:
    if not text.startswith("gs://"):
        return Store(directory=Path(text))
    configured = settings.store.gcs if settings is not None else None
    try:
        return Store(gcs=Bucket(url=text, service=configured.service if configured else None))
    except ValidationError:
        raise SettingsError([f"{text}: expected gs://NAME or gs://NAME/PREFIX"]) from None


def _witness(file: Path, key_file: Path | None, settings: Settings | None) -> Witness:
    named = key_file or (settings.identity.key_file if settings is not None else None)
    if named is None:
        raise SettingsError(["a witnessed note can only be checked with the world's key: give --key, or --config"])
    try:
        return Witness(text=_read(file).decode(errors="replace"), key=public_key(_read(named)))
    except KeyFault as error:
        raise SettingsError([f"{named}: {error}"]) from None


def _read(file: Path) -> bytes:
    try:
        return file.read_bytes()
    except OSError as error:
        raise SettingsError([f"{file}: {error.strerror}"]) from None


def _as_json(made: Restored) -> dict[str, Any]:
    return {
        "history": made.identity.history,
        "incarnation": made.identity.incarnation,
        "parent": made.identity.parent,
        "entries": made.size,
        "root": made.root,
        "lost": made.lost,
        "before": made.before,
    }


def _in_words(made: Restored) -> str:
    lines = [
        f"{'restored before' if made.before else 'restored'}: {made.size:,} entries of history {made.identity.history}",
        f"incarnation {made.identity.incarnation}, restored from {made.identity.parent}",
        f"root of what was restored: {made.root}",
    ]
    if made.lost:
        lines.append(f"{made.lost:,} more entries are known to have been there; the log says so")
    return "\n".join(lines)
