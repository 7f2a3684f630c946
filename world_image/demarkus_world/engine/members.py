"""Members of the line that waits for the log: a write, its decision, its staged bytes, the answer somebody awaits."""

import asyncio
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace

from demarkus_world.engine.decisions import Content, Decision
from demarkus_world.engine.entries import CONTENT, Entry, Op
from demarkus_world.engine.model import Adopt, Change, Settle, Sweep, View, Write, Written
from demarkus_world.engine.refusals import EngineError, Unavailable


@dataclass(eq=False, slots=True)
class Member:
    """A write in line.

    `staged` is the hash of the bytes that `staging` creates; it returns their key. `sweeps` is the number of sweeps
    that were known when that began: what was staged before a sweep is lost to it.
    """

    write: Change
    operation: str
    answer: asyncio.Future[Written]
    decision: Decision | None = None
    refusal: EngineError | None = None
    staged: str | None = None
    staging: asyncio.Task[str] | None = None
    sweeps: int = 0
    offered: bool = False

    @property
    def entries(self) -> int:
        """How many entries of a slot it takes."""
        if self.decision is None:
            return 0
        also = int(self.decision.also is not None)
        if not self.decision.changes:
            return also
        return also + (2 if self.decision.content is not None and (self.decision.pruned or self.archives) else 1)

    @property
    def archives(self) -> bool:
        """Whether the version it makes is archived at once."""
        decision = self.decision
        return (
            decision is not None and decision.content is not None and bool(decision.after and decision.after.archived)
        )

    @property
    def gave_up(self) -> bool:
        """Whether nobody waits any more and nothing of it is on its way into the log."""
        return self.answer.cancelled() and not self.offered

    @property
    def ready(self) -> bool:
        """Whether its bytes, if it has any, are in the store."""
        return self.staging is None or (self.staging.done() and not self.staging.cancelled())

    def fail(self, error: EngineError) -> None:
        """Answer with an error, if somebody still waits."""
        if not self.answer.done():
            self.answer.set_exception(error)


def compose(batch: Sequence[Member], view: View, *, time: int) -> tuple[list[Entry], list[Written | EngineError]]:
    """The entries of the next slot after `view`, and what each member is told once they are in the log."""
    entries: list[Entry] = []
    answers: list[Written | EngineError] = []
    # When the newest version was modified, of paths of which this very slot makes one.
    made: dict[str, int] = {}
    for member in batch:
        path, decision = member.write.path, member.decision
        if decision is None:
            answers.append(member.refusal or Unavailable("not decided"))
            continue
        head = view.head(path)
        modified = made.get(path, head.record.modified if head else 0)
        if decision.content is not None:
            # Of a document the times never go back; what comes from elsewhere was not modified later than now.
            modified = min(max(_time_of(decision.content, time), modified), time)
            made[path] = modified
        for draft in (*_settled(member, decision), *_drafts(member, decision)):
            adopted = modified if draft.op in CONTENT and isinstance(member.write, Adopt) else None
            entries.append(replace(draft, seq=view.sequence + len(entries) + 1, time=time, modified=adopted))
        pruned = (decision.pruned.first, decision.pruned.last) if decision.pruned else None
        sequence = view.sequence + len(entries) if member.entries else None
        answers.append(
            Written(decision.outcome, decision.version, modified, pruned, sequence, warnings=decision.warnings)
        )
    return entries, answers


def _time_of(content: Content, now: int) -> int:
    return now if content.modified is None else content.modified


def _settled(member: Member, decision: Decision) -> Iterator[Entry]:
    """The decision on a proposal, which stands before the write that it lets through."""
    write = member.write
    settle = write if isinstance(write, Settle) else write.accepts if isinstance(write, Write) else None
    settled = decision.also[1] if decision.also else decision
    if settle is not None and settled.changes:
        yield Entry(
            seq=0,
            time=0,
            op=Op.DECIDE,
            path=settle.path,
            version=settled.version,
            operation=member.operation,
            by=settle.by,
            credential=settle.credential,
            verdict=settle.verdict,
        )


def _drafts(member: Member, decision: Decision) -> Iterator[Entry]:
    """A member's entries, still without sequence and time."""
    if not decision.changes or isinstance(member.write, Settle):
        return
    content, pruned, write = decision.content, decision.pruned, member.write
    draft = Entry(
        seq=0,
        time=0,
        op=Op.ARCHIVE if content is None and isinstance(write, Adopt) else Op(write.op),
        path=write.path,
        version=decision.version,
        operation=member.operation,
        by=write.by,
        credential=write.credential,
    )
    if isinstance(write, Sweep):
        yield replace(draft, blobs=write.blobs, due=write.due)
    elif content is not None and member.staging is not None:
        yield replace(
            draft,
            stored=content.stored,
            body=content.body,
            size=len(content.data),
            blob=member.staging.result(),
            predecessor=content.predecessor,
        )
        if member.archives:
            yield replace(draft, op=Op.ARCHIVE)
    elif pruned is None:
        yield draft
    if pruned is not None:
        yield replace(
            draft,
            op=Op.PRUNE,
            first=pruned.first,
            version=pruned.last,
            stored=pruned.stored,
            erase=pruned.erase,
        )
