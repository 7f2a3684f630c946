"""The verification of a whole store, from its blobs alone: marker, log, bundles, versions, checkpoints, notes.

It only reads, and may run beside the world that writes: what was pruned or came meanwhile is no finding.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PublicKey

from demarkus_base.blobs.port import BlobError, Blobs, Integrity, NotFound
from demarkus_world.engine import identity, keys, notes, retry
from demarkus_world.engine.entries import Entry
from demarkus_world.engine.model import Identity
from demarkus_world.engine.notes import Note, NoteError
from demarkus_world.engine.refusals import StoreDamaged, Unavailable
from demarkus_world.engine.verify.contents import Contents
from demarkus_world.engine.verify.findings import Fault, Finding, Findings
from demarkus_world.engine.verify.replay import Mark, Replay
from demarkus_world.engine.verify.restored import end_of, judged
from demarkus_world.engine.verify.snapshots import Snapshots

Told = Callable[[str, int], None]
"""Told of progress: what is being read, and how much of it was."""


class CannotVerify(Exception):
    """Something is missing that the verification needs; says what."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Expected:
    """What is known about the store from elsewhere.

    `key` is the world's, `witnessed` are texts of notes by the names of their files, `size` a number of entries that
    the log had at least.
    """

    history: str | None = None
    key: Ed25519PublicKey | None = None
    witnessed: Sequence[tuple[str, str]] = ()
    size: int = 0


@dataclass(frozen=True, slots=True, kw_only=True)
class Report:
    """What was read and what was wrong. `root` is hex, None where entries are missing."""

    history: str | None
    incarnation: str | None
    entries: int
    root: str | None
    documents: int
    versions: int
    stored_bytes: int
    notes: int
    checkpoints: int
    restores: Sequence[Entry]
    """The entries that say that the world was restored, oldest first."""
    unchecked: Sequence[str]
    """Documents whose versions were not compared, because an entry of theirs was impossible."""
    findings: Sequence[Finding]
    total: int

    @property
    def intact(self) -> bool:
        return self.total == 0

    def as_json(self) -> dict[str, Any]:
        """The report as JSON data."""
        return {
            "intact": self.intact,
            "history": self.history,
            "incarnation": self.incarnation,
            "entries": self.entries,
            "root": self.root,
            "documents": self.documents,
            "versions": self.versions,
            "bytes": self.stored_bytes,
            "notes": self.notes,
            "checkpoints": self.checkpoints,
            "restores": [
                {"entry": entry.seq, "time": entry.time, "parent": entry.parent, "lost": entry.lost}
                for entry in self.restores
            ],
            "unchecked": list(self.unchecked),
            "findings": [finding.as_json() for finding in self.findings],
            "total": self.total,
        }


async def verify(
    blobs: Blobs, expected: Expected, *, pause: retry.Pause, told: Told = lambda what, done: None
) -> Report:
    """Read everything and compare it. Raises Unavailable when the store can't be read, CannotVerify."""
    try:
        return await _Verification(blobs, expected, pause=pause, told=told).run()
    except BlobError as error:
        raise Unavailable(f"the store can't be read: {error}") from error


