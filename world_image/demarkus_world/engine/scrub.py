"""The scrub: every retained version is read again and compared with the log, slowly, for as long as the world runs.

Reads find damage only where somebody reads. A pass first compares the view with the log, because the view lies where
others may write, too; then it goes through the documents in the order of their paths, at most READS versions and BYTES
bytes a second. It is made at most once a day. `verified_through` is the entry up to which every
version that was retained when the last pass began was right. A pass that found nothing so far goes on after a restart.
"""

import asyncio
import logging
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from itertools import islice
from types import MappingProxyType
from typing import Any, Protocol

from demarkus_world.engine.entries import CONTENT, Entry
from demarkus_world.engine.model import VersionRecord, View
from demarkus_world.engine.progress import Progress
from demarkus_world.engine.refusals import EngineError

READS = 20.0
BYTES = 1024 * 1024.0
EVERY = 24 * 3600.0
ENTRIES = 256
"""So many entries are compared with the view before the loop gets a turn ..."""
BREATH = 0.05
"""... of so many seconds."""
AGAIN = 60.0
"""Seconds until a store that could not be read is asked again."""
FINDINGS = 1000
TOLD = 20
PAGE = 256

logger = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class Damage:
    """A retained version that is not what the log says."""

    path: str
    version: int
    entry: int
    blob: str
    text: str


@dataclass(slots=True)
class Scrubbed:
    """What scrubs found so far. `versions` counts what was read; `damage` is by blob."""

    verified_through: int = 0
    passes: int = 0
    versions: int = 0
    damage: Mapping[str, Damage] = field(default_factory=lambda: MappingProxyType({}))

    def facts(self) -> dict[str, Any]:
        """What is told to whoever looks after the world; of much damage the beginning."""
        return {
            "verifiedThrough": self.verified_through,
            "passes": self.passes,
            "versionsRead": self.versions,
            "damage": [damage.text for damage in islice(self.damage.values(), TOLD)],
        }

    def of(self, path: str) -> Damage | None:
        """The first damage known of a document's versions."""
        return next((found for found in self.damage.values() if found.path == path), None)


Recheck = Callable[[VersionRecord, str | None], Awaitable[str | None]]
"""What is wrong with a version behind the one with that hash, read past every cache; raises EngineError."""


Entries = Callable[[int], AsyncIterator[Sequence[Entry]]]
"""The entries of the log from that one on, some at a time; raises EngineError."""


class Kept(Protocol):
    """Where progress outlives the process; see `ProgressFile`."""

    def load(self) -> Progress: ...

    def save(self, progress: Progress) -> None: ...


