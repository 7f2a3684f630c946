"""The interface the verbs see: open a store, look at its state, read versions, write, check a history."""

import asyncio
import logging
import sqlite3
from collections.abc import AsyncIterator, Callable, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from demarkus_base.blobs.port import Blobs
from demarkus_world.engine import chain, retry
from demarkus_world.engine.committer import Committer
from demarkus_world.engine.entries import Entry
from demarkus_world.engine.indexer import Indexer
from demarkus_world.engine.log import Log
from demarkus_world.engine.model import (
    Adopt,
    ChainReport,
    Change,
    Child,
    Expected,
    Head,
    Identity,
    Prune,
    Settle,
    Sweep,
    VersionRecord,
    View,
    Write,
    Written,
)
from demarkus_world.engine.notes import WorldKey
from demarkus_world.engine.opening import opened
from demarkus_world.engine.progress import ProgressFile
from demarkus_world.engine.refusals import (
    ContentRefused,
    ContentTooLarge,
    DocumentArchived,
    DocumentMissing,
    EngineError,
    MetadataRefused,
    NoKey,
    OutcomeUnknown,
    PathCollision,
    PathUnstorable,
    PolicyInvalid,
    PolicyOwned,
    PolicyRefused,
    PolicyRequired,
    ProposalClosed,
    ProposalsFull,
    PruneForbidden,
    QuotaExceeded,
    StoreDamaged,
    StoreForeign,
    StoreFull,
    StoreLost,
    StoreUnfinished,
    Unavailable,
    VersionConflict,
    VersionRefused,
    WriteRefused,
)
from demarkus_world.engine.rules import Rules
from demarkus_world.engine.scrub import Scrubbed
from demarkus_world.engine.space import Reserve, Space
from demarkus_world.engine.upkeep import Upkeep
from demarkus_world.engine.versions import Versions
from demarkus_world.view.local import CATALOG, LocalView
from demarkus_world.view.search import Query, Readable, search_catalog
from demarkus_world.view.sections import Sections
from mark_protocol.lookups import Match
from mark_protocol.paths import unstorable

__all__ = [
    "Adopt",
    "ChainReport",
    "Change",
    "Child",
    "ContentRefused",
    "ContentTooLarge",
    "DocumentArchived",
    "DocumentMissing",
    "Engine",
    "EngineError",
    "Entry",
    "Expected",
    "Head",
    "Identity",
    "MetadataRefused",
    "NoKey",
    "OutcomeUnknown",
    "PathCollision",
    "PathUnstorable",
    "PolicyInvalid",
    "PolicyOwned",
    "PolicyRefused",
    "PolicyRequired",
    "ProposalClosed",
    "ProposalsFull",
    "Prune",
    "PruneForbidden",
    "QuotaExceeded",
    "Rules",
    "Settle",
    "Statistics",
    "StoreDamaged",
    "StoreForeign",
    "StoreFull",
    "StoreLost",
    "StoreUnfinished",
    "Sweep",
    "Unavailable",
    "VersionConflict",
    "VersionRecord",
    "VersionRefused",
    "View",
    "Write",
    "WriteRefused",
    "Written",
]

WRITE_TIMEOUT = 10.0

logger = logging.getLogger(__name__)
CATALOG_LAG_MS = 1000


@dataclass(frozen=True, slots=True, kw_only=True)
class Statistics:
    """Figures since the store was opened; `sequence` and `waiting` (writes not answered) are those of now."""

    sequence: int
    slots: int
    entries: int
    lost: int
    waiting: int


