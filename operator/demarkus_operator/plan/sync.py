"""Pods that have not loaded what lies ready for them: a change of an annotation makes the kubelet look at their volumes
now instead of within a minute or two.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterable, Mapping

from demarkus_operator.plan import labels
from demarkus_operator.plan.objects import Change, Ref
from demarkus_operator.plan.reports import Report


def nudges(namespace: str, reports: Iterable[Report], wanted: Mapping[str, str]) -> tuple[Change, ...]:
    """A change of every pod whose process serves and has not loaded what is wanted, once for each state of that.

    `wanted` says what processes call the content of the files as they are there.
    """
    state = hashlib.sha256(json.dumps(wanted, sort_keys=True).encode()).hexdigest()[:16]
    return tuple(
        Change(
            ref=Ref("v1", "Pod", namespace, report.pod),
            resource_version=report.resource_version,
            patch={"metadata": {"annotations": {labels.SYNCED: state}}},
            why="it has not loaded what lies ready",
        )
        for report in reports
        if report.ready
        and report.reached
        and report.resource_version
        and report.synced != state
        and behind(report, wanted)
    )


def behind(report: Report, wanted: Mapping[str, str]) -> bool:
    """Whether a process has loaded something else than what lies ready."""
    return any(what in report.loaded and report.loaded[what] != sha256 for what, sha256 in wanted.items())
