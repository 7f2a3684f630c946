"""The sweep: what nothing refers to any more really goes.

Blobs that the log does not refer to are left by prunes, by writers that died and by races that were lost.

    list      the blobs that no retained version has
    commit    the entry `sweep`: what was staged before it, and is not in the log, may not come into the log after it,
              because a writer that meets it stages anew (`Committer`)
    write     `sweeps/<sequence of that entry>.json`, the list, so that any process can go on from here
    delete    when the grace is over: every blob on the list that still nothing refers to, then the list

Each step may be repeated and done by several processes at once: a blob that was free at the entry stays free for ever.
Without the list the entry does nothing, and the next sweep finds the same blobs. What is on hold is left alone.
"""

import asyncio
import logging
from collections.abc import AsyncIterator, Awaitable, Callable, Sequence
from dataclasses import dataclass

from demarkus_base.blobs.port import BlobError, Blobs, Exists, NotFound, StoreFull, Throttled
from demarkus_base.blobs.port import Unavailable as BlobsUnavailable
from demarkus_world.engine import canonical, keys, retry
from demarkus_world.engine.engine import Engine, EngineError, Rules, StoreDamaged, Sweep, Unavailable, View
from demarkus_world.engine.engine import StoreFull as EngineStoreFull
from demarkus_world.engine.model import Credential
from demarkus_world.engine.parallel import in_parallel

SCHEMA = 1
LIST_BYTES = 3 * 1024 * 1024
"""Size of a list; what does not fit goes on the list of another sweep."""

ESCAPED = 3
"""Bytes that a byte of a key may take in a list."""

BREATH = 256
"""Keys that are looked up before the loop gets a turn."""

COMMIT_TIMEOUT = 60.0

DAY = 24 * 3600.0
SETTLE = 300.0
"""Seconds from the start of a world to its first sweep."""

logger = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True, kw_only=True)
class Swept:
    """What a sweep did: blobs `found` that nothing refers to, to be deleted at `due` (ms), and blobs `deleted`."""

    found: int = 0
    due: int | None = None
    deleted: int = 0


@dataclass(frozen=True, slots=True, kw_only=True)
class _Marked:
    """The list of a sweep."""

    sequence: int
    due: int
    blobs: Sequence[str]


