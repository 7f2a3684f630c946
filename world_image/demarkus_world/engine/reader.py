"""The slots of a store in order, from bundles where there are any, else one by one."""

import asyncio
import logging
from collections.abc import AsyncIterator, Sequence
from dataclasses import dataclass

from demarkus_base.blobs.port import Blobs, Integrity, NotFound
from demarkus_world.engine import bundles, keys, retry
from demarkus_world.engine.bundles import Bundle
from demarkus_world.engine.parallel import PARALLEL, in_parallel
from demarkus_world.engine.refusals import StoreDamaged

BUNDLES_AT_ONCE = 3

logger = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class Found:
    """The bytes of the slot that begins with entry `first`, and the name of the object they were read from."""

    first: int
    data: bytes
    key: str


class Reader:
    """Reads what may be anything: whoever takes a slot in checks it."""

    def __init__(self, blobs: Blobs, *, history: str, pause: retry.Pause) -> None:
        self._blobs = blobs
        self._history = history
        self._pause = pause

    async def object(self, key: str) -> bytes | None:
        """The bytes under a key, None if there are none. Raises StoreDamaged, Unavailable."""
        try:
            return await retry.read(lambda: self._blobs.get(key), pause=self._pause)
        except NotFound:
            return None
        except Integrity as error:
            raise StoreDamaged(str(error)) from error

    async def slot(self, first: int) -> bytes | None:
        """The bytes under the name of a slot. Raises StoreDamaged, Unavailable."""
        return await self.object(keys.slot(first))

    async def copied(self, first: int) -> bytes | None:
        """The bytes of a slot, from a bundle if its own object is gone. Raises StoreDamaged, Unavailable."""
        data = await self.slot(first)
        if data is not None:
            return data
        for bundle in await bundles.listed(self._blobs, pause=self._pause):
            if bundle.first <= first <= bundle.last:
                for found in await self._copies(bundle):
                    if found.first == first:
                        return found.data
        return None

    async def bundles(self) -> list[Bundle]:
        """What bundles there are. Raises Unavailable."""
        return await bundles.listed(self._blobs, pause=self._pause)

    async def behind(self, sequence: int) -> AsyncIterator[Sequence[Found]]:
        """What comes behind an entry that ends a slot, some slots at a time, up to the newest.

        Whether they follow one another is for the caller to see. Raises StoreDamaged, Unavailable.
        """
        chain = bundles.covering(await self.bundles(), sequence)
        for start in range(0, len(chain), BUNDLES_AT_ONCE):
            part = chain[start : start + BUNDLES_AT_ONCE]
            for bundle, copies in zip(part, await in_parallel(self._copies, part), strict=True):
                found = [slot for slot in copies if slot.first > sequence]
                if not found or found[0].first != sequence + 1:
                    # Not readable, or cut elsewhere: the slots themselves have to do.
                    chain.clear()
                    break
                yield found
                sequence = bundle.last
            if not chain:
                break
        async for single in self.single(sequence):
            yield single

    async def single(self, sequence: int) -> AsyncIterator[Sequence[Found]]:
        """What `behind` gives, from the slots' own objects alone."""

        async def names() -> list[str]:
            return [name async for name in self._blobs.list(keys.LOG, keys.slot(sequence))]

        listed = await retry.read(names, pause=self._pause)
        for start in range(0, len(listed), PARALLEL):
            part = listed[start : start + PARALLEL]
            page: list[Found] = []
            for name, data in zip(part, await in_parallel(self.object, part), strict=True):
                first = keys.first_of(name)
                if first is None:
                    raise StoreDamaged(f"{name}: not the name of a slot")
                if data is None:
                    raise StoreDamaged(f"{name}: listed, but not there")
                page.append(Found(first, data, name))
            yield page

    async def _copies(self, bundle: Bundle) -> list[Found]:
        """The slots in a bundle; none of one that is damaged, which is logged: it is a copy only."""
        try:
            data = await self.object(bundle.key)
            if data is None:
                return []
            copied = await asyncio.to_thread(bundles.decode, data, bundle, history=self._history)
            # They are chained, so the newest one's own object, where it is still there, vouches for all of them.
            newest, copy = copied[-1]
            if await self.slot(newest) not in (None, copy):
                raise StoreDamaged(f"{bundle.key}: its copy of {keys.slot(newest)} is another one")
        except StoreDamaged as error:
            logger.error("store damaged: %s; reading the slots themselves", error)
            return []
        return [Found(first, slot, f"{bundle.key} ({keys.slot(first)})") for first, slot in copied]
