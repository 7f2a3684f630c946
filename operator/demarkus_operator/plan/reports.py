"""What running processes say of themselves, as values that a plan is made from.

A process is asked on its health port (`/readyz?verbose`). One that can't be reached says nothing, and whoever waits for
it waits on.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field


@dataclass(frozen=True, slots=True, kw_only=True)
class Report:
    """What one process says.

    Attributes:
        pod: the name of its pod.
        reached: whether it answered at all; if not, it said nothing of what is below.
        ready: whether it serves; of one that did not answer, whether the cluster takes it for serving.
        history: the identifier of the history that it serves; of worlds only.
        incarnation: the identifier of that history's life; of worlds only.
        loaded: SHA-256 of the content in force, by what it is (`config`, `tls`, `keySet`, ...).
        used: when it last saw a capability token used, in milliseconds since 1970, by the token's label.
        problems: why it does not serve, in its own words.
        store_reached: whether it reaches its store; None if it does not say; of worlds only.
        store_problem: why it does not.
        store_full: whether its store has no room left.
        resource_version: of its pod; empty if there is none to be changed.
        synced: what its pod was last told to have loaded.
    """

    pod: str
    reached: bool = True
    ready: bool = False
    history: str | None = None
    incarnation: str | None = None
    loaded: Mapping[str, str] = field(default_factory=dict)
    used: Mapping[str, int] = field(default_factory=dict)
    problems: tuple[str, ...] = ()
    store_reached: bool | None = None
    store_problem: str = ""
    store_full: bool = False
    resource_version: str = ""
    synced: str = ""


def all_loaded(reports: Iterable[Report], what: str, sha256: str) -> bool:
    """Whether every process that serves says that it has loaded this content."""
    return all(report.reached and report.loaded.get(what) == sha256 for report in reports if report.ready)


def all_gone_on(reports: Iterable[Report], what: str, sha256: str) -> bool:
    """Whether every process that serves, or answers although it does not, says that it has loaded this content."""
    there = [report for report in reports if report.ready or report.reached]
    return all(report.reached and report.loaded.get(what) == sha256 for report in there)
