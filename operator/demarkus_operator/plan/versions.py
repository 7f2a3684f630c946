"""Which version a Universe's Worlds and its gateway run, while a new one reaches them one after the other."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any

from demarkus_operator.api.conditions import Condition, ConditionType, Reason
from demarkus_operator.api.durations import duration
from demarkus_operator.api.universe import Rollout as RolloutSpec
from demarkus_operator.api.universe import UniverseSpec
from demarkus_operator.plan import images, pause, record, rollout
from demarkus_operator.plan.objects import Manifest
from demarkus_operator.plan.rollout import GATEWAY, Member, Policy, Progress, Rollout
from demarkus_operator.plan.routes import Member as Admitted
from demarkus_operator.plan.site import Site
from demarkus_operator.plan.workload import Finding, Workload

_LONG_AGO = datetime(2000, 1, 1, tzinfo=UTC)


@dataclass(frozen=True, slots=True, kw_only=True)
class Versions:
    """The versions in force: `rollout` says whose is which, `progress` what goes on."""

    rollout: Rollout
    progress: Progress | None
    site: Site
    record: Manifest | None

    @property
    def note(self) -> dict[str, str]:
        """The annotations of the record: the version that everybody is to get."""
        return images.note(self.rollout.target, self._digests(self.rollout.target))

    @property
    def gateway(self) -> str:
        """The image of the gateway."""
        version = self.rollout.version(GATEWAY)
        return images.image(self.site.images, images.BROKER, version, self._digests(version))

    @property
    def findings(self) -> tuple[Finding, ...]:
        """What of it needs somebody."""
        if self.progress is None or not self.progress.halted:
            return ()
        return ((Reason.ROLLOUT_HALTED, self.progress.words),)

    def told(self, conditions: Iterable[Condition]) -> tuple[Condition, ...]:
        """The conditions of a Universe, with what there is to say of a rollout."""
        if self.progress is None:
            return tuple(conditions)
        rolling = Condition(
            type=ConditionType.PROGRESSING, status=True, reason=self.progress.reason, message=self.progress.words
        )
        return tuple(rolling if one.type is ConditionType.PROGRESSING else one for one in conditions)

    def status(self) -> dict[str, Any]:
        """What of the status is about versions."""
        found: dict[str, Any] = {"version": self.rollout.target}
        return found if self.progress is None else {**found, "rollout": self.progress.status}

    def _digests(self, version: str) -> Mapping[str, str]:
        return self.rollout.digests.get(version) or images.digests(version, self.site, self.record)


def versions_of(
    universe: Manifest,
    spec: UniverseSpec,
    seen: Manifest | None,
    admitted: Sequence[Admitted],
    gateway: Manifest | None,
    gateway_replicas: int,
    site: Site,
    now: datetime,
) -> Versions:
    """The versions after the next step of a rollout, if there is one to be made.

    `seen` is the Universe's record, `gateway` the Deployment. While the Universe is paused, there is none.
    """
    before = record.version_of(seen)
    is_paused = pause.is_paused(universe)
    target = (before if is_paused else spec.version) or before or site.version
    known = rollout.rollout_of(seen, before)
    members = [Member.of(one.world, paused=pause.is_paused(one.world)) for one in admitted if _follows(one)]
    digests = {} if before is None else images.noted(before, seen)
    aimed = rollout.aimed(known, target, [*members, _as_it_was(gateway)], now, digests=digests)
    versions = Versions(rollout=aimed, progress=None, site=site, record=seen)
    override = None if spec.broker is None or spec.broker.template is None else spec.broker.template.image
    is_well = Workload.of(gateway, gateway_replicas).settled and _image(gateway) == (override or versions.gateway)
    door = Member(
        name=GATEWAY,
        version=aimed.version(GATEWAY),
        well_since=_LONG_AGO if is_well else None,
        suspended=gateway is None,
    )
    asked = spec.rollout or RolloutSpec()
    policy = Policy(
        canary=asked.canary or (),
        delay=rollout.DELAY if asked.delay is None else duration(asked.delay),
        paused=bool(asked.paused) or is_paused,
    )
    after, progress = rollout.advanced(aimed, [*members, door], policy, now)
    return Versions(rollout=after, progress=progress, site=site, record=seen)


def version_in(seen: Manifest | None, name: str, site: Site) -> tuple[str | None, Mapping[str, str]]:
    """The version that a Universe's record gives a World, and the digests of its images."""
    target = record.version_of(seen)
    known = rollout.rollout_of(seen, target)
    if known is None:
        return None, {}
    version = known.version(name)
    return version, known.digests.get(version) or images.digests(version, site, seen)


def _follows(member: Admitted) -> bool:
    """Whether a World takes its version from the Universe."""
    return member.spec is not None and member.spec.version is None


def _as_it_was(gateway: Manifest | None) -> Member:
    """The gateway at the begin of a rollout; one that is not there yet gets the version at once."""
    return Member(name=GATEWAY, version=None if gateway is None else "", well_since=_LONG_AGO)


def _image(workload: Manifest | None) -> str | None:
    if workload is None:
        return None
    image: str = workload["spec"]["template"]["spec"]["containers"][0]["image"]
    return image