class Sweeper:
    """Sweeps the store of an engine. `grace` is in ms, `now` gives ms since 1970."""

    def __init__(
        self,
        blobs: Blobs,
        engine: Engine,
        *,
        now: Callable[[], int],
        grace: Callable[[], int],
        rules: Callable[[], Rules] = Rules,
        pause: retry.Pause = retry.sleep,
    ) -> None:
        self._blobs = blobs
        self._engine = engine
        self._now = now
        self._grace = grace
        self._rules = rules
        self._pause = pause
        self._sweeping = asyncio.Lock()

    async def sweep(self, *, by: str | None = None, credential: Credential | None = None) -> Swept:
        """Delete what is due, then mark what is free. Raises EngineError."""
        async with self._sweeping:
            deleted, marked = await self._delete_due()
            grace = self._grace()
            found, due = 0, None
            async for free in self._free("/", marked):
                due = self._now() + grace
                await self._mark(Sweep(path="/", blobs=len(free), due=due, by=by, credential=credential), free)
                found += len(free)
            if found and not grace:
                deleted += (await self._delete_due())[0]
            return Swept(found=found, due=due, deleted=deleted)

    async def erase(self, path: str, *, by: str, credential: Credential = "local") -> Swept:
        """Delete at once whatever is left of a document's pruned versions. Raises EngineError.

        Their numbers are never written again, so nobody can be about to refer to one of these blobs.
        """
        async with self._sweeping:
            view = await self._engine.view(exact=True)
            versions = view.versions(path)
            found = 0
            async for free in self._free(path, frozenset(), below=versions[0].version if versions else 0):
                await self._mark(Sweep(path=path, blobs=len(free), due=self._now(), by=by, credential=credential), free)
                found += len(free)
            return Swept(found=found, deleted=(await self._delete_due())[0])

    async def keep_sweeping(self) -> None:
        """Sweep soon after the start, then once a day and whenever something is due; for ever."""
        wait = SETTLE
        while True:
            await self._pause(wait)
            try:
                swept = await self.sweep()
            except EngineError as error:
                logger.warning("sweep: %s", error)
                wait = DAY
                continue
            if swept.found or swept.deleted:
                logger.info("sweep", extra={"fields": {"found": swept.found, "deleted": swept.deleted}})
            wait = DAY if swept.due is None else min(DAY, max(1.0, (swept.due - self._now()) / 1000))

    async def _free(self, path: str, marked: frozenset[str], *, below: int | None = None) -> AsyncIterator[list[str]]:
        """Blobs of a document (`/` = of all) that nothing refers to and no list has yet, as many at a time as fit one.

        With `below` only those of lower versions.
        """
        view = await self._engine.view(exact=True)
        found: list[str] = []
        size = 0
        listed = retry.listing(self._blobs, keys.blobs_of(path), pause=self._pause)
        async for key in _unhurried(listed):
            version = keys.version_of(key)
            if version is None:
                logger.warning("%s: not the name of a blob, left alone", key)
            elif below is not None and (version.path != path or version.version >= below):
                continue
            elif key not in marked and not _has(view, key):
                found.append(key)
                size += ESCAPED * len(key.encode())
            if size > LIST_BYTES:
                if free := await self._still_free(found):
                    yield free
                found, size = [], 0
        if free := await self._still_free(found):
            yield free

    async def _still_free(self, found: Sequence[str]) -> list[str]:
        """Those that nothing refers to now, with all that was committed so far, and that nobody holds."""
        view = await self._engine.view(exact=True)
        if self._engine.fault is not None:
            # What was committed last may be missing in the view.
            raise Unavailable(f"nothing is swept until the store is opened anew: {self._engine.fault}")
        retention = self._rules().retention
        free: list[str] = []
        for number, key in enumerate(found):
            if number % BREATH == BREATH - 1:
                await asyncio.sleep(0)
            version = keys.version_of(key)
            if version is not None and not _has(view, key) and retention.held(version.path) is None:
                free.append(key)
        return free

    async def _mark(self, sweep: Sweep, free: Sequence[str]) -> None:
        written = await self._engine.write(sweep, timeout=COMMIT_TIMEOUT)
        assert written.sequence is not None, "a sweep always makes an entry"
        value = {
            "schema": SCHEMA,
            "history": self._engine.identity.history,
            "sequence": written.sequence,
            "due": sweep.due,
            "blobs": list(free),
        }
        await self._try(self._create, keys.sweep(written.sequence), canonical.encode(value))

    async def _delete_due(self) -> tuple[int, frozenset[str]]:
        """How many blobs were deleted, and those that are marked and not due yet."""
        deleted, waiting = 0, set[str]()
        view = await self._engine.view(exact=True)
        for name in [name async for name in retry.listing(self._blobs, keys.SWEEPS, pause=self._pause)]:
            marked = await self._marked(name)
            if marked is None:
                continue
            if marked.sequence > view.sequence:
                logger.error("%s: the log ends at %d, before this sweep; nothing is deleted", name, view.sequence)
            elif marked.due > self._now():
                waiting.update(marked.blobs)
            else:
                deleted += sum(await in_parallel(self._delete, await self._still_free(marked.blobs)))
                await self._delete(name)
        return deleted, frozenset(waiting)

    async def _marked(self, name: str) -> _Marked | None:
        try:
            data = await retry.read(lambda: self._blobs.get(name), pause=self._pause)
            return _decoded(name, data, history=self._engine.identity.history)
        except NotFound:
            return None  # somebody else has done it
        except (BlobError, canonical.NotCanonical, StoreDamaged) as error:
            # Nothing depends on a list: the next sweep finds the same blobs.
            logger.error("%s: dropped, it is no list of a sweep: %s", name, error)
            await self._delete(name)
            return None

    async def _delete(self, key: str) -> bool:
        """Whether this call deleted it; somebody else may have been first."""
        try:
            await self._try(self._blobs.delete, key)
        except NotFound:
            return False
        self._engine.forget(key)
        return True

    async def _create(self, key: str, data: bytes) -> None:
        try:
            await self._blobs.create(key, data)
        except Exists:
            return  # an earlier attempt: the name is this sweep's alone

    async def _try(self, call: Callable[..., Awaitable[None]], *arguments: object) -> None:
        """A call that may be repeated whatever became of it, until the store says something definite.

        Raises NotFound, StoreFull, Unavailable.
        """
        attempt = 1
        while True:
            try:
                return await call(*arguments)
            except NotFound:
                raise
            except StoreFull as error:
                if not await self._engine.make_room():
                    raise EngineStoreFull("store is full") from error
                continue
            except BlobError as error:
                if attempt == retry.ATTEMPTS or not isinstance(error, (Throttled, BlobsUnavailable)):
                    raise Unavailable(f"the sweep can't go on: {error}") from error
            await self._pause(retry.pause_before(attempt))
            attempt += 1


async def _unhurried(listed: AsyncIterator[str]) -> AsyncIterator[str]:
    """The same, with a turn for everybody else now and then."""
    number = 0
    async for key in listed:
        yield key
        number += 1
        if number % BREATH == 0:
            await asyncio.sleep(0)


def _has(view: View, key: str) -> bool:
    """Whether a retained version has this blob."""
    version = keys.version_of(key)
    record = view.version(*version) if version is not None else None
    return record is not None and record.blob == key


def _decoded(name: str, data: bytes, *, history: str) -> _Marked:
    value = canonical.decode(data)
    blobs = value.get("blobs")
    if value.get("schema") != SCHEMA or value.keys() != {"schema", "history", "sequence", "due", "blobs"}:
        raise StoreDamaged(f"schema is {value.get('schema')!r}, or fields are missing or not expected")
    if value["history"] != history or value["sequence"] != keys.sequence_of_sweep(name):
        raise StoreDamaged("it is of another history or another sweep")
    if type(value["due"]) is not int or not isinstance(blobs, list):
        raise StoreDamaged("due or blobs is malformed")
    if not all(isinstance(blob, str) and keys.version_of(blob) is not None for blob in blobs):
        raise StoreDamaged("it names something else than blobs")
    return _Marked(sequence=value["sequence"], due=value["due"], blobs=blobs)
