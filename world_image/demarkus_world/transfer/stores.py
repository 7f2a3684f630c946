"""The store a transfer works on: that of a world's configuration, or a folder with a store that nobody serves."""

from __future__ import annotations

import secrets
import tempfile
import time
from collections.abc import AsyncIterator
from contextlib import AsyncExitStack, asynccontextmanager
from dataclasses import dataclass
from pathlib import Path

from demarkus_base.blobs.memory import MemoryBlobs
from demarkus_base.blobs.port import Blobs, NotFound
from demarkus_world.engine import identity, keys
from demarkus_world.engine.engine import Engine, Identity, Rules
from demarkus_world.engine.notes import KeyFault, WorldKey
from demarkus_world.metrics import Metrics
from demarkus_world.settings import HistoryMode, Settings, SettingsError, parse_settings
from demarkus_world.settings import Store as StoreSettings
from demarkus_world.stores import FOLDER, VIEW, Store, open_for_reading, open_store
from demarkus_world.transfer.dry import DryBlobs


@dataclass(frozen=True, slots=True, kw_only=True)
class Place:
    """Where a store is: `config`, a world's configuration, or `mount`, what its `store.directory` would be."""

    config: Path | None = None
    mount: Path | None = None


@asynccontextmanager
async def opened(
    place: Place, *, dry_run: bool = False, must_exist: bool = False
) -> AsyncIterator[tuple[Engine, bool]]:
    """An engine on the store, alone on it where the store is a folder, and whether the world is a compatible one.

    With `dry_run` nothing is written and no lock is taken. A store is only made where a configuration says whose it
    is, and not if it `must_exist`. Raises SettingsError, and what drivers and engine raise when they can't be opened.
    """
    settings = None if place.config is None else _settings(place.config)
    named = StoreSettings(directory=place.mount) if settings is None else settings.store
    compatible = settings is not None and settings.history is HistoryMode.COMPATIBLE
    async with AsyncExitStack() as stack:
        store = await _store(named, dry_run=dry_run, must_exist=must_exist or settings is None)
        stack.push_async_callback(store.blobs.close)
        view: Path | None = None  # what a rehearsal says is not so: it leaves nothing behind
        if named.directory is not None and not dry_run:
            view = (settings.view.directory if settings is not None else None) or named.directory / VIEW
        elif not dry_run:
            # The view folder of a world on a bucket may be in use by that world.
            view = Path(stack.enter_context(tempfile.TemporaryDirectory(prefix="demarkus-view-")))
        engine = await Engine.open(
            DryBlobs(store.blobs) if dry_run else store.blobs,
            await _identity(store.blobs, settings),
            now=lambda: time.time_ns() // 1_000_000,
            random=secrets.token_bytes,
            compatible=compatible,
            key=None if settings is None or dry_run else _key(settings),
            view=view,
            rules=Rules if settings is None else lambda: settings.rules,
            reserve=store.reserve,
            expected=None if settings is None else settings.expected,
        )
        stack.push_async_callback(engine.close)
        yield engine, compatible


def _settings(config: Path) -> Settings:
    try:
        data = config.read_bytes()
    except OSError as error:
        raise SettingsError([f"{config}: {error.strerror}"]) from None
    settings = parse_settings(data, source=str(config))
    if settings.store.memory is not None:
        raise SettingsError([f"{config}: store.memory is gone when the command ends; name a store that lasts"])
    return settings


def _key(settings: Settings) -> WorldKey | None:
    """The world's key, which signs checkpoints; where it is not at hand there are none until the world makes them."""
    file = settings.identity.key_file
    if file is None:
        return None
    try:
        return WorldKey.from_pem(file.read_bytes())
    except OSError:
        return None
    except KeyFault as error:
        raise SettingsError([f"identity.keyFile: {file}: {error}"]) from None


async def _store(named: StoreSettings, *, dry_run: bool, must_exist: bool) -> Store:
    mount = named.directory
    if mount is not None and not (mount / FOLDER / keys.WORLD).exists():
        if must_exist:
            raise SettingsError([f"{mount}: there is no store in it"])
        if dry_run and mount.is_dir() and not (mount / FOLDER).exists():
            return Store(MemoryBlobs())
    return Store(await open_for_reading(named)) if dry_run else await open_store(named, Metrics())


async def _identity(blobs: Blobs, settings: Settings | None) -> Identity:
    if settings is not None:
        return Identity(settings.identity.history, settings.identity.incarnation)
    try:
        return identity.decode(await blobs.get(keys.WORLD))
    except NotFound as error:
        raise SettingsError([f"there is no store: {error}"]) from None
