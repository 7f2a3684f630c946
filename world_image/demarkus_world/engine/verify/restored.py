"""Whether marker, plan and log of a restored store tell the same, and what its log can say of the notes of its parents.

A store that was never restored has neither. Where part of the log is missing its restore entries may be, too.
"""

import hashlib
from collections.abc import Iterator

from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PublicKey

from demarkus_world.engine import keys, notes
from demarkus_world.engine.lineage import End
from demarkus_world.engine.model import Identity
from demarkus_world.engine.notes import Note, NoteError
from demarkus_world.engine.verify.findings import Fault, Finding
from demarkus_world.engine.verify.replay import Replay


def judged(found: Identity, plan: bytes | None, replay: Replay, *, key: Ed25519PublicKey | None) -> Iterator[Finding]:
    """What is wrong with the way in which the store says that it was restored; `plan` is its restore.json."""
    yield from _forged(found, replay, key)
    newest = replay.lineage.newest
    if newest is None:
        if found.parent is not None and not replay.ledger.entries_missing:
            text = (
                f"the marker says that the store was restored from incarnation {found.parent}, the log does not: the "
                "restore was never finished, or the entry that ended it was dropped with all behind it"
            )
            yield Finding(fault=Fault.RESTORE_UNFINISHED, object=keys.WORLD, text=text, field="parent")
        return
    if newest.parent != found.parent:
        said = f"from incarnation {found.parent}" if found.parent else "from none"
        text = (
            f"the marker says that the store was restored {said}, entry {newest.seq} says from {newest.parent}: "
            "one of them was altered, or the entry was slipped in"
        )
        yield Finding(fault=Fault.MARKER, object=keys.WORLD, text=text, entry=newest.seq, field="parent")
    elif plan is None:
        text = f"{keys.RESTORE} is missing: it is created with a restore and never removed, and the world needs it"
        yield Finding(fault=Fault.MARKER, object=keys.RESTORE, text=text, entry=newest.seq)
    elif replay.ended is not None and hashlib.sha256(plan).hexdigest() != replay.ended.hash:
        text = f"{keys.RESTORE} and entry {newest.seq} are not the same: one of them was altered after it was written"
        yield Finding(fault=Fault.MARKER, object=keys.RESTORE, text=text, entry=newest.seq)


def _forged(found: Identity, replay: Replay, key: Ed25519PublicKey | None) -> Iterator[Finding]:
    """The witnessed notes in restore entries that the world did not sign."""
    for entry in replay.lineage.restores:
        if entry.note is None or key is None:
            continue
        try:
            notes.claimed(entry.note)
        except NoteError:
            continue  # told of with the entry
        try:
            notes.opened(entry.note, found.history, key)
        except NoteError as error:
            text = f"this world did not sign the note in entry {entry.seq}, which it was restored with: {error}"
            slot = keys.slot(entry.seq)
            yield Finding(fault=Fault.NOTE_FORGED, object=slot, text=text, entry=entry.seq, field="note")


def end_of(note: Note, found: Identity | None, replay: Replay) -> End | None:
    """How far the log has what the note is about; None for a note about something that the log does not go back to."""
    history, _, incarnation = note.origin.partition("/")
    everything = End(replay.sequence, replay.sequence)
    if found is None or note.origin == notes.origin(found):
        return everything
    if history != found.history:
        return None
    end = replay.lineage.end(incarnation)
    # A restore entry that is gone has been told of; what it would say is not known.
    return everything if end is None and incarnation == found.parent else end
