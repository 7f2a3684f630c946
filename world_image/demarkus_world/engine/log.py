"""The log as this process follows it: read at the start, followed while others write, extended by our own slots.

`Log` owns the view and is the only one to change it. A slot is checked (its place, its predecessor's hash, its
entries against the state) before any of it is taken in.
"""

import asyncio
import sqlite3
from collections.abc import AsyncIterator, Mapping, Sequence

from demarkus_base.blobs.port import Blobs, Integrity, NotFound
from demarkus_world.engine import keys, retry, slots
from demarkus_world.engine.entries import CONTENT, Entry, Op
from demarkus_world.engine.parallel import PARALLEL, in_parallel
from demarkus_world.engine.proof import Tree
from demarkus_world.engine.refusals import StoreDamaged
from demarkus_world.engine.slots import NO_SLOT, Slot
from demarkus_world.engine.versions import Versions
from demarkus_world.view.apply import InvalidEntry, record_of
from demarkus_world.view.catalog import describe
from demarkus_world.view.local import LocalView
from demarkus_world.view.reads import Tip
from mark_protocol.versions import StoredVersion


class Log:
    """The part of the log that is known here.

    `foreign` counts the slots of other writers taken in since the start, `sweeps` the sweeps of anybody.
    """

    def __init__(
        self, blobs: Blobs, versions: Versions, tree: Tree, view: LocalView, *, history: str, pause: retry.Pause
    ) -> None:
        self.view = view
        self.tree = tree
        self.foreign = 0
        self.sweeps = 0
        self._blobs = blobs
        self._versions = versions
        self._history = history
        self._pause = pause
        self._tip_hash = NO_SLOT
        self._tip_time = 0
        self._damage: StoreDamaged | None = None
        self._offered: bytes | None = None
        self._probes = 0
        self._probing = asyncio.Lock()

    @property
    def tip_time(self) -> int:
        """The time of the newest entry, ms."""
        return self._tip_time

    async def replay(self) -> None:
        """Take in the whole log, then the metadata of the heads. Raises StoreDamaged, Unavailable."""
        names = [name async for name in self._blobs.list(keys.LOG)]
        for start in range(0, len(names), PARALLEL):
            page = names[start : start + PARALLEL]
            for name, data in zip(page, await in_parallel(self._read, page), strict=True):
                first = keys.first_of(name)
                if first is None:
                    raise StoreDamaged(f"{name}: not the name of a slot")
                if first != self.view.sequence + 1:
                    raise StoreDamaged(f"{keys.slot(self.view.sequence + 1)}: missing, though {name} is there")
                if data is None:
                    raise StoreDamaged(f"{name}: listed, but not there")
                self._take_in(self._decode(data), data, {})
        await self._read_heads()

    async def _read_heads(self) -> None:
        """Read the newest versions that the view has the log's word of, and not their own."""
        last = 0
        while page := self.view.unread(after=last):
            last = page[-1][0]
            read = await self._versions.read(record for _, record in page)
            with self.view.slot():
                for document, record in page:
                    if record.blob in read:
                        self.view.set_described(document, record, describe(record.path, read[record.blob]))

    async def refresh(self) -> None:
        """Take in every slot that was there when this was called. Raises StoreDamaged, Unavailable.

        One probe runs at a time; it serves everybody who came before it started.
        """
        seen = self._probes
        async with self._probing:
            if self._damage is not None:
                raise self._damage
            if self._probes == seen:
                self._probes += 1
                await self._follow()

    async def entries_from(self, sequence: int) -> AsyncIterator[Sequence[Entry]]:
        """Read again what was taken in before, from that entry on. Raises StoreDamaged, Unavailable."""
        names = [name async for name in self._blobs.list(keys.LOG, keys.slot(max(sequence - slots.ENTRIES, 0)))]
        for start in range(0, len(names), PARALLEL):
            page = names[start : start + PARALLEL]
            for name, data in zip(page, await in_parallel(self._read, page), strict=True):
                if data is None:
                    raise StoreDamaged(f"{name}: listed, but not there")
                found = slots.read(data, key=name)
                if found.last >= sequence:
                    yield [entry for entry in found.entries if entry.seq >= sequence]

    def next_slot(self, writer: str, entries: Sequence[Entry]) -> Slot:
        """The slot that would follow the tip. Raises StoreDamaged when the tip can't be followed."""
        if self._damage is not None:
            raise self._damage
        return Slot(
            history=self._history,
            first=self.view.sequence + 1,
            writer=writer,
            prev=self._tip_hash,
            entries=entries,
        )

    def offer(self, data: bytes | None) -> None:
        """Say which bytes this process is about to create as the next slot, so that they are known when met."""
        self._offered = data

    async def holds(self, key: str, data: bytes) -> bool | None:
        """Whether the slot of that name has these bytes; None if there is none. Raises StoreDamaged, Unavailable."""
        found = await self._read(key)
        return None if found is None else found == data

    def landed(self, slot: Slot, data: bytes, read: Mapping[str, StoredVersion]) -> None:
        """Take in our own slot, unless a probe met it before; `read` is what its blobs hold, by their keys."""
        if self.view.sequence < slot.first:
            self._take_in(slot, data, read)

    async def _follow(self) -> None:
        while (data := await self._read(keys.slot(first := self.view.sequence + 1))) is not None:
            if self.view.sequence + 1 != first:
                continue  # our own committer took that slot in while the answer was on its way
            slot = self._decode(data)
            newest = {entry.path: record_of(entry) for entry in slot.entries if entry.op in CONTENT}
            read = await self._versions.read(newest.values())
            # Our own committer may have taken the same slot in while the blobs were read.
            if self.view.sequence + 1 == first:
                if data != self._offered:
                    self.foreign += 1
                self._take_in(slot, data, read)

    def _decode(self, data: bytes) -> Slot:
        first = self.view.sequence + 1
        return slots.decode(
            data,
            key=keys.slot(first),
            history=self._history,
            first=first,
            prev=self._tip_hash,
            time=self._tip_time,
        )

    def _take_in(self, slot: Slot, data: bytes, read: Mapping[str, StoredVersion]) -> None:
        tip_hash, tip_time = slots.slot_hash(data), slot.entries[-1].time
        try:
            with self.view.slot():
                self._apply(slot, read)
                self.tree.take_in(slot.entries)
                self.view.move_tip(
                    Tip(sequence=slot.last, first=slot.first, slot=tip_hash, time=tip_time, edge=self.tree.edge)
                )
        except (InvalidEntry, sqlite3.Error) as error:
            # Nothing may be built on a log that has such an entry, nor on a view that lacks one.
            what = keys.slot(slot.first) if isinstance(error, InvalidEntry) else "the local view can't take it in"
            self._damage = StoreDamaged(f"{what}: {error}")
            raise self._damage from error
        self._tip_hash, self._tip_time = tip_hash, tip_time
        self.sweeps += sum(entry.op is Op.SWEEP for entry in slot.entries)

    def _apply(self, slot: Slot, read: Mapping[str, StoredVersion]) -> None:
        for entry in slot.entries:
            version = read.get(entry.blob) if entry.blob else None
            try:
                self.view.apply(entry, describe(entry.path, version) if version else None)
            except InvalidEntry as error:
                raise InvalidEntry(f"entry {entry.seq}: {error}") from error

    async def _read(self, key: str) -> bytes | None:
        try:
            return await retry.read(lambda: self._blobs.get(key), pause=self._pause)
        except NotFound:
            return None
        except Integrity as error:
            raise StoreDamaged(str(error)) from error
