"""What was witnessed of a World's history, and what new testimony says against it.

The record is kept outside the World's reach, in the operator's namespace, and is never removed. It holds the keys that
the World signs with, the newest note that was found to go on from all before it, and some of the older ones. Whoever
shortens, forks or exchanges a history has to contradict a note in here.
"""

from __future__ import annotations

import base64
import binascii
import dataclasses
import json
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from typing import Any

from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PublicKey

from demarkus_base.tlog.notes import Note, NoteError, opened
from demarkus_base.tlog.proofs import ProofError, verify_consistency
from demarkus_operator.api.conditions import Condition, ConditionType, Reason
from demarkus_operator.plan.objects import Manifest, Ref
from demarkus_operator.plan.refusal import Refusal

FIELD = "witness.json"

MOST_DOUBTS = 20
MOST_OLDER = 200
"""Older notes that are kept; with the thinning below that is some ten years."""
HOURLY, DAILY = timedelta(days=2), timedelta(days=90)
"""Up to this age one older note an hour is kept, one a day, and beyond one a month."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Witnessed:
    """A signed note, and when it was collected."""

    time: datetime
    note: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Doubt:
    """A note that contradicts the record: since when, in what, and what was signed."""

    time: datetime
    reason: Reason
    message: str
    note: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Record:
    """Everything that is known of a history.

    Attributes:
        history: its identifier.
        keys: the public keys that sign it (Ed25519, base64), oldest first.
        newest: the note that everything is measured by; None before the first, and after a loss was accepted.
        older: earlier notes, newest first.
        given_up: the newest notes of lives whose loss was accepted.
        doubt: the contradiction that stands.
        doubts: those that passed, newest first.
        accepted: the annotation that accepts a loss was acted on; it counts again once it was taken away.
    """

    history: str
    keys: tuple[str, ...]
    newest: Witnessed | None = None
    older: tuple[Witnessed, ...] = ()
    given_up: tuple[Witnessed, ...] = ()
    doubt: Doubt | None = None
    doubts: tuple[Doubt, ...] = ()
    accepted: bool = False

    @property
    def size(self) -> int:
        """How many entries are known to have been there."""
        return 0 if self.newest is None else self.opened(self.newest.note).size

    def opened(self, note: str) -> Note:
        """What a note says, if one of the keys signed it. Raises NoteError."""
        failure = NoteError("there is no key")
        for key in reversed(self.keys):
            try:
                return opened(note, {self.history: Ed25519PublicKey.from_public_bytes(base64.b64decode(key))})
            except NoteError as error:
                failure = error
        raise failure

    @property
    def incarnations(self) -> frozenset[str]:
        """The lives of the history that were witnessed."""
        notes = [*filter(None, (self.newest,)), *self.older, *self.given_up]
        return frozenset(self.opened(one.note).origin.partition("/")[2] for one in notes)


@dataclass(frozen=True, slots=True, kw_only=True)
class Testimony:
    """What a World said when it was asked for a note, and for the proof that it goes on from `first` entries.

    `problem` is why there is no note; `silent` says that there has been none for a long time.
    """

    time: datetime
    note: str | None = None
    first: int = 0
    proof: tuple[bytes, ...] = ()
    problem: str = ""
    silent: bool = False


def judged(record: Record, testimony: Testimony | None) -> tuple[Record, Condition | None]:
    """The record after a testimony, and `HistoryVerified`; None to leave that as it is."""
    if testimony is not None and testimony.note is not None:
        record = _heard(record, testimony, testimony.note)
    if record.doubt is not None:
        return record, _condition(False, record.doubt.reason, record.doubt.message)
    if testimony is None:
        return record, None
    if testimony.note is None:
        known = record.newest is not None and not testimony.silent
        return record, None if known else _condition(None, Reason.NOT_WITNESSED, testimony.problem)
    passed = next(iter(record.doubts), None)
    message = "" if passed is None else f"it did not hold at {_text(passed.time)} ({passed.reason}); see the record"
    return record, _condition(True, Reason.CONSISTENT, message)


def given_up(record: Record) -> Record:
    """The record after the loss of what it knows was accepted: the next note begins anew."""
    lost = () if record.newest is None else (record.newest,)
    return dataclasses.replace(_undoubted(record), newest=None, given_up=(*record.given_up, *lost), accepted=True)


def taken_back(record: Record) -> Record:
    """The record after the annotation that accepted a loss was taken away."""
    return dataclasses.replace(record, accepted=False)


def _heard(record: Record, testimony: Testimony, text: str) -> Record:
    try:
        note = record.opened(text)
    except NoteError as error:
        return _doubted(record, testimony, Reason.NOTE_INVALID, f"what the World signed is not valid: {error}")
    history, _, incarnation = note.origin.partition("/")
    if history != record.history:
        return _doubted(record, testimony, Reason.NOTE_INVALID, f"the World signed for the history {history}")
    seen = Witnessed(time=testimony.time, note=text)
    newest = record.newest
    if newest is None:
        return dataclasses.replace(_undoubted(record), newest=seen)
    known = record.opened(newest.note)
    if note.origin != known.origin:
        life = known.origin.partition("/")[2]
        message = (
            f"the World serves the life {incarnation} of its history; witnessed are {known.size} entries of {life}"
        )
        return _doubted(record, testimony, Reason.HISTORY_REPLACED, message)
    if note.size < known.size:
        message = f"the history ends at entry {note.size}, and {known.size} were witnessed"
        return _doubted(record, testimony, Reason.HISTORY_SHORTENED, message)
    if note.size > known.size and testimony.first != known.size:
        return record  # it was asked before the record was what it is; the next answer fits
    try:
        verify_consistency(
            first=known.size,
            first_root=known.root,
            second=note.size,
            second_root=note.root,
            proof=testimony.proof if note.size > known.size else (),
        )
    except ProofError as error:
        message = f"the history of {note.size} entries does not go on from the {known.size} witnessed ones: {error}"
        return _doubted(record, testimony, Reason.HISTORY_FORKED, message)
    record = _undoubted(record)
    if note.size == known.size:
        return record
    older = _thinned((newest, *record.older), now=testimony.time)
    return dataclasses.replace(record, newest=seen, older=older)


def _doubted(record: Record, testimony: Testimony, reason: Reason, message: str) -> Record:
    """The record with a doubt. One of the same kind stays what it is: its first note is the evidence."""
    if record.doubt is not None and record.doubt.reason == reason:
        return record
    doubt = Doubt(time=testimony.time, reason=reason, message=message, note=testimony.note or "")
    return dataclasses.replace(_undoubted(record), doubt=doubt)


def _undoubted(record: Record) -> Record:
    if record.doubt is None:
        return record
    return dataclasses.replace(record, doubt=None, doubts=(record.doubt, *record.doubts)[:MOST_DOUBTS])


def _thinned(notes: Sequence[Witnessed], *, now: datetime) -> tuple[Witnessed, ...]:
    """The newest note of every hour, day or month, newest first."""
    kept: dict[str, Witnessed] = {}
    for one in notes:
        age = now - one.time
        span = "%Y-%m-%dT%H" if age < HOURLY else "%Y-%m-%d" if age < DAILY else "%Y-%m"
        kept.setdefault(one.time.strftime(span), one)
    return tuple(kept.values())[:MOST_OLDER]


def _condition(status: bool | None, reason: Reason, message: str) -> Condition:
    return Condition(type=ConditionType.HISTORY_VERIFIED, status=status, reason=reason, message=message)


def record_of(seen: Manifest | None, *, history: str, key: Ed25519PublicKey) -> Record:
    """The record that an object holds, or a new one that knows the World's key. Raises Refusal if it can't be read."""
    if seen is None:
        return Record(history=history, keys=(base64.b64encode(key.public_bytes_raw()).decode(),))
    return read(seen, history=history)


def read(seen: Manifest, *, history: str) -> Record:
    """The record that an object holds. Raises Refusal if it can't be read."""
    try:
        content = json.loads((seen.get("data") or {})[FIELD])
        record = Record(
            history=str(content["history"]),
            keys=tuple(map(str, content["keys"])),
            newest=_witnessed(content["newest"]) if "newest" in content else None,
            older=tuple(map(_witnessed, content.get("older", ()))),
            given_up=tuple(map(_witnessed, content.get("givenUp", ()))),
            doubt=_doubt(content["doubt"]) if "doubt" in content else None,
            doubts=tuple(map(_doubt, content.get("doubts", ()))),
            accepted=bool(content.get("accepted", False)),
        )
        if record.history != history:
            raise ValueError(f"it is about history {record.history}")
        if record.newest is not None:
            record.opened(record.newest.note)
    except (KeyError, ValueError, TypeError, AttributeError, binascii.Error, NoteError) as error:
        raise Refusal(
            Reason.MATERIAL_INVALID,
            f"{Ref.of(seen)} can't be read in its field {FIELD} ({type(error).__name__}); restore it: it says what "
            "was witnessed of the history",
        ) from None
    return record


