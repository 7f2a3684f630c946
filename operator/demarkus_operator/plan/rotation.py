"""Exchanging a credential without a moment in which a good one is refused: keys, authorities, tokens alike.

    steady --(old enough)--> the next one is added --(all who check know it)--> it is used, the old one is kept
    --(nobody uses the old one any more)--> noted --(whatever it made has ended)--> the old one is dropped: steady

Every arrow is one guarded change of one Secret, and what it needs is asked of the processes again each time, so it does
not matter when anybody stops or starts. The rule it keeps: whatever anybody signs or shows is accepted by everybody who
checks, as far as they serve and have said what they know. It holds because a process only ever goes on to newer files.

A revoked credential is the exception: it is replaced and dropped at once, and whoever has not followed yet is refused
for as long as that takes.
"""

from __future__ import annotations

import dataclasses
import json
from collections.abc import Container, Iterable, Mapping
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from enum import StrEnum
from typing import Any

from demarkus_operator.api.conditions import Condition, ConditionType, Reason
from demarkus_operator.plan import labels
from demarkus_operator.plan.objects import Change, Manifest, Ref


class Turn(StrEnum):
    """What is to be done with a ring.

    WAIT nothing; ADD a new credential; USE the next one and keep the old; REPLACE the active one by the next and drop
    it at once; NOTE that nobody uses the old one any more; DROP one.
    """

    WAIT = "wait"
    ADD = "add"
    USE = "use"
    REPLACE = "replace"
    NOTE = "note"
    DROP = "drop"


