"""Where the slots of a log are kept: each as an object of its own, or in bundles, or both."""

import asyncio
from bisect import bisect_left, bisect_right
from collections import deque
from collections.abc import Callable
from dataclasses import dataclass, replace

from demarkus_base.blobs.port import Blobs, Integrity, NotFound
from demarkus_world.engine import bundles, keys, retry, slots
from demarkus_world.engine.bundles import Bundle
from demarkus_world.engine.parallel import PARALLEL, in_parallel
from demarkus_world.engine.refusals import StoreDamaged
from demarkus_world.engine.slots import Slot


@dataclass(frozen=True, slots=True)
class Piece:
    """A copy of a slot: the object it is kept in, and what it says if it is a slot; else `fault` says why not."""

    kept_in: str
    data: bytes
    hash: str
    slot: Slot | None
    fault: str = ""

    @property
    def of_bundle(self) -> bool:
        return not self.kept_in.startswith(keys.LOG)


class Pieces:
    """Finds and reads the copies of slots, front to back.

    `stray` is told of keys in the log that are no slots, `unreadable` of bundles that are none, and why.
    """

    def __init__(
        self,
        blobs: Blobs,
        *,
        history: str,
        pause: retry.Pause,
        stray: Callable[[str], None],
        unreadable: Callable[[str, str], None],
    ) -> None:
        self._blobs = blobs
        self._history = history
        self._pause = pause
        self._stray = stray
        self._unreadable = unreadable
        self._names: list[str] = []
        self._bundles: deque[Bundle] = deque()
        self._copies: dict[int, list[tuple[str, bytes]]] = {}
        self._ahead: dict[str, Piece | None] = {}
        self._behind = 0

    async def look(self) -> None:
        """List what there is. Raises Unavailable, BlobError."""
        self._names = []
        async for key in self._blobs.list(keys.LOG):
            if keys.first_of(key) is None:
                self._stray(key)
            else:
                self._names.append(key)
        self._bundles = deque(bundle for bundle in await self._listed() if bundle.last > self._behind)

    @property
    def newest(self) -> int:
        """An entry of the newest slot that was listed; 0 if there was none."""
        own = keys.first_of(self._names[-1]) if self._names else None
        return max([own or 0, *(bundle.last for bundle in self._bundles)])

    async def at(self, first: int) -> list[Piece]:
        """Every copy of the slot that begins there. Raises Unavailable."""
        while self._bundles and self._bundles[0].first <= first:
            await self._open(self._bundles.popleft())
        key, copies = keys.slot(first), self._copies.get(first, [])
        own = None if copies and not self._is_listed(key) else await self._own(key)
        found = [] if own is None else [own]
        for kept_in, data in copies:
            same = next((piece for piece in found if piece.data == data), None)
            found.append(replace(same, kept_in=kept_in) if same is not None else _piece(kept_in, data))
        return found

    async def after(self, first: int) -> int | None:
        """The beginning of the nearest slot behind that one, whatever is kept of it. Raises Unavailable."""
        while self._bundles:
            await self._open(self._bundles.popleft())
        starts = [start for start in self._copies if start > first]
        position = bisect_right(self._names, keys.slot(first))
        if position < len(self._names):
            starts.append(keys.first_of(self._names[position]) or first + 1)
        return min(starts, default=None)

    def drop(self, first: int, last: int) -> None:
        """Forget the slot of these entries: it was read."""
        self._behind = last
        self._copies.pop(first, None)
        self._ahead.pop(keys.slot(first), None)

    async def _listed(self) -> list[Bundle]:
        return await bundles.listed(self._blobs, pause=self._pause)

    def _is_listed(self, key: str) -> bool:
        position = bisect_left(self._names, key)
        return position < len(self._names) and self._names[position] == key

    async def _open(self, bundle: Bundle) -> None:
        data = await self._read(bundle.key)
        if data is None:
            return  # its slots are there, or a hole is found
        try:
            found = await asyncio.to_thread(bundles.decode, data, bundle, history=self._history)
        except StoreDamaged as error:
            self._unreadable(bundle.key, str(error))
            return
        for start, copy in found:
            if start > self._behind:
                self._copies.setdefault(start, []).append((bundle.key, copy))

    async def _own(self, key: str) -> Piece | None:
        """A slot's own object; those of the next ones are fetched with it."""
        if key not in self._ahead:
            start = bisect_left(self._names, key)
            page = [name for name in self._names[start : start + PARALLEL] if name not in self._ahead]
            if not self._is_listed(key):
                page = [key]  # it may have come meanwhile
            read = await in_parallel(self._read, page)
            self._ahead |= {
                name: None if data is None else _piece(name, data) for name, data in zip(page, read, strict=True)
            }
        found = self._ahead[key]
        if found is None:
            del self._ahead[key]
        return found

    async def _read(self, key: str) -> bytes | None:
        try:
            return await retry.read(lambda: self._blobs.get(key), pause=self._pause)
        except NotFound:
            return None
        except Integrity as error:
            return str(error).encode()  # no JSON: told as an altered object


def _piece(kept_in: str, data: bytes) -> Piece:
    hashed = slots.slot_hash(data)
    try:
        return Piece(kept_in, data, hashed, slots.read(data, key=kept_in))
    except StoreDamaged as error:
        return Piece(kept_in, data, hashed, None, str(error))
