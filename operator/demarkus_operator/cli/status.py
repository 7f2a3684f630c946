"""`demarkus status`: what runs in a state folder."""

from __future__ import annotations

import json
from collections.abc import Iterable

import click

from demarkus_operator.cli import cluster_status
from demarkus_operator.cli.cluster import Place, asked_for_cluster, cluster_options
from demarkus_operator.cli.options import Failure, Mistake, NothingRuns, aligned, shown, state_option
from demarkus_operator.local.report import Report
from demarkus_operator.local.state import StateFolder


@click.command()
@state_option
@click.option("--cluster", is_flag=True, default=asked_for_cluster, help="Ask a cluster instead of this machine.")
@cluster_options
@click.option("--json", "as_json", is_flag=True, help="Print everything as JSON.")
@click.option("--url", "of", metavar="KIND/NAME", help="Print only where this is: world/NAME or universe/NAME.")
@click.pass_context
def status(
    context: click.Context, folder: StateFolder, cluster: bool, place: Place, as_json: bool, of: str | None
) -> None:
    """Show Worlds, Universe and processes. Exit status: 0 all ready, 1 not all, 3 nothing runs."""
    if cluster:
        if not cluster_status.show(place, as_json=as_json, of=of):
            context.exit(Failure.exit_code)
        return
    report = _report(folder)
    if report is None:
        if as_json:
            click.echo(json.dumps({"running": False}))
        raise NothingRuns(f"nothing runs in {shown(folder.root)}")
    if of is not None:
        click.echo(_url(report, of))
    elif as_json:
        click.echo(json.dumps({"running": True, **json.loads(report.to_json())}, indent=2))
    else:
        click.echo("\n".join(_tables(report)))
    if not report.ready:
        context.exit(Failure.exit_code)


def _report(folder: StateFolder) -> Report | None:
    """What the running `up` last wrote; None if none runs."""
    holder = folder.holder()
    if holder is None:
        return None
    try:
        report = Report.from_json(folder.status.read_text())
    except (FileNotFoundError, ValueError):
        report = None
    if report is None or report.pid != holder:
        raise Failure(f"a universe is starting in {shown(folder.root)}; ask again in a moment")
    return report


def _url(report: Report, of: str) -> str:
    for subject in report.subjects:
        if of.lower() == f"{subject.kind}/{subject.name}".lower() and subject.url:
            return subject.url
    raise Mistake(f"{of} has no URL here; there is: " + ", ".join(f"{s.kind}/{s.name}" for s in report.subjects))


def _tables(report: Report) -> Iterable[str]:
    yield from aligned(
        [("KIND", "NAMESPACE", "NAME", "READY", "REASON", "URL")]
        + [
            (subject.kind, subject.namespace, subject.name, str(subject.ready), subject.reason, subject.url or "-")
            for subject in report.subjects
        ]
    )
    yield from (f"{subject.title}: {subject.message}" for subject in report.subjects if subject.message)
    yield ""
    yield from aligned(
        [("PROCESS", "PHASE", "PID", "RESTARTS", "LOG")]
        + [
            (process.name, process.phase, str(process.pid or "-"), str(process.restarts), process.log)
            for process in report.processes
        ]
    )
    yield from (
        f"{process.name} ended last with: {process.last_words}" for process in report.processes if process.last_words
    )