@dataclass(frozen=True, slots=True, kw_only=True)
class Old:
    """A credential that was used before; `unused_since` is when everybody had gone on to the new one."""

    name: str
    unused_since: datetime | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Ring:
    """The credentials of one kind that are accepted; `active` is the one that is used, since `since`.

    `coming` are accepted already and not used yet, `old` are accepted still. Times are in UTC.
    """

    active: str
    since: datetime
    coming: tuple[str, ...] = ()
    old: tuple[Old, ...] = ()

    def using(self, name: str, now: datetime) -> Ring:
        """With a coming one in use, and the one before it kept."""
        return dataclasses.replace(self.replaced_by(name, now), old=(*self.old, Old(name=self.active)))

    def replaced_by(self, name: str, now: datetime) -> Ring:
        """With a coming one in use, and without the one before it."""
        coming = tuple(one for one in self.coming if one != name)
        return dataclasses.replace(self, active=name, since=now, coming=coming)

    def noted(self, now: datetime) -> Ring:
        """With the old ones known to be used by nobody from now on."""
        old = tuple(one if one.unused_since else Old(name=one.name, unused_since=now) for one in self.old)
        return dataclasses.replace(self, old=old)

    def without(self, name: str) -> Ring:
        """Without one that is not active."""
        return dataclasses.replace(
            self,
            coming=tuple(one for one in self.coming if one != name),
            old=tuple(one for one in self.old if one.name != name),
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class Pace:
    """How fast it goes.

    Attributes:
        every: the age at which a credential is exchanged; None if only on demand.
        linger: how long an old one is kept once nobody uses it: the longest life of what it made, and some more.
        idle: for how long it must not have been seen used, besides.
        longest: when it is dropped although it is still used; None for never.
    """

    every: timedelta | None
    linger: timedelta
    idle: timedelta = timedelta(0)
    longest: timedelta | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Seen:
    """What the processes say.

    Attributes:
        known: everybody who checks has loaded all that are accepted.
        settled: everybody who signs or shows has gone on to the active one.
        last_use: when an old one was last seen used; None if that can't be told.
    """

    known: bool
    settled: bool
    last_use: datetime | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Step:
    """What is next: the turn, whom it is about, and for WAIT until when, unless something is heard before."""

    turn: Turn
    name: str = ""
    until: datetime | None = None


def step(ring: Ring, pace: Pace, seen: Seen, *, now: datetime, revoked: Container[str] = ()) -> Step:
    """The next step. `now` is in UTC; `revoked` names what must not be accepted any longer."""
    for name in (*ring.coming, *(old.name for old in ring.old)):
        if name in revoked:
            return Step(turn=Turn.DROP, name=name)
    if ring.active in revoked:
        return Step(turn=Turn.REPLACE, name=ring.coming[0]) if ring.coming else Step(turn=Turn.ADD)
    if ring.coming:
        return Step(turn=Turn.USE, name=ring.coming[0]) if seen.known else Step(turn=Turn.WAIT)
    if ring.old:
        return _leave(ring.old[0], pace, seen, now)
    if pace.every is None:
        return Step(turn=Turn.WAIT)
    due = ring.since + pace.every
    return Step(turn=Turn.ADD) if now >= due else Step(turn=Turn.WAIT, until=due)


def _leave(old: Old, pace: Pace, seen: Seen, now: datetime) -> Step:
    if old.unused_since is None:
        return Step(turn=Turn.NOTE) if seen.settled else Step(turn=Turn.WAIT)
    end = old.unused_since + pace.linger
    if pace.idle:
        last = old.unused_since + pace.longest if pace.longest else None
        quiet = seen.last_use + pace.idle if seen.last_use is not None else last
        end = max(end, quiet or datetime.max.replace(tzinfo=UTC))
        end = min(end, last) if last else end
    if now < end:
        return Step(turn=Turn.WAIT, until=end)
    return Step(turn=Turn.DROP, name=old.name) if seen.settled else Step(turn=Turn.WAIT)


def after(ring: Ring, taken: Step, now: datetime) -> Ring:
    """The ring once a step was taken. One that was added shows in the Secret's data alone."""
    match taken.turn:
        case Turn.USE:
            return ring.using(taken.name, now)
        case Turn.REPLACE:
            return ring.replaced_by(taken.name, now)
        case Turn.NOTE:
            return ring.noted(now)
        case Turn.DROP:
            return ring.without(taken.name)
        case _:
            return ring


@dataclass(frozen=True, slots=True, kw_only=True)
class Turned:
    """What a rotation comes to at present: a change, or what it waits for (empty for nothing) and until when."""

    change: Change | None = None
    waits: str = ""
    until: datetime | None = None


def turned(what: str, ring: Ring, taken: Step, change: Change | None) -> Turned:
    """The outcome of a step: its change, if it has one. `what` is how people call the credential."""
    if change is not None:
        return Turned(change=change)
    waits = ""
    if taken.until is None and ring.coming:
        waits = f"the next {what} is used once everybody who checks has loaded it"
    elif taken.until is None and ring.old:
        waits = f"the old {what} goes once everybody has gone on to the new one"
    return Turned(waits=waits, until=taken.until)


NAMED = 5
"""Of those that are waited for, so many are named."""


def told(conditions: Iterable[Condition], waits: Iterable[str], late: Iterable[str]) -> tuple[Condition, ...]:
    """The conditions; `Progressing` tells what is waited for and whose turn it is, if it has nothing else to tell."""
    message = "; ".join(waits)
    names = list(late)
    if names:
        more = f" and {len(names) - NAMED} more" if len(names) > NAMED else ""
        message += f"; not yet: {', '.join(names[:NAMED])}{more}"

    def tells(condition: Condition) -> Condition:
        if not message or condition.type is not ConditionType.PROGRESSING or condition.status:
            return condition
        return dataclasses.replace(condition, status=True, reason=Reason.KEYS_ROTATING, message=message)

    return tuple(tells(condition) for condition in conditions)


def one_of_each(changes: Iterable[Change]) -> tuple[Change, ...]:
    """The changes, but of each object only the first: the guard of another would not hold after it."""
    found: dict[Ref, Change] = {}
    for change in changes:
        found.setdefault(change.ref, change)
    return tuple(found.values())


def soonest(*times: float | None) -> float | None:
    """The least number of seconds of those that are some."""
    return min((time for time in times if time is not None), default=None)


# Between two steps, a Secret keeps what can't be seen in its data in one annotation.


def ring_of(
    secret: Manifest, kind: str, *, active: str, names: Iterable[str], old: Container[str] = frozenset()
) -> Ring:
    """The ring of one kind in a Secret: `names` are the credentials that it holds, `active` is the one in use, `old`
    are those that can be seen to be old.

    Without a readable note, the Secret's age counts, and what is neither is taken for coming.
    """
    metadata = secret["metadata"]
    note = notes_of(secret).get(kind) or {}
    kept = note.get("old") or {}
    others = sorted(set(names) - {active})
    return Ring(
        active=active,
        since=_time(note.get("since")) or _time(metadata.get("creationTimestamp")) or datetime.min.replace(tzinfo=UTC),
        coming=tuple(name for name in others if name not in kept and name not in old),
        old=tuple(Old(name=name, unused_since=_time(kept.get(name))) for name in others if name in kept or name in old),
    )


def noting(secret: Manifest, kind: str, ring: Ring) -> dict[str, str]:
    """The annotation that makes `ring_of` give this ring, leaving other kinds as they are."""
    old = {one.name: _text(one.unused_since) if one.unused_since else "" for one in ring.old}
    notes = {**notes_of(secret), kind: {"since": _text(ring.since), **({"old": old} if old else {})}}
    return {labels.ROTATION: json.dumps(notes, sort_keys=True, separators=(",", ":"))}


def notes_of(secret: Manifest) -> Mapping[str, Any]:
    """What the annotation says of each kind; nothing if it can't be read."""
    try:
        found = json.loads((secret["metadata"].get("annotations") or {})[labels.ROTATION])
        return {
            kind: {"since": note["since"], "old": dict(note.get("old") or {})} for kind, note in dict(found).items()
        }
    except (KeyError, ValueError, TypeError, AttributeError):
        return {}


def _text(time: datetime) -> str:
    return time.astimezone(UTC).strftime("%Y-%m-%dT%H:%M:%SZ")


def _time(text: object) -> datetime | None:
    try:
        return datetime.strptime(text, "%Y-%m-%dT%H:%M:%SZ").replace(tzinfo=UTC) if isinstance(text, str) else None
    except ValueError:
        return None
