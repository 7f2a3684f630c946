"""The group commit: decided writes in one line, their bytes staged in parallel, their slots created one by one.

A write joins the line when it has been decided against everything before it (`Tentative`). From then on its blob is
staged beside all others, under a name never used before. One task takes the longest run of staged writes from the
front, at most one slot's worth, and creates the slot `log/<tip + 1>`: that create is the moment they become true.

    created, or the same bytes found there   ours: the members are answered
    other bytes found there                  lost: the winner is taken in and the whole line decided anew
    an answer that leaves it open            the same bytes are offered again until one of the two is certain;
                                             nothing else is offered meanwhile

Refusals stand in line as well: they are answered when everything they rest on is durable and nobody came before.
A member that gives up before its slot is offered is taken out and nothing happened; afterwards its outcome is unknown.
"""

import asyncio
import logging
from collections import deque
from collections.abc import Callable, Collection, Sequence
from dataclasses import dataclass

from demarkus_base.blobs.port import BlobError, Blobs, Exists, Stopped, Throttled
from demarkus_base.blobs.port import StoreFull as BlobsFull
from demarkus_base.blobs.port import Unavailable as BlobsUnavailable
from demarkus_world.engine import keys, retry, slots
from demarkus_world.engine.decisions import Ground
from demarkus_world.engine.entries import Entry
from demarkus_world.engine.fairness import Fairness
from demarkus_world.engine.inspection import Inspection
from demarkus_world.engine.log import Log
from demarkus_world.engine.members import Member, compose
from demarkus_world.engine.model import Adopt, Change, Write, Written
from demarkus_world.engine.preconditions import decide, joined
from demarkus_world.engine.refusals import EngineError, OutcomeUnknown, StoreDamaged, StoreFull, Unavailable
from demarkus_world.engine.rules import Rules
from demarkus_world.engine.space import Space
from demarkus_world.engine.staging import Staging
from demarkus_world.engine.tentative import Tentative
from demarkus_world.engine.versions import Versions
from mark_protocol.versions import StoredVersion, parse_version

WAITING = 1024
WAITING_BYTES = 64 * 1024 * 1024

logger = logging.getLogger(__name__)


class _Fault(Exception):
    """Nothing can be committed any more until the store is opened anew."""


@dataclass(slots=True)
class Counts:
    """What a committer did since the start, and how many writes wait now."""

    slots: int = 0
    entries: int = 0
    lost: int = 0
    waiting: int = 0


