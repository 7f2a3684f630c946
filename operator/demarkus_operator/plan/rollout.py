"""How a new version reaches a Universe's Worlds and its gateway: through one slot, one after the other.

First come the Worlds named as canaries, then the gateway, then the others. The next one follows when everybody who got
the version serves with it, the last for the configured delay. When one of them does not, for whatever reason, nobody
else gets it until that one does or another version is asked for. Whoever was not well before gets it last, and is not
waited for; whoever a version has broken gets the next one at once, and before everybody else.

The state is who is behind, and who has moved; it stands in the Universe's record, from which a World takes its version.
"""

from __future__ import annotations

import dataclasses
import json
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from typing import Any

from demarkus_operator.api.conditions import ConditionType, Reason
from demarkus_operator.plan.objects import Manifest, Ref
from demarkus_operator.plan.refusal import Refusal

FIELD = "rollout.json"

GATEWAY = "/gateway"
"""The gateway among the names of Worlds, which have no slash."""
DEADLINE = timedelta(minutes=10)
"""How long somebody may take to serve with the new version until that is told as a halt."""
DELAY = timedelta(seconds=30)
"""How long somebody serves before the next one follows, where the Universe says nothing else."""
LOOK = 5.0
"""Seconds after which to look again while somebody is waited for."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Moved:
    """Somebody who got the version: when, and whether it was well then."""

    name: str
    since: datetime
    well: bool


@dataclass(frozen=True, slots=True, kw_only=True)
class Rollout:
    """A version on its way.

    Attributes:
        target: the version.
        behind: which version the others still have, by name.
        moved: who got it, in this order.
        digests: the digests of the images of earlier versions, by version: who stays behind stays pinned to them.
    """

    target: str
    behind: Mapping[str, str] = field(default_factory=dict)
    moved: tuple[Moved, ...] = ()
    digests: Mapping[str, Mapping[str, str]] = field(default_factory=dict)

    def version(self, name: str) -> str:
        """The version that holds for a World or the gateway."""
        return self.behind.get(name, self.target)

    @property
    def done(self) -> bool:
        """Whether nobody is behind or waited for."""
        return not self.behind and not self.moved


@dataclass(frozen=True, slots=True, kw_only=True)
class Member:
    """A World, or the gateway, as it is.

    Attributes:
        name: its name.
        version: what it runs or is about to.
        well_since: since when it serves with that; None while it does not.
        paused: it gets no version now.
        suspended: it runs nothing, so nobody waits for it.
    """

    name: str
    version: str | None
    well_since: datetime | None
    paused: bool = False
    suspended: bool = False

    @classmethod
    def of(cls, world: Manifest, *, paused: bool) -> Member:
        """A World, by its status."""
        status = world.get("status") or {}
        told = {entry["type"]: entry for entry in status.get("conditions", ())}
        ready, progressing = told.get(ConditionType.READY, {}), told.get(ConditionType.PROGRESSING, {})
        well = (
            ready.get("status") == "True"
            and progressing.get("status") != "True"
            and status.get("observedGeneration") == world["metadata"].get("generation", 0)
        )
        times = [entry["lastTransitionTime"] for entry in (ready, progressing) if "lastTransitionTime" in entry]
        return cls(
            name=world["metadata"]["name"],
            version=status.get("version"),
            well_since=max(map(_time, times)) if well and times else None,
            paused=paused,
            suspended=bool((world.get("spec") or {}).get("suspend")),
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class Policy:
    """What the Universe says of rollouts."""

    canary: Sequence[str] = ()
    delay: timedelta = DELAY
    paused: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class Progress:
    """Where a rollout stands: how many of how many have the version, why it is so, and when to look again."""

    version: str
    updated: int
    total: int
    reason: Reason
    message: str
    requeue: float | None

    @property
    def halted(self) -> bool:
        """Whether it does not go on by itself."""
        return self.reason is Reason.ROLLOUT_HALTED

    @property
    def words(self) -> str:
        """All of it in a sentence."""
        return f"{self.updated} of {self.total} have version {self.version}: {self.message}"

    @property
    def status(self) -> dict[str, Any]:
        """As it stands in the Universe's status."""
        return {
            "version": self.version,
            "updated": self.updated,
            "total": self.total,
            "reason": str(self.reason),
            "message": self.message,
        }


def aimed(
    rollout: Rollout | None,
    target: str,
    members: Sequence[Member],
    now: datetime,
    *,
    digests: Mapping[str, str] | None = None,
) -> Rollout:
    """The rollout of a version, on top of the one before; None for a new Universe. `digests` are those of the version
    that was in force.

    Whom the version before has broken gets this one at once, and is the first to be waited for.
    """
    if rollout is None:
        return Rollout(target=target)
    if rollout.target == target:
        return rollout
    moved = {moved.name for moved in rollout.moved if moved.well}
    broken = [member.name for member in members if member.name in moved and member.well_since is None]
    behind = {
        member.name: rollout.version(member.name)
        for member in members
        if member.version is not None and rollout.version(member.name) != target and member.name not in broken
    }
    known = {**rollout.digests, **({rollout.target: digests} if digests else {})}
    return Rollout(
        target=target,
        behind=behind,
        moved=tuple(Moved(name=name, since=now, well=True) for name in broken),
        digests={version: found for version, found in known.items() if version in behind.values()},
    )


