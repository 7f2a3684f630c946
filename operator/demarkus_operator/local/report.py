"""What a local universe looks like from outside: a value that `up` shows and keeps, and `status` reads.

Pure: the runner hands in the stored objects and the states of the processes.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping
from dataclasses import asdict, dataclass
from typing import Any, Self

from demarkus_operator.api.conditions import ConditionType, Reason
from demarkus_operator.cluster.kinds import UNIVERSE
from demarkus_operator.local.pods import PodState
from demarkus_operator.local.processes import Phase
from demarkus_operator.plan.names import UniverseNames, WorldNames
from demarkus_operator.plan.objects import Manifest, Ref

_ON_THE_WAY = frozenset({Reason.STARTING, Reason.TRY_LATER})


@dataclass(frozen=True, slots=True, kw_only=True)
class Subject:
    """A World or Universe: its `Ready` condition, and where it is reached."""

    kind: str
    namespace: str
    name: str
    ready: bool
    reason: str
    message: str
    url: str = ""
    tokens: tuple[str, ...] = ()
    """Names of a World's capability tokens."""

    @property
    def title(self) -> str:
        """What it is called in a line of text."""
        return f"{self.kind} {self.namespace}/{self.name}"


@dataclass(frozen=True, slots=True, kw_only=True)
class ProcessLine:
    """A process: its phase, and how it ended last if it did."""

    name: str
    phase: str
    pid: int | None
    restarts: int
    exit_code: int | None
    last_words: str
    log: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Report:
    """Everything. `settled`: nothing is under way any more; `ready`: settled, and all that is declared serves."""

    pid: int
    settled: bool
    ready: bool
    person: str
    """Whom the bearer names; empty without a gateway."""
    subjects: tuple[Subject, ...]
    processes: tuple[ProcessLine, ...]

    @property
    def universe(self) -> Subject | None:
        """The Universe, if one is declared."""
        return next((subject for subject in self.subjects if subject.kind == UNIVERSE.kind), None)

    @property
    def worlds(self) -> tuple[Subject, ...]:
        """The Worlds."""
        return tuple(subject for subject in self.subjects if subject.kind != UNIVERSE.kind)

    def to_json(self) -> str:
        """As `demarkus status --json` prints it."""
        return json.dumps(asdict(self), indent=2)

    @classmethod
    def from_json(cls, text: str) -> Self:
        """What `to_json` wrote. Raises ValueError."""
        try:
            content = json.loads(text)
            subjects = tuple(Subject(**{**entry, "tokens": tuple(entry["tokens"])}) for entry in content["subjects"])
            processes = tuple(ProcessLine(**entry) for entry in content["processes"])
            return cls(**{**content, "subjects": subjects, "processes": processes})
        except (KeyError, TypeError) as error:
            raise ValueError(f"not a report of this version: {error}") from error


def report(subjects: Iterable[Manifest], pods: Iterable[PodState], *, pid: int, person: str, quiet: bool) -> Report:
    """The report. `quiet`: the reconcilers have nothing in hand."""
    states = {pod.workload: pod for pod in pods}
    found = tuple(_subject(manifest, states) for manifest in subjects)
    settled = (
        quiet
        and all(pod.process.phase is Phase.READY for pod in states.values())
        and not any(subject.reason in _ON_THE_WAY for subject in found)
    )
    return Report(
        pid=pid,
        settled=settled,
        ready=settled and all(subject.ready for subject in found),
        person=person,
        subjects=found,
        processes=tuple(
            ProcessLine(
                name=f"{ref.namespace}/{ref.name}",
                phase=str(pod.process.phase),
                pid=pod.process.pid,
                restarts=pod.process.restarts,
                exit_code=pod.process.exit_code,
                last_words=pod.process.last_words,
                log=str(pod.log),
            )
            for ref, pod in states.items()
        ),
    )


def _subject(manifest: Manifest, states: Mapping[Ref, PodState]) -> Subject:
    metadata, status = manifest["metadata"], manifest.get("status") or {}
    namespace, name = metadata["namespace"], metadata["name"]
    if manifest["kind"] == UNIVERSE.kind:
        pod = states.get(UniverseNames(namespace, name).deployment)
        url = f"http://{pod.listen['http']}/mcp" if pod and "http" in pod.listen else ""
    else:
        pod = states.get(WorldNames(namespace, name).stateful_set)
        url = f"mark://localhost:{pod.listen['mark'].rpartition(':')[2]}/" if pod and "mark" in pod.listen else ""
    condition = _ready_condition(manifest, status)
    ready = condition.get("status") == "True"
    if ready and (pod is None or pod.process.phase is not Phase.READY):
        ready, condition = False, {}  # the status is about a process that was there before
    return Subject(
        kind=manifest["kind"],
        namespace=namespace,
        name=name,
        ready=ready,
        reason=condition.get("reason", Reason.STARTING),
        message=condition.get("message", ""),
        url=url,
        tokens=tuple(token["name"] for token in status.get("tokens", ())),
    )


def _ready_condition(manifest: Manifest, status: Mapping[str, Any]) -> Mapping[str, Any]:
    """The condition, if it is about the object as it is now."""
    if status.get("observedGeneration") != manifest["metadata"]["generation"]:
        return {}
    conditions: Iterable[Mapping[str, Any]] = status.get("conditions", ())
    return next((entry for entry in conditions if entry["type"] == ConditionType.READY), {})
