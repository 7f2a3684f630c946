"""Opening a store: whose it is, that it is whole enough to be served, and its log taken in up to the newest entry."""

import logging
import sqlite3
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

from demarkus_base.blobs.port import BlobError, Blobs
from demarkus_world.engine import identity, restoration, retry
from demarkus_world.engine.checkpoints import Checkpoints
from demarkus_world.engine.log import Log
from demarkus_world.engine.model import Expected, Identity
from demarkus_world.engine.nodes import NodeTable
from demarkus_world.engine.notes import WorldKey, origin
from demarkus_world.engine.proof import Tree
from demarkus_world.engine.reader import Reader
from demarkus_world.engine.refusals import StoreLost, Unavailable, ViewFailed
from demarkus_world.engine.versions import Versions
from demarkus_world.view.local import LocalView, ViewLocked, boot_id

NODES = "nodes.db"

logger = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True, kw_only=True)
class Opened:
    """A store that was read; whoever opened it closes the tree and the view of its log. No key, no checkpoints."""

    identity: Identity
    reader: Reader
    versions: Versions
    checkpoints: Checkpoints | None
    log: Log


async def opened(
    blobs: Blobs,
    configured: Identity,
    *,
    now: Callable[[], int],
    random: Callable[[int], bytes],
    pause: retry.Pause,
    key: WorldKey | None,
    view: Path | None,
    expected: Expected | None,
) -> Opened:
    """See `Engine.open`."""
    try:
        found = await identity.establish(blobs, configured, pause=pause, expected=expected)
        versions = Versions(blobs, pause=pause)
        reader = Reader(blobs, history=found.history, pause=pause)
        await restoration.check_finished(reader, found)
        checkpoints = Checkpoints(blobs, found, key, random=random, pause=pause) if key else None

        async def started(folder: Path | None) -> Log:
            local = LocalView(folder, found, boot=boot_id())
            try:
                tree = Tree(NodeTable(folder / NODES if folder else None, log=origin(found)))
                log = Log(reader, versions, tree, local, history=found.history, now=now)
                await log.start(checkpoints)
            except BaseException:
                local.close()
                raise
            return log

        try:
            log = await started(view)
        except (ViewFailed, ViewLocked, OSError, sqlite3.Error) as error:
            if view is None:
                raise
            logger.warning("the folder for the view can't be used, it is kept in memory instead: %s", error)
            log = await started(None)
    except BlobError as error:
        raise Unavailable(f"the store can't be read: {error}") from error
    try:
        identity.check_size(log.view.sequence, expected)
    except StoreLost:
        log.tree.close()
        log.view.close()
        raise
    return Opened(identity=found, reader=reader, versions=versions, checkpoints=checkpoints, log=log)
