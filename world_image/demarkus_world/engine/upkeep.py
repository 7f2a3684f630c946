"""What a store needs now and then beside its commits: bundles of slots, checkpoints, and room on a volume.

Nothing here is needed for what the store says: whatever fails is told in the log and tried again later. Where several
processes write, each waits a little before it begins, and looks whether another one did the work meanwhile.
"""

import asyncio
import logging
import sqlite3
from collections.abc import Callable
from contextlib import suppress

from demarkus_base.blobs.port import BlobError, Blobs, Exists, NotFound
from demarkus_world.engine import bundles, keys, slots
from demarkus_world.engine.bundles import Bundle
from demarkus_world.engine.checkpoints import Checkpoints
from demarkus_world.engine.log import Log
from demarkus_world.engine.reader import Reader
from demarkus_world.engine.refusals import EngineError, StoreDamaged

CHECKPOINT_ENTRIES = 8192
CHECKPOINT_AFTER = 3600 * 1000
UNLINK_EVERY = 3600 * 1000
LOOK = 60.0
LONGEST_PAUSE = 3600.0
JITTER = 10.0

logger = logging.getLogger(__name__)


class Upkeep:
    """`run` is its task; whoever opened the store owns it. Without `checkpoints` none are made."""

    def __init__(
        self,
        *,
        blobs: Blobs,
        log: Log,
        reader: Reader,
        checkpoints: Checkpoints | None,
        history: str,
        now: Callable[[], int],
        random: Callable[[int], bytes],
    ) -> None:
        self._blobs = blobs
        self._log = log
        self._reader = reader
        self._checkpoints = checkpoints
        self._history = history
        self._now = now
        self._random = random
        # Up to which entry there are bundles and a checkpoint; None while that was not looked up.
        self._bundled: int | None = None
        self._checkpointed: int | None = None
        self._waiting_since: int | None = None
        self._unlinked_at: int | None = None

    async def run(self) -> None:
        """Look after the store, for ever. The owner cancels it."""
        pause = LOOK
        while True:
            self._log.grew.clear()
            try:
                await self._bundle()
                await self._checkpoint()
                await self._unlink()
            except (BlobError, EngineError, OSError, sqlite3.Error) as error:
                logger.warning("upkeep of the store failed, trying again in %g s: %s", pause, error)
                await asyncio.sleep(pause)
                pause = min(2 * pause, LONGEST_PAUSE)
                continue
            pause = LOOK
            growing = asyncio.create_task(self._log.grew.wait())
            try:
                await asyncio.wait({growing}, timeout=LOOK)
            finally:
                growing.cancel()

    # Bundles.

    async def _bundle(self) -> None:
        if self._bundled is None:
            self._bundled = await self._last_bundled()
        if self._log.view.sequence - self._bundled < bundles.LEAST:
            return
        await self._give_way()
        self._bundled = max(self._bundled, await self._last_bundled())
        while copied := await self._next_bundle(self._bundled):
            bundle, data = await asyncio.to_thread(bundles.encode, self._history, copied)
            # As whoever reads it will: what is not whole is not copied.
            await asyncio.to_thread(bundles.decode, data, bundle, history=self._history)
            with suppress(Exists):
                await self._blobs.create(bundle.key, data)
            self._bundled = bundle.last

    async def _last_bundled(self) -> int:
        chain = bundles.covering(await self._reader.bundles(), 0)
        return chain[-1].last if chain else 0

    async def _next_bundle(self, behind: int) -> list[bytes]:
        """The slots for the next bundle; none while there are too few of them."""
        collected: list[tuple[int, bytes]] = []
        entries = 0
        async for page in self._reader.single(behind):
            for found in page:
                slot = slots.read(found.data, key=found.key)
                if slot.first != behind + entries + 1:
                    raise StoreDamaged(f"{keys.slot(behind + entries + 1)}: missing, though {found.key} is there")
                collected.append((len(slot.entries), found.data))
                entries += len(slot.entries)
            if entries >= bundles.MOST:
                break
        return [data for _, data in collected[: bundles.cut(collected)]]

    # Checkpoints.

    async def _checkpoint(self) -> None:
        if self._checkpoints is None:
            return
        if self._checkpointed is None:
            self._checkpointed = await self._last_checkpoint()
        if not self._checkpoint_is_due():
            return
        await self._give_way()
        self._checkpointed = max(self._checkpointed, await self._last_checkpoint())
        if self._checkpoint_is_due():
            self._checkpointed = await self._checkpoints.write(self._log.view)
            logger.info("wrote a checkpoint", extra={"fields": {"sequence": self._checkpointed}})
        self._waiting_since = None

    def _checkpoint_is_due(self) -> bool:
        missing = self._log.view.sequence - (self._checkpointed or 0)
        if missing <= 0:
            self._waiting_since = None
            return False
        if self._waiting_since is None:
            self._waiting_since = self._now()
        return missing >= CHECKPOINT_ENTRIES or self._now() - self._waiting_since >= CHECKPOINT_AFTER

    async def _last_checkpoint(self) -> int:
        assert self._checkpoints is not None, "asked for only where there are any"
        return max(await self._checkpoints.good(1), default=0)

    # Room.

    async def _unlink(self) -> None:
        """Where nobody else can write: delete slots that a bundle has copied and that are older than a day."""
        now = self._now()
        if not self._blobs.exclusive or (self._unlinked_at is not None and now - self._unlinked_at < UNLINK_EVERY):
            return
        self._unlinked_at = now
        there = {first async for key in self._blobs.list(keys.LOG) if (first := keys.first_of(key)) is not None}
        for bundle in bundles.covering(await self._reader.bundles(), 0):
            if bundle.last >= self._log.view.tip.first:
                return
            singles = sorted(first for first in there if bundle.first <= first <= bundle.last)
            if singles and not await self._unlink_copied(bundle, singles, before=now - bundles.UNLINK_AFTER):
                return

    async def _unlink_copied(self, bundle: Bundle, singles: list[int], *, before: int) -> bool:
        """Delete the slots of a bundle that is old enough, after a look at its copies; whether it was."""
        data = await self._blobs.get(bundle.key)
        copies = dict(await asyncio.to_thread(bundles.decode, data, bundle, history=self._history))
        newest = slots.read(copies[max(copies)], key=bundle.key).entries[-1].time
        if newest > before:
            return False
        for first in singles:
            if copies.get(first) != await self._reader.slot(first):
                raise StoreDamaged(f"{keys.slot(first)}: it is not what {bundle.key} has a copy of")
            with suppress(NotFound):
                await self._blobs.delete(keys.slot(first))
        return True

    async def _give_way(self) -> None:
        """Let another writer go first, now and then."""
        if not self._blobs.exclusive:
            await asyncio.sleep(JITTER * int.from_bytes(self._random(2)) / 65536)