class Committer:
    """One for each open store. `run` is its task; whoever opened the store owns it."""

    def __init__(
        self,
        *,
        blobs: Blobs,
        log: Log,
        versions: Versions,
        now: Callable[[], int],
        random: Callable[[int], bytes],
        pause: retry.Pause,
        rules: Callable[[], Rules] = Rules,
        space: Space | None = None,
    ) -> None:
        self.fault: str | None = None
        self.counts = Counts()
        self._blobs = blobs
        self._log = log
        self._versions = versions
        self._now = now
        self._random = random
        self._pause = pause
        self._rules = rules
        self._space = space or Space(None)
        self._writer = random(16).hex()
        self._tentative = Tentative(log.view)
        self._inspection = Inspection(log.view, versions, self._tentative)
        self._line: deque[Member] = deque()
        # Held while writes are decided, so that the line is in the order of the decisions.
        self._deciding = asyncio.Lock()
        self._decided_at = log.foreign
        self._progress = asyncio.Event()
        self._staging = Staging(
            blobs,
            random=random,
            pause=pause,
            space=self._space,
            sweeps=lambda: log.sweeps,
            ended=self._progress.set,
        )
        self._waiting_bytes = 0
        self._setbacks = 0
        self._fairness = Fairness()
        self._closing = False
        self._ended = False

    async def submit(self, write: Change, *, timeout: float) -> Written:
        """See `Engine.write`."""
        size = self._size(write)
        if self.counts.waiting >= WAITING or self._waiting_bytes + size > WAITING_BYTES:
            raise Unavailable("too many writes are waiting")
        member = Member(write, self._random(16).hex(), asyncio.get_running_loop().create_future())
        self.counts.waiting += 1
        self._waiting_bytes += size
        try:
            async with asyncio.timeout(timeout):
                await self._space.recover()
                await self._inspection.prepare(write, self._rules())
                async with self._deciding:
                    if self._closing or self._ended:
                        raise Unavailable(self.fault or "the world is shutting down")
                    await self._decide(member)
                    self._line.append(member)
                self._progress.set()
                return await member.answer
        except TimeoutError:
            if member.answer.done() and not member.answer.cancelled():
                return member.answer.result()
            if member.offered:
                raise OutcomeUnknown(member.operation) from None
            raise Unavailable(f"not committed within {timeout:g} s; nothing was written") from None
        finally:
            if not member.answer.cancel() and not member.answer.cancelled():
                member.answer.exception()  # looked at, also when the caller left in the very moment of the answer
            self.counts.waiting -= 1
            self._waiting_bytes -= size
            self._progress.set()

    async def run(self) -> None:
        """Commit until `close`; ends early, with `fault` set, when nothing can be committed any more."""
        try:
            while True:
                self._progress.clear()
                await self._tidy()
                batch = self._front()
                if batch and (courtesy := self._fairness.courtesy()):
                    await self._pause(courtesy)
                elif batch:
                    await self._commit(batch)
                elif self._closing and not self._line:
                    return
                else:
                    await self._progress.wait()
        except _Fault as fault:
            self.fault = str(fault)
            logger.error("no more writes: %s", self.fault)
        except Exception:
            self.fault = "no more writes because of a bug; see the log"
            logger.exception("bug in the committer")
        finally:
            self._ended = True
            await self._abandon()

    def close(self) -> None:
        """Take no more writes; `run` ends when those in line are answered."""
        self._closing = True
        self._progress.set()

    # Deciding, in the order of the line.

    async def _decide(self, member: Member) -> None:
        write = member.write
        member.decision, member.refusal = None, None
        try:
            base = await self._base(write)
            rules = self._rules()
            body = joined(base, write) if isinstance(write, Write) and base is not None else None
            standard = await self._inspection.standard(write, rules, body=body)
            if self._decided_at != self._log.foreign:
                return  # another writer was met meanwhile: the whole line is decided anew before anything is offered
            now = max(self._now(), self._log.tip_time)
            ground = Ground(rules=rules, standard=standard, now=now, full=self._space.full)
            member.decision = decide(write, self._tentative, base, ground=ground)
        except EngineError as refusal:
            member.refusal = refusal
        else:
            self._tentative.add(write.path, member.decision)
        self._staging.begin(member)

    async def _decide_anew(self, leaving: Collection[Member] = ()) -> None:
        async with self._deciding:
            for member in leaving:
                self._line.remove(member)
                if member.staging is not None:
                    member.staging.cancel()
            if self._decided_at != self._log.foreign:
                self._fairness.peer_wrote(self._now())
            self._decided_at = self._log.foreign
            self._tentative.forget()
            for member in self._line:
                await self._decide(member)

    async def _base(self, write: Change) -> StoredVersion | None:
        """The version an APPEND builds on, if it is the newest one."""
        if not isinstance(write, Write) or write.op != "append":
            return None
        document = self._tentative.document(write.path)
        if document is None or document.version != write.expected:
            return None
        content = self._tentative.content(write.path, document.version)
        if content is not None:
            return parse_version(content.data)
        record = self._log.view.version(write.path, document.version)
        return await self._versions.parsed(record) if record is not None else None

    def _size(self, write: Change) -> int:
        """About how many bytes a write keeps in memory while it waits."""
        if isinstance(write, Adopt):
            return len(write.stored)
        if not isinstance(write, Write):
            return 0
        head = self._log.view.head(write.path) if write.op == "append" else None
        return len(write.body) + (head.record.size if head else 0)

    async def _tidy(self) -> None:
        """Take out who gave up or could not be staged; decide anew if that, or another writer, changed the ground."""
        leaving = [member for member in self._line if member.gave_up or self._staging_failed(member)]
        if leaving or self._decided_at != self._log.foreign:
            await self._decide_anew(leaving)
        for member in self._line:
            if member.staging is not None and member.sweeps != self._log.sweeps:
                self._staging.begin(member)

    def _staging_failed(self, member: Member) -> bool:
        error = member.staging.exception() if member.staging is not None and member.ready else None
        if error is None:
            return False
        if not isinstance(error, BlobError):
            raise error
        self._space.refused = isinstance(error, BlobsFull)
        member.fail(_meaning(error))
        if isinstance(error, Stopped):
            raise _Fault(str(error))
        return True

    # Committing, one slot after the other.

    def _front(self) -> list[Member]:
        """The longest run at the front of the line that is ready, still wanted, and fits a slot.

        Nothing may be awaited between this and the offer: who gives up after it has to be told so.
        """
        front: list[Member] = []
        room = slots.ENTRIES
        for member in self._line:
            room -= member.entries
            if not member.ready or member.gave_up or room < 0:
                break
            front.append(member)
            if member.entries and self._fairness.one_at_a_time:
                break
        return front

    async def _commit(self, batch: Sequence[Member]) -> None:
        if self._decided_at != self._log.foreign:
            return
        entries, answers = compose(batch, self._log.view, time=max(self._now(), self._log.tip_time))
        landed = await self._commit_slot(batch, entries) if entries else await self._confirm(batch)
        if landed:
            for member, answer in zip(batch, answers, strict=True):
                self._line.popleft()
                if member.decision is not None:
                    self._tentative.became_durable(member.write.path, member.decision)
                if isinstance(answer, EngineError):
                    member.fail(answer)
                elif not member.answer.done():
                    member.answer.set_result(answer)

    async def _confirm(self, batch: Sequence[Member]) -> bool:
        """Whether answers that change nothing hold: nobody else wrote before them."""
        if not self._blobs.exclusive:
            try:
                await self._log.refresh()
            except StoreDamaged as error:
                raise _Fault(str(error)) from error
            except Unavailable as error:
                for member in batch:
                    member.fail(error)
                await self._decide_anew(batch)
                return False
        return self._decided_at == self._log.foreign

    async def _commit_slot(self, batch: Sequence[Member], entries: Sequence[Entry]) -> bool:
        """Whether the slot is the log's next one and taken into the view."""
        try:
            slot = self._log.next_slot(self._writer, entries)
        except StoreDamaged as error:
            raise _Fault(str(error)) from error
        data = slots.encode(slot)
        writing = [member for member in batch if member.entries]
        for member in writing:
            member.offered = True
        self._log.offer(data)
        try:
            ours = await self._offer(keys.slot(slot.first), data)
        except BlobError as error:
            # Certain: it is not in the log and never will be.
            for member in writing:
                member.offered = False
            if isinstance(error, (Throttled, BlobsUnavailable)):
                self._setbacks += 1
                await self._pause(retry.pause_before(self._setbacks))
                return False
            with_content = [member for member in writing if member.staging is not None]
            if isinstance(error, BlobsFull) and (with_content or await self._space.release()):
                # What brings no content may free space: it is offered without the others, or into the reserve.
                writing, self._space.refused = with_content, True
            for member in writing:
                member.fail(_meaning(error))
            if isinstance(error, Stopped):
                raise _Fault(str(error)) from error
            await self._decide_anew(writing)
            return False
        self._setbacks = 0
        if not ours:
            self.counts.lost += 1
            self._fairness.lost()
            for member in writing:
                member.offered = False
            await self._follow_winner()
            return False
        self._fairness.won(self._now())
        self.counts.slots += 1
        self.counts.entries += len(entries)
        contents = {
            member.staging.result(): member.decision.content
            for member in writing
            if member.staging is not None and member.decision is not None and member.decision.content is not None
        }
        try:
            self._log.landed(slot, data, {blob: parse_version(content.data) for blob, content in contents.items()})
        except StoreDamaged as error:
            raise _Fault(str(error)) from error
        for blob, content in contents.items():
            self._versions.keep(blob, content.data)
        self._space.refused = self._space.refused and not contents
        return True

    async def _offer(self, key: str, data: bytes) -> bool:
        """Create the slot; True if it is ours, False if another writer's bytes have the name.

        Raises a BlobError only when it is certain that the bytes are not there and will not appear, and _Fault when
        it can't be found out.
        """
        attempt, unsettled = 1, False
        while True:
            try:
                await self._blobs.create(key, data)
                return True
            except Exists:
                try:
                    ours = await self._log.holds(key, data)
                except StoreDamaged as error:
                    raise _Fault(str(error)) from error
                except Unavailable:
                    ours = None
                if ours is not None:
                    return ours
            except BlobError as error:
                unsettled = unsettled or error.ambiguous
                if not unsettled:
                    raise
                if isinstance(error, Stopped):
                    raise _Fault(str(error)) from error
                logger.warning("%s: not known whether it was created, asking again: %s", key, error)
            await self._pause(retry.pause_before(attempt))
            attempt += 1

    async def _follow_winner(self) -> None:
        try:
            await self._log.refresh()
        except StoreDamaged as error:
            raise _Fault(str(error)) from error
        except Unavailable as error:
            # The next offer is lost as well, and then it is read.
            logger.warning("the slot that came first can't be read yet: %s", error)

    async def _abandon(self) -> None:
        """Answer whoever is still in line; nothing of theirs is offered any more."""
        for member in self._line:
            member.fail(
                OutcomeUnknown(member.operation)
                if member.offered
                else Unavailable(self.fault or "the world is shutting down")
            )
        self._line.clear()
        await self._staging.close()


def _meaning(error: BlobError) -> EngineError:
    """What a definite failure of the store means to a writer."""
    if isinstance(error, BlobsFull):
        return StoreFull("store is full")
    return Unavailable(f"the store refused the write: {error}")
