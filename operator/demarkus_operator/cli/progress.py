"""What `demarkus up` prints: a line for each thing that changed, and at the end where everything is."""

from __future__ import annotations

import shlex
from collections.abc import Callable, Sequence

from demarkus_operator.cli.options import runnable, shown, with_state
from demarkus_operator.local.processes import Phase
from demarkus_operator.local.report import Report, Subject
from demarkus_operator.local.state import StateFolder


class Progress:
    """Turns reports into lines; `clock` is in seconds."""

    def __init__(self, echo: Callable[[str], object], *, clock: Callable[[], float]) -> None:
        self._echo = echo
        self._clock = clock
        self._begin = clock()
        self._said: dict[str, str] = {}
        self.summed_up = False

    def show(self, report: Report) -> None:
        """Print what is different from the last report."""
        for subject in report.subjects:
            if subject.ready or subject.message:
                self._say(subject.title, _condition(subject))
        for process in report.processes:
            if process.phase == Phase.BACKOFF and process.last_words:
                self._say(f"process {process.name}", f"ended ({process.last_words}); it is started again")
            elif process.phase == Phase.READY:
                self._said.pop(f"process {process.name}", None)

    def _say(self, title: str, text: str) -> None:
        if self._said.get(title) != text:
            self._said[title] = text
            self._echo(f"{self._clock() - self._begin:6.1f} s  {title}: {text}")


def _condition(subject: Subject) -> str:
    if subject.ready:
        return f"ready at {subject.url}"
    return f"{subject.reason}: {subject.message}"


def summary(report: Report, folder: StateFolder, *, ending: str) -> Sequence[str]:
    """Where everything is, and what to try."""
    lines = ["", "Ready." if report.ready else "Not everything is ready; see above."]
    universe = report.universe
    if universe is not None and universe.url:
        lines += [
            "",
            f"  MCP      {universe.url}",
            f"  bearer   {shown(folder.bearer)}  (names {report.person}; 12 hours, renewed while this runs)",
        ]
    width = max((len(world.name) for world in report.worlds), default=0)
    lines += ["", *(f"  {world.name:<{width}}   {world.url}" for world in report.worlds if world.url)]
    lines += ["", *(f"  {line}" for line in examples(report, folder)), "", ending]
    return lines


def examples(report: Report, folder: StateFolder) -> Sequence[str]:
    """Commands to look for oneself, ready to be copied."""
    world = next((world for world in report.worlds if world.tokens), None) or next(iter(report.worlds), None)
    if world is None:
        return []
    command = f"{runnable('mark')} list --ca {shlex.quote(shown(folder.trust))} {world.url}"
    if not world.tokens:
        return [command]
    return [f"DEMARKUS_AUTH=$({with_state(f'token {world.name}', folder)}) {command}"]
