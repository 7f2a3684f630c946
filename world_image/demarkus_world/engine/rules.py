"""What the owner of a world lays down about its history and its size; every commit is held to it. Values only."""

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import UTC, datetime

from demarkus_world.policy import Policy
from mark_protocol.patterns import matches


@dataclass(frozen=True, slots=True, kw_only=True)
class Hold:
    """Nothing is pruned at the paths that match one of the patterns; `reason` is told to whoever tries."""

    paths: Sequence[str]
    reason: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Retention:
    """What may not be pruned: the newest `keep_versions`, versions of the last `keep_for` ms, and whatever is held."""

    keep_versions: int = 0
    keep_for: int = 0
    holds: Sequence[Hold] = ()

    def held(self, path: str) -> str | None:
        """Why nothing of the document may go, if it is on hold."""
        for hold in self.holds:
            if any(matches(pattern, path) for pattern in hold.paths):
                return f"{path} is on hold: {hold.reason}"
        return None

    def forbids(self, path: str, *, newest: int, last: int, modified: int, now: int) -> str | None:
        """Why versions up to `last`, written at `modified`, of a document whose newest is `newest` have to stay."""
        held = self.held(path)
        if held is not None:
            return held
        if newest - last < self.keep_versions:
            return f"the newest {self.keep_versions} versions of {path} have to be kept (retention.keepVersions)"
        if modified > now - self.keep_for and self.keep_for:
            until = datetime.fromtimestamp((modified + self.keep_for) / 1000, UTC)
            return f"version {last} of {path} has to be kept until {until:%Y-%m-%dT%H:%M:%SZ} (retention.keepFor)"
        return None


@dataclass(frozen=True, slots=True, kw_only=True)
class Quota:
    """How large a world may become: documents, archived ones included, and bytes of retained stored versions."""

    max_documents: int | None = None
    max_bytes: int | None = None

    def exceeded(self, *, documents: int, size: int, more_documents: int, more_bytes: int) -> str | None:
        """The limit, named as in world.yaml, that this growth would pass. What does not grow is never refused."""
        if self.max_documents is not None and more_documents > 0 and documents + more_documents > self.max_documents:
            return "maxDocuments"
        if self.max_bytes is not None and more_bytes > 0 and size + more_bytes > self.max_bytes:
            return "maxBytes"
        return None


@dataclass(frozen=True, slots=True, kw_only=True)
class Rules:
    """The rules in force. `policy` is the configured one; without it the policy document of the world counts."""

    retention: Retention = Retention()
    quota: Quota = Quota()
    policy: Policy | None = None