class Engine:
    """An open store. Made by `open`; one task of its own commits, and `close` ends it."""

    def __init__(
        self,
        *,
        identity: Identity,
        log: Log,
        versions: Versions,
        committer: Committer,
        upkeep: Upkeep,
        space: Space,
        exclusive: bool,
        compatible: bool,
        key: WorldKey | None,
        now: Callable[[], int],
    ) -> None:
        self.identity = identity
        self._log = log
        self._versions = versions
        self._committer = committer
        self._space = space
        self._exclusive = exclusive
        self._compatible = compatible
        self._now = now
        # When this process last asked the store what others wrote, and knew the answer.
        self._confirmed = now()
        self.scrubbed = Scrubbed()
        self.progress = ProgressFile(log.view.directory, identity, key)
        self._key = key
        self._running = asyncio.create_task(committer.run(), name="committer")
        self._sections = _sections(log.view)
        self._indexer = Indexer(log, versions, self._sections) if self._sections else None
        background = {"tree": log.tree.follow(log.entries_from), "upkeep": upkeep.run()}
        if self._indexer is not None:
            background["sections"] = self._indexer.run()
        self._behind = [asyncio.create_task(work, name=name) for name, work in background.items()]

    @classmethod
    async def open(
        cls,
        blobs: Blobs,
        configured: Identity,
        *,
        now: Callable[[], int],
        random: Callable[[int], bytes],
        compatible: bool = False,
        pause: retry.Pause = retry.sleep,
        key: WorldKey | None = None,
        view: Path | None = None,
        rules: Callable[[], Rules] = Rules,
        reserve: Reserve | None = None,
        expected: Expected | None = None,
    ) -> "Engine":
        """Open the store, and create it if there is nothing yet; the caller keeps and later closes `blobs`.

        With `expected` no store is made, and it has to be that one. `rules` is asked for with every write; `reserve`
        is what a full store lets go of so that it can be emptied.
        `key` signs the notes; `view` is the folder for what this process keeps of the log, disposable, for it alone
        (None = in memory).
        `now` gives ms since 1970, `random` that many random bytes. With `compatible` a path segment `versions` may be
        stored. Raises StoreLost, StoreForeign for a store of another history, StoreUnfinished for one whose restore is
        not, StoreDamaged naming object and field, StoreFull, Unavailable.
        """
        found = await opened(
            blobs, configured, now=now, random=random, pause=pause, key=key, view=view, expected=expected
        )
        space = Space(reserve)
        return cls(
            identity=found.identity,
            log=found.log,
            versions=found.versions,
            committer=Committer(
                blobs=blobs,
                log=found.log,
                versions=found.versions,
                now=now,
                random=random,
                pause=pause,
                rules=rules,
                space=space,
            ),
            upkeep=Upkeep(
                blobs=blobs,
                log=found.log,
                reader=found.reader,
                checkpoints=found.checkpoints,
                history=found.identity.history,
                now=now,
                random=random,
            ),
            space=space,
            exclusive=blobs.exclusive,
            compatible=compatible,
            now=now,
            key=key,
        )

    @property
    def fault(self) -> str | None:
        """Why nothing can be written any more until the process starts anew, or None."""
        return self._committer.fault

    @property
    def full(self) -> bool:
        """Whether content is refused because the store has no space left."""
        return self._space.full or self._space.refused

    async def make_room(self) -> bool:
        """Let go of the reserve, for what makes room and finds none; False if there is none to let go of."""
        return await self._space.release()

    @property
    def statistics(self) -> Statistics:
        counts = self._committer.counts
        return Statistics(
            sequence=self._log.view.sequence,
            slots=counts.slots,
            entries=counts.entries,
            lost=counts.lost,
            waiting=counts.waiting,
        )

    @property
    def newest(self) -> View:
        """The state as this process knows it, without asking the store."""
        return self._log.view

    @property
    def exact_view(self) -> View | None:
        """What `view(exact=True)` gives, where that takes no question to the store: this process alone writes."""
        return self._log.view if self._exclusive else None

    def stored_at_hand(self, record: VersionRecord) -> bytes | None:
        """What `stored` gives, if it is in memory."""
        return self._versions.at_hand(record)

    async def view(self, *, exact: bool) -> View:
        """The state. An exact one has every commit that ended before this call, whoever made it; another one may lack
        those of the last second.

        Where this process is the only writer its own durable state is exact. Raises StoreDamaged, Unavailable.
        """
        if not self._exclusive and (exact or not 0 <= self._now() - self._confirmed < CATALOG_LAG_MS):
            asked = self._now()
            await self._log.refresh()
            self._confirmed = asked
        return self._log.view

    async def stored(self, record: VersionRecord) -> bytes:
        """The exact bytes of a version, checked against the log. Raises StoreDamaged, Unavailable."""
        try:
            return await self._versions.stored(record)
        except StoreDamaged:
            view = await self.view(exact=True)
            if view.version(record.path, record.version) == record:
                raise
            raise Unavailable(f"{record.path} version {record.version} was pruned in this moment") from None

    def forget(self, blob: str) -> None:
        """Keep nothing of a blob in memory: it is gone from the store."""
        self._versions.forget(blob)

    def recent(self, after: int) -> list[Entry] | None:
        """The entries of the log behind that of a sequence; None if some of them are no longer at hand."""
        return self._log.recent(after)

    def entries_from(self, sequence: int) -> AsyncIterator[Sequence[Entry]]:
        """The entries of the log from a sequence on, read again. Raises StoreDamaged, Unavailable."""
        return self._log.entries_from(sequence)

    async def grown(self, sequence: int) -> None:
        """Wait until the log goes on behind a sequence. What others write is met by `view`."""
        await self._log.grown(sequence)

    async def check_chain(self, path: str, records: Sequence[VersionRecord] | None = None) -> ChainReport:
        """Check the newest versions of a document, and what the scrub found of the others.

        `records` are all versions that the view has of it, for who has asked already. Raises DocumentMissing,
        Unavailable.
        """
        records = records or self._log.view.versions(path)
        if not records:
            raise DocumentMissing(path)
        report = await chain.check(records, self._log.view.predecessor(path), self._versions)
        if report.valid and (damage := self.scrubbed.of(path)) is not None:
            report = replace(report, state="broken", fault=damage.text)
        if not report.valid and tuple(self._log.view.versions(path)) != tuple(records):
            # What was pruned meanwhile may be gone already.
            return await self.check_chain(path)
        return report

    async def lookup(self, query: Query, readable: Readable, *, body: bool = False) -> tuple[bool, list[Match]]:
        """Whether sections were searched, as `body` asks for, and the matches (Mark protocol, LOOKUP).

        While the sections are not indexed the catalog answers. Raises StoreDamaged, Unavailable.
        """
        await self.view(exact=False)
        local, sections = self._log.view, self._sections
        by_section = body and sections is not None and self._indexer is not None and self._indexer.complete

        def search() -> list[Match]:
            if by_section and sections is not None:
                return sections.search(query, readable)
            with local.reader() as rows:
                return search_catalog(rows, query, readable)

        try:
            return by_section, search() if local.directory is None else await asyncio.to_thread(search)
        except UnicodeEncodeError:
            # Words that are not UTF-8 are nowhere.
            return by_section, []

    async def digest(self) -> str:
        """One hash over what the log adds up to here: equal for all who have the same log, however they came by it."""
        local = self._log.view
        return local.digest() if local.directory is None else await asyncio.to_thread(local.digest)

    async def recheck(self, record: VersionRecord, before: str | None) -> str | None:
        """What is wrong with a version that follows the one with that hash, read anew; None if nothing is.

        Raises Unavailable.
        """
        try:
            data = await self._versions.fetch(record)
        except StoreDamaged as error:
            return str(error)
        fault = await asyncio.to_thread(chain.fault_of, record, before, data)
        return None if fault is None else f"{record.path} version {record.version} ({record.blob}): {fault}"

    async def note(self) -> str:
        """The signed note of every commit that ended before this call.

        Raises NoKey, StoreDamaged, Unavailable.
        """
        if self._key is None:
            raise NoKey("this world has no key to sign with: set identity.keyFile")
        if not self._exclusive:
            await self._log.refresh()
        if self._log.tree.fault is not None:
            raise StoreDamaged(self._log.tree.fault)
        return self._key.note(self.identity, self._log.tree.edge)

    def consistency(self, first: int, second: int) -> list[bytes]:
        """The proof (RFC 9162) that the log of `first` entries begins the log of `second`.

        Raises ValueError for sizes that the log does not have, LookupError while the tree is being made anew.
        """
        return self._log.tree.consistency(first, second)

    def inclusion(self, sequence: int, size: int) -> list[bytes]:
        """The proof (RFC 9162) that an entry is among the first `size`. Raises as `consistency` does."""
        return self._log.tree.inclusion(sequence, size)

    async def write(self, write: Change, *, timeout: float = WRITE_TIMEOUT) -> Written:
        """Commit a change, durably. `timeout` is in seconds.

        Raises the WriteRefused that applies, Unavailable (nothing was done), OutcomeUnknown (it may have been, or may
        yet be), StoreFull, StoreDamaged. A cancelled call leaves the outcome unknown as well.
        """
        rule = unstorable(write.path, versions_segment=self._compatible)
        if rule is not None and not isinstance(write, Sweep):
            raise PathUnstorable(write.path, rule=rule)
        return await self._committer.submit(write, timeout=timeout)

    async def write_all(
        self, writes: Sequence[Change], *, timeout: float = WRITE_TIMEOUT
    ) -> list[Written | BaseException]:
        """Commit changes in the order given, each on top of the one before and as many as fit into each slot.

        What became of each comes back in that order: its result, or what `write` would have raised. After one that
        is refused the others of its document mostly are, too.
        """
        # Writes are decided in the order in which they ask, and tasks start in the order in which they are made.
        return await asyncio.gather(*(self.write(write, timeout=timeout) for write in writes), return_exceptions=True)

    async def close(self) -> None:
        """Answer the writes in line, then stop. If this is cancelled they are answered at once, as well as possible."""
        self._committer.close()
        for task in self._behind:
            task.cancel()
        try:
            await asyncio.shield(self._running)
        except asyncio.CancelledError:
            self._running.cancel()
            await asyncio.wait({self._running})
            raise
        finally:
            await asyncio.wait(self._behind)
            self._log.tree.close()
            if self._sections is not None:
                self._sections.close()
            self._log.view.close()


def _sections(view: LocalView) -> Sections | None:
    """The index of sections beside a view in a folder."""
    if view.directory is None:
        return None
    try:
        return Sections(view.directory, view.directory / CATALOG, view.identity, boot=view.boot)
    except (sqlite3.Error, OSError) as error:
        logger.warning("sections can't be indexed: %s", error)
        return None
