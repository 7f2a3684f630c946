"""Where a world is kept: the blobs behind `store` in world.yaml, opened and watched.

A directory is this process's alone. A bucket may have any number of writers; its reads are hedged, its calls counted,
and whether it answers is told by metrics and `/readyz?verbose`: that is no reason for a pod to be taken out of service.
"""

from __future__ import annotations

import asyncio
import logging
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from tempfile import TemporaryDirectory

from demarkus_base.blobs.directory import DirectoryBlobs
from demarkus_base.blobs.gcs import SERVICE, Anonymous, GcsBlobs
from demarkus_base.blobs.hedged import HedgedBlobs
from demarkus_base.blobs.memory import MemoryBlobs
from demarkus_base.blobs.observed import ObservedBlobs
from demarkus_base.blobs.port import Blobs
from demarkus_base.reserve import Reserve
from demarkus_world.metrics import Metrics
from demarkus_world.settings import Bucket, Settings, SettingsError
from demarkus_world.settings import Store as StoreSettings

logger = logging.getLogger(__name__)

FOLDER = "world"
"""The folder of the store below the mount."""

VIEW = "view"
"""The folder beside it for what is kept of the store to answer from."""

RESERVE = "reserve"
"""The folder of the space put by, beside it."""


@dataclass(slots=True)
class Store:
    """Opened blobs; those of a bucket are `observed`, a volume has a `reserve`. `view` is the folder for the view."""

    blobs: Blobs
    observed: ObservedBlobs | None = None
    reserve: Reserve | None = None
    view: Path | None = None

    @property
    def problem(self) -> str | None:
        """Why the bucket's newest answer was none, or None."""
        return self.observed.problem if self.observed is not None else None


async def open_store(settings: StoreSettings, metrics: Metrics) -> Store:
    """The store that the configuration names; whoever calls closes its blobs.

    Raises SettingsError for a directory that is not there, and what the directory driver raises. A bucket is not
    asked anything here.
    """
    if settings.directory is not None:
        return await _directory(settings.directory)
    if settings.gcs is not None:
        return _bucket(settings.gcs, metrics)
    return Store(MemoryBlobs())


@contextmanager
def view_folder(settings: Settings) -> Iterator[Path | None]:
    """The folder of the view; a temporary one is gone afterwards. None: it is kept in memory."""
    if settings.view.directory is not None:
        yield settings.view.directory
    elif settings.store.directory is not None:
        yield settings.store.directory / VIEW
    elif settings.store.memory is not None:
        yield None
    else:
        try:
            temporary = TemporaryDirectory(prefix="demarkus-view-", ignore_cleanup_errors=True)
        except OSError as error:
            # As in a container whose file system can't be written.
            logger.warning("the view is kept in memory, give it a folder with view.directory: %s", error)
            yield None
            return
        with temporary as folder:
            yield Path(folder)


async def open_for_reading(settings: StoreSettings) -> Blobs:
    """The store's blobs, to be read beside whoever writes; whoever calls closes them.

    Raises SettingsError for a directory that is not there, and for a store in memory, which only its process has.
    """
    if settings.directory is not None:
        root = settings.directory / FOLDER
        if not await asyncio.to_thread(root.is_dir):
            raise SettingsError([f"store.directory: {root} does not exist: there is no store"])
        return DirectoryBlobs.reading(root)
    if settings.gcs is not None:
        return _gcs(settings.gcs)
    raise SettingsError(["store.memory: a store in memory can't be read from outside its process"])


async def _directory(mount: Path) -> Store:
    if not await asyncio.to_thread(mount.is_dir):
        # A volume that is not mounted must not become an empty world.
        raise SettingsError([f"store.directory: {mount} does not exist or is no directory"])
    blobs = await DirectoryBlobs.open(mount / FOLDER)
    try:
        return Store(blobs, reserve=await Reserve.open(mount / RESERVE))
    except OSError as error:
        logger.warning("%s: no space is put by for a full volume: %s", mount / RESERVE, error.strerror or error)
        return Store(blobs)


def _bucket(bucket: Bucket, metrics: Metrics) -> Store:
    gcs = _gcs(bucket)
    observed = ObservedBlobs(gcs, observer=metrics.store_call, clock=time.monotonic)
    metrics.store_reachable.set_function(lambda: observed.problem is None)
    return Store(HedgedBlobs(observed, clock=time.monotonic, count=metrics.hedged_read), observed)


def _gcs(bucket: Bucket) -> GcsBlobs:
    return GcsBlobs.open(
        bucket.url,
        service=bucket.service or SERVICE,
        authorization=Anonymous() if bucket.anonymous else None,
    )