class Scrub:
    """Reads again and again into `scrubbed`. `run` is its task."""

    def __init__(
        self,
        *,
        view: Callable[[], Awaitable[View]],
        entries: Entries,
        recheck: Recheck,
        scrubbed: Scrubbed,
        pause: Callable[[float], Awaitable[None]] = asyncio.sleep,
        clock: Callable[[], float],
        kept: Kept,
    ) -> None:
        self._view = view
        self._entries = entries
        self._recheck = recheck
        self._scrubbed = scrubbed
        self._pause = pause
        self._clock = clock
        self._kept = kept
        self._progress = Progress()

    async def run(self) -> None:
        """Make pass after pass, for ever. The owner cancels it."""
        resumed = False
        while True:
            began = self._clock()
            try:
                if not resumed:
                    await self.resume()
                    resumed = True
                await self.once()
            except EngineError as error:
                logger.warning("the scrub can't read the store, trying again: %s", error)
                await self._pause(AGAIN)
                continue
            await self._pause(max(EVERY - (self._clock() - began), AGAIN))

    async def resume(self) -> None:
        """Take up what an earlier process left. Raises EngineError when the state of the world can't be had."""
        sequence = (await self._view()).sequence
        kept = await asyncio.to_thread(self._kept.load)
        if max(kept.verified_through, kept.through) > sequence:
            kept = Progress()  # of a log that is not this one any more
        self._progress = kept
        self._scrubbed.verified_through = kept.verified_through

    async def once(self) -> None:
        """One pass, or the rest of one. Raises EngineError when the log or the state of the world can't be had."""
        view = await self._view()
        kept, self._progress = self._progress, Progress()
        through = kept.through or view.sequence
        found: dict[str, Damage] = {}
        await self._compare(view, through, found)
        walk = _documents(view, after=kept.after)
        while paths := list(islice(walk, PAGE)):
            for path in paths:
                await self._check(path, view, through, found)
            # A pass that has found something begins anew, so that it finds it again.
            await self._keep(Progress() if found else replace(kept, through=through, after=paths[-1]))
        if not found:
            await self._keep(Progress(verified_through=through))
        first = min((damage.entry for damage in found.values()), default=through + 1)
        self._scrubbed.damage = MappingProxyType(found)
        self._scrubbed.verified_through = first - 1
        self._scrubbed.passes += 1

    async def _keep(self, progress: Progress) -> None:
        await asyncio.to_thread(self._kept.save, progress)

    async def _compare(self, view: View, through: int, found: dict[str, Damage]) -> None:
        """Whether the view has of each version what its entry says."""
        if not through:
            return
        count = 0
        async for page in self._entries(1):
            for entry in page:
                if entry.seq > through:
                    return
                fault = _difference(view, entry) if entry.op in CONTENT else None
                if fault is not None:
                    text = f"the view says {fault} of {entry.path} version {entry.version} than the log: remove it"
                    self._tell(Damage(entry.path, entry.version, entry.seq, entry.blob or "", text), found)
                count += 1
                if count % ENTRIES == 0:
                    await self._pause(BREATH)

    async def _check(self, path: str, view: View, through: int, found: dict[str, Damage]) -> None:
        versions = view.versions(path)
        before = view.predecessor(path)
        for record in versions:
            if record.sequence > through:
                return
            fault = await self._fault(record, before)
            self._scrubbed.versions += 1
            before = record.etag
            # What was pruned while it was read may be gone.
            if fault is not None and view.version(path, record.version) == record:
                self._tell(Damage(path, record.version, record.sequence, record.blob, fault), found)
            await self._pause(max(1 / READS, record.size / BYTES))

    async def _fault(self, record: VersionRecord, before: str | None) -> str | None:
        while True:
            try:
                return await self._recheck(record, before)
            except EngineError as error:
                logger.warning("the scrub can't read %s, trying again: %s", record.blob, error)
            await self._pause(AGAIN)

    def _tell(self, damage: Damage, found: dict[str, Damage]) -> None:
        if damage.blob not in self._scrubbed.damage:
            logger.error("scrub: %s", damage.text, extra={"fields": {"path": damage.path, "version": damage.version}})
        if len(found) < FINDINGS:
            found[damage.blob] = damage
            # At once, not only at the end of a pass that may take hours.
            self._scrubbed.damage = MappingProxyType({**self._scrubbed.damage, damage.blob: damage})


def _difference(view: View, entry: Entry) -> str | None:
    """What the view says of a version otherwise than the log; None where it is right, or the version was pruned."""
    retained = view.versions(entry.path)
    if retained and entry.version < retained[0].version:
        return None
    record = view.version(entry.path, entry.version)
    if record is None:
        return "nothing"
    seen = (record.sequence, record.etag, record.body_hash, record.size, record.blob)
    return None if seen == (entry.seq, entry.stored, entry.body, entry.size, entry.blob) else "something else"


def _documents(view: View, *, after: str = "") -> Iterator[str]:
    """The paths of all documents, from behind one of them on.

    What is asked for later sees what changed meanwhile, and goes on behind it.
    """
    stack: list[tuple[str, str]] = []
    base = ""
    for name in after.split("/")[1:] or [""]:
        stack.append((base, name))
        base = f"{base}/{name}"
    while stack:
        base, after = stack.pop()
        child = next(iter(view.children(base or "/", after=after)), None)
        if child is None:
            continue
        stack.append((base, child.name))
        path = f"{base}/{child.name}"
        if child.head is not None:
            yield path
        else:
            stack.append((path, ""))
