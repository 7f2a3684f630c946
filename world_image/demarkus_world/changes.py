"""What has happened in a world, for those who watch it: the log's entries as changes (Mark protocol 10).

A cursor is a place in the log, so nothing is kept for a watch that is away: what it missed is read from the log again.
The newest entries are at hand. Only how far back a watch may resume is bounded, and with that the work it can ask for.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import AsyncGenerator, Iterator, Mapping, Sequence
from typing import NamedTuple

from cachetools import LRUCache

from demarkus_world.engine.engine import Engine, Entry, StoreDamaged, VersionRecord, View
from demarkus_world.engine.entries import CONTENT, Op
from demarkus_world.engine.model import Identity
from demarkus_world.engine.parallel import in_parallel
from mark_protocol.changes import BlockTooLong, Change, Cursor, Kind, encode_change
from mark_protocol.metadata import AGENT, USER
from mark_protocol.versions import parse_version

RETAINED = 65_536
"""Entries behind the newest one from where a watch may resume; who comes later has to read anew."""

PAGE = 256
"""Entries that are told at once."""

TOLD = 8192
"""Changes whose block is kept: a change is mostly told to many, and at the same time."""

EPOCH = 12

KINDS: Mapping[Op, Kind] = {
    Op.PUBLISH: Kind.PUBLISH,
    Op.SEED: Kind.PUBLISH,
    Op.APPEND: Kind.APPEND,
    Op.ARCHIVE: Kind.ARCHIVE,
    Op.UNARCHIVE: Kind.PUBLISH,
}
"""Entries that are a change of a document; the others only move the cursor."""

logger = logging.getLogger(__name__)


class Lapsed(Exception):
    """What happened since is not retained, or not to be found: the watch has to begin anew."""


class Told(NamedTuple):
    """A change of a document, as the block that tells of it."""

    path: str
    block: bytes


class Page(NamedTuple):
    """What happened up to an entry."""

    upto: int
    told: Sequence[Told]


def cursor_at(identity: Identity, sequence: int) -> Cursor:
    """The cursor behind an entry. Another incarnation of the world is another epoch: its log may go another way."""
    return Cursor(identity.incarnation[:EPOCH], sequence)


def resumable(since: Cursor, head: Cursor) -> bool:
    """Whether what happened behind `since` can still be told, now that the log is at `head`."""
    return since.epoch == head.epoch and 0 <= head.sequence - since.sequence <= RETAINED


class Feed:
    """The changes of one world. `compatible` leaves out who was authorised to make them."""

    def __init__(self, engine: Engine, *, compatible: bool) -> None:
        self._engine = engine
        self._compatible = compatible
        self._told: LRUCache[int, Told | None] = LRUCache(TOLD)

    @property
    def head(self) -> int:
        """The sequence of the newest entry."""
        return self._engine.statistics.sequence

    def cursor(self, sequence: int) -> str:
        """See `cursor_at`."""
        return str(cursor_at(self._engine.identity, sequence))

    async def pages(self, after: int) -> AsyncGenerator[Page, None]:
        """What happened behind an entry, up to the newest one. Raises Lapsed, StoreDamaged, Unavailable."""
        while after < self.head:
            if self.head - after > RETAINED:
                raise Lapsed
            recent = self._engine.recent(after)
            if recent is not None:
                for page in self._paged(recent):
                    yield await self._page(after, page)
                    after = page[-1].seq
                continue
            begin = after
            async for entries in self._engine.entries_from(after + 1):
                # The store may be ahead of what this process has taken in.
                for page in self._paged([entry for entry in entries if entry.seq <= self.head]):
                    yield await self._page(after, page)
                    after = page[-1].seq
                    await asyncio.sleep(0)
            if after == begin:
                raise Lapsed

    @staticmethod
    def _paged(entries: Sequence[Entry]) -> Iterator[Sequence[Entry]]:
        return (entries[start : start + PAGE] for start in range(0, len(entries), PAGE))

    async def _page(self, after: int, entries: Sequence[Entry]) -> Page:
        if entries[0].seq != after + 1:
            raise Lapsed
        view = await self._engine.view(exact=False)
        # Without a wait in between, so that of many that are told of an entry the first one does the work.
        rest = [entry for entry in entries if entry.op in KINDS and not self._tell_at_once(view, entry)]
        await in_parallel(lambda entry: self._read(view, entry), rest)
        told = (self._told.get(entry.seq) for entry in entries)
        return Page(entries[-1].seq, [change for change in told if change is not None])

    def _tell_at_once(self, view: View, entry: Entry) -> bool:
        """Whether no blob has to be read for it: it was told before, made no version, or made the newest one."""
        if entry.seq in self._told:
            return True
        head = view.head(entry.path)
        if entry.op in CONTENT and (head is None or head.record.sequence != entry.seq):
            return False
        metadata = head.metadata if head is not None and entry.op in CONTENT else {}
        self._told[entry.seq] = self._rendered(entry, view.version(entry.path, entry.version), metadata)
        return True

    async def _read(self, view: View, entry: Entry) -> None:
        """Tell of a version that is not the newest one any more; what was pruned or is damaged says nothing itself."""
        record = view.version(entry.path, entry.version)
        metadata: Mapping[str, str] = {}
        if record is not None:
            try:
                metadata = parse_version(await self._engine.stored(record)).metadata
            except StoreDamaged as error:
                logger.warning("a change is told without its metadata: %s", error)
        self._told[entry.seq] = self._rendered(entry, record, metadata)

    def _rendered(self, entry: Entry, record: VersionRecord | None, metadata: Mapping[str, str]) -> Told | None:
        body = entry.body or (record.body_hash if record else None)
        change = Change(
            cursor=self.cursor(entry.seq),
            path=entry.path,
            version=entry.version,
            op=KINDS[entry.op],
            hash=f"sha256-{body}" if body else None,
            agent=metadata.get(AGENT),
            user=metadata.get(USER),
            by=None if self._compatible else entry.by,
            credential=None if self._compatible else entry.credential,
        )
        try:
            return Told(entry.path, encode_change(change))
        except BlockTooLong as error:
            logger.warning("a change is not told to watches: entry %d: %s", entry.seq, error)
            return None