def data_of(record: Record) -> dict[str, str]:
    """The content of the object that holds a record. People read it, so it is indented."""
    content: dict[str, Any] = {"history": record.history, "keys": list(record.keys)}
    if record.newest is not None:
        content["newest"] = _plain(record.newest)
    if record.doubt is not None:
        content["doubt"] = _plain(record.doubt)
    for name, entries in (("older", record.older), ("givenUp", record.given_up), ("doubts", record.doubts)):
        if entries:
            content[name] = _plains(entries)
    if record.accepted:
        content["accepted"] = True
    return {FIELD: json.dumps(content, indent=1, sort_keys=True) + "\n"}


def _plains(entries: Iterable[Witnessed | Doubt]) -> list[dict[str, str]]:
    return [_plain(entry) for entry in entries]


def _plain(entry: Witnessed | Doubt) -> dict[str, str]:
    return {**dataclasses.asdict(entry), "time": _text(entry.time)}


def _witnessed(entry: Mapping[str, str]) -> Witnessed:
    return Witnessed(time=_time(entry["time"]), note=entry["note"])


def _doubt(entry: Mapping[str, str]) -> Doubt:
    return Doubt(
        time=_time(entry["time"]), reason=Reason(entry["reason"]), message=entry["message"], note=entry["note"]
    )


def _text(moment: datetime) -> str:
    return moment.astimezone(UTC).strftime("%Y-%m-%dT%H:%M:%SZ")


def _time(text: str) -> datetime:
    return datetime.strptime(text, "%Y-%m-%dT%H:%M:%SZ").replace(tzinfo=UTC)