class _Verification:
    def __init__(self, blobs: Blobs, expected: Expected, *, pause: retry.Pause, told: Told) -> None:
        self._blobs = blobs
        self._expected = expected
        self._pause = pause
        self._told = told
        self._findings = Findings()

    async def run(self) -> Report:
        found = await self._marker()
        history = self._expected.history or (found.history if found else None)
        if history is None:
            raise CannotVerify("the store does not say whose it is: name the world's history")
        foreign = found is not None and found.history != history
        witnessed = [] if foreign else self._witnessed(history)
        snapshots = None
        if found is not None and self._expected.key is not None and not foreign:
            snapshots = Snapshots(self._blobs, found, self._expected.key, pause=self._pause)
        signed = await snapshots.signed() if snapshots is not None else []
        replay = Replay(
            self._blobs,
            self._findings,
            history=history,
            pause=self._pause,
            marks=[note.size for _, note in witnessed] + [snapshot.sequence for snapshot in signed],
            restored=found is not None and found.parent is not None,
            told=lambda entries: self._told("entries", entries),
        )
        contents = Contents(self._blobs, replay.ledger, pause=self._pause)
        unchecked: list[str] = []
        if not foreign:
            # Looked up before the log is read: what they know of has to be in it.
            sweeps = [key async for key in self._blobs.list(keys.SWEEPS)]
            plan = await self._plan()
            await replay.run()
            for finding in judged(found, plan, replay, key=self._expected.key) if found is not None else ():
                self._findings.add(finding)
            unchecked = sorted(replay.doubtful)
            self._check_sweeps(sweeps, replay)
            await self._check_contents(replay, contents)
            self._check_size(replay)
            for source, note in witnessed:
                self._check_note(source, note, found, replay)
            if snapshots is not None:
                await snapshots.check(signed, replay)
                for finding in snapshots.findings:
                    self._findings.add(finding)
        return Report(
            history=found.history if found else history,
            incarnation=found.incarnation if found else None,
            entries=replay.sequence,
            root=replay.edge.root.hex() if replay.edge is not None and not foreign else None,
            documents=replay.ledger.documents,
            versions=contents.versions,
            stored_bytes=contents.bytes,
            notes=len(witnessed),
            checkpoints=len(signed),
            restores=tuple(replay.lineage.restores),
            unchecked=unchecked,
            findings=tuple(self._findings),
            total=self._findings.total,
        )

    async def _marker(self) -> Identity | None:
        """Whose store it is, if the marker says so."""
        history = self._expected.history
        try:
            data = await retry.read(lambda: self._blobs.get(keys.WORLD), pause=self._pause)
            found = identity.decode(data)
        except NotFound:
            text = f"{keys.WORLD} is missing: it is created with a world and never removed"
            if await _empty(self._blobs):
                text = "the store is empty: there is no world in it"
            self._find(Fault.MARKER, keys.WORLD, text)
            return None
        except (Integrity, StoreDamaged) as error:
            self._find(Fault.MARKER, keys.WORLD, f"the marker was altered after it was written: {error}")
            return None
        if history is not None and found.history != history:
            text = f"this is the store of another world: its history is {found.history}, expected {history}"
            self._find(Fault.FOREIGN, keys.WORLD, text, field="history")
        return found

    async def _plan(self) -> bytes | None:
        """What is there as the plan of a restore."""
        try:
            return await retry.read(lambda: self._blobs.get(keys.RESTORE), pause=self._pause)
        except NotFound:
            return None
        except Integrity as error:
            return str(error).encode()  # not what the log has

    def _witnessed(self, history: str) -> list[tuple[str, Note]]:
        """The notes that the world signed."""
        notes_found: list[tuple[str, Note]] = []
        for source, text in self._expected.witnessed:
            if self._expected.key is None:
                raise CannotVerify("a note can only be checked with the world's key")
            try:
                note = notes.opened(text, history, self._expected.key)
            except NoteError as error:
                self._find(Fault.NOTE_FORGED, source, f"this world did not sign the note: {error}")
                continue
            notes_found.append((source, note))
        return notes_found

    async def _check_contents(self, replay: Replay, contents: Contents) -> None:
        paths = [path for path in replay.ledger.paths() if path not in replay.doubtful]
        findings = await contents.check(paths, lambda versions: self._told("versions", versions))
        if any(finding.fault is Fault.VERSION_MISSING for finding in findings):
            await replay.run()  # what was pruned while this ran may be gone
        for finding in findings:
            pruned = not replay.ledger.retains(finding.path or "", finding.version or 0)
            if not (pruned and finding.fault is Fault.VERSION_MISSING):
                self._findings.add(finding)
        self._findings.total += contents.more

    def _check_sweeps(self, found: Sequence[str], replay: Replay) -> None:
        for key in found:
            sequence = keys.sequence_of_sweep(key)
            if sequence is not None and sequence > replay.sequence:
                text = (
                    f"the log ends with entry {replay.sequence}, though {key} is there, which entry {sequence} "
                    "announced: the newest entries were dropped, or the store was put back to an earlier state"
                )
                self._find(Fault.LOG_SHORTER, key, text, entry=replay.sequence + 1)

    def _check_size(self, replay: Replay) -> None:
        if replay.sequence < self._expected.size:
            text = (
                f"the log ends with entry {replay.sequence}, though it is known to have had {self._expected.size}: "
                "the newest entries were dropped, or the store was put back to an earlier state"
            )
            self._find(Fault.LOG_SHORTER, keys.slot(replay.sequence + 1), text, entry=replay.sequence + 1)

    def _check_note(self, source: str, note: Note, found: Identity | None, replay: Replay) -> None:
        end = end_of(note, found, replay)
        if end is None:
            whose = notes.origin(found) if found else "another"
            text = f"the note is about {note.origin}, the store is {whose}"
            self._find(Fault.NOTE_FOREIGN, source, text, field="origin")
            return
        if end.size < note.size <= end.known:
            return  # what the restore did not bring over, and says so
        if end.size < note.size and end.size < replay.sequence:
            text = (
                f"the note knows of {note.size} entries of {note.origin}, of which {end.size} were restored; the "
                f"restore tells of {end.known - end.size} that were lost: the newest were lost unseen"
            )
            self._find(Fault.ROLLED_BACK, source, text, entry=end.size + 1, field="size")
            return
        if note.size > replay.sequence:
            text = (
                f"the log ends with entry {replay.sequence}, the note knows of {note.size}: the newest entries were "
                "dropped, or the store was put back to an earlier state"
            )
            self._find(Fault.ROLLED_BACK, source, text, entry=replay.sequence + 1, field="size")
            return
        mark = replay.at.get(note.size, Mark(None, None, None))
        if mark.root is None:
            text = f"the first {note.size} entries can't be compared with the note, because some are missing"
            self._find(Fault.FORKED, source, text, field="root")
        elif mark.root != note.root:
            text = (
                f"the first {note.size} entries are not those that the world signed: the history was rewritten "
                f"at or before entry {note.size}"
            )
            self._find(Fault.FORKED, source, text, entry=note.size, field="root")

    def _find(self, fault: Fault, name: str, text: str, *, entry: int | None = None, field: str | None = None) -> None:
        self._findings.add(Finding(fault=fault, object=name, text=text, entry=entry, field=field))


async def _empty(blobs: Blobs) -> bool:
    async for _ in blobs.list(""):
        return False
    return True