def advanced(
    rollout: Rollout, members: Sequence[Member], policy: Policy, now: datetime
) -> tuple[Rollout, Progress | None]:
    """The rollout after the next step, if there is one to be made; None once it is done."""
    there = {member.name: member for member in members}
    rollout = dataclasses.replace(
        rollout,
        behind={name: version for name, version in rollout.behind.items() if name in there},
        moved=tuple(moved for moved in rollout.moved if moved.name in there),
    )
    tell = _Teller(rollout=rollout, total=len(there))
    obstacle = next(_obstacles(rollout, there, policy, now, tell), None)
    if obstacle is not None:
        return rollout, obstacle
    if not rollout.behind:
        return Rollout(target=rollout.target), None
    if policy.paused:
        return rollout, tell(Reason.ROLLOUT_PAUSED, "spec.rollout.paused is set", None)
    following = next(_following(rollout, there, policy), None)
    if following is None:
        names = ", ".join(map(_called, sorted(rollout.behind)))
        return rollout, tell(Reason.ROLLOUT_PAUSED, f"changes of the rest are not carried out: {names}", None)
    behind = {name: version for name, version in rollout.behind.items() if name != following}
    step = Moved(name=following, since=now, well=there[following].well_since is not None)
    rollout = dataclasses.replace(rollout, behind=behind, moved=(*rollout.moved, step))
    return rollout, _Teller(rollout=rollout, total=len(there))(
        Reason.ROLLING_OUT, f"{_called(following)} gets it", LOOK
    )


def _obstacles(
    rollout: Rollout, there: Mapping[str, Member], policy: Policy, now: datetime, tell: _Teller
) -> Iterator[Progress]:
    """What the next step waits for; what needs somebody comes first."""
    waits: list[Progress] = []
    for moved in rollout.moved:
        member = there[moved.name]
        if not moved.well or member.suspended:
            continue
        if member.version != rollout.target or member.well_since is None:
            if now - moved.since >= DEADLINE:
                message = f"{_called(moved.name)} does not serve with it; nobody else gets it until it does"
                yield tell(Reason.ROLLOUT_HALTED, message, LOOK)
            waits.append(tell(Reason.ROLLING_OUT, f"{_called(moved.name)} gets it", LOOK))
            continue
        left = max(member.well_since, moved.since) + policy.delay - now
        if left > timedelta() and rollout.behind:
            waits.append(tell(Reason.ROLLING_OUT, f"{_called(moved.name)} got it", left.total_seconds()))
    yield from waits


def _following(rollout: Rollout, there: Mapping[str, Member], policy: Policy) -> Iterator[str]:
    """Who is behind, in the order in which they get the version."""
    rest = sorted(rollout.behind, key=lambda name: (there[name].well_since is None, name))
    for name in dict.fromkeys([*policy.canary, GATEWAY, *rest]):
        if name in rollout.behind and not there[name].paused:
            yield name


@dataclass(frozen=True, slots=True, kw_only=True)
class _Teller:
    """Tells of a rollout."""

    rollout: Rollout
    total: int

    def __call__(self, reason: Reason, message: str, requeue: float | None) -> Progress:
        updated = self.total - len(self.rollout.behind)
        return Progress(
            version=self.rollout.target,
            updated=updated,
            total=self.total,
            reason=reason,
            message=message,
            requeue=requeue,
        )


def rollout_of(record: Manifest | None, version: str | None) -> Rollout | None:
    """The rollout in a Universe's record, in which `version` is in force; None before the first. Raises Refusal."""
    if record is None or version is None:
        return None
    text = (record.get("data") or {}).get(FIELD)
    if text is None:
        return Rollout(target=version)
    try:
        content = json.loads(text)
        return Rollout(
            target=version,
            behind={str(name): str(before) for name, before in content["behind"].items()},
            moved=tuple(
                Moved(name=str(one["name"]), since=_time(one["since"]), well=bool(one["well"]))
                for one in content["moved"]
            ),
            digests={str(version): dict(found) for version, found in content.get("digests", {}).items()},
        )
    except (KeyError, ValueError, TypeError, AttributeError):
        raise Refusal(
            Reason.MATERIAL_INVALID,
            f"{Ref.of(record)} can't be read in its field {FIELD}; remove that field, and everybody gets version "
            f"{version} at once",
        ) from None


def data_of(rollout: Rollout) -> dict[str, str]:
    """What the record says of a rollout; nothing of one that is done."""
    if rollout.done:
        return {}
    moved = [{"name": one.name, "since": _text(one.since), "well": one.well} for one in rollout.moved]
    content: dict[str, Any] = {"behind": dict(rollout.behind), "moved": moved}
    if rollout.digests:
        content["digests"] = {version: dict(found) for version, found in rollout.digests.items()}
    return {FIELD: json.dumps(content, sort_keys=True, separators=(",", ":"))}


def _text(moment: datetime) -> str:
    return moment.astimezone(UTC).strftime("%Y-%m-%dT%H:%M:%SZ")


def _time(text: str) -> datetime:
    return datetime.strptime(text, "%Y-%m-%dT%H:%M:%SZ").replace(tzinfo=UTC)


def _called(name: str) -> str:
    return "the gateway" if name == GATEWAY else f"World {name}"
