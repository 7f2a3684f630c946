"""`demarkus verify`: what was witnessed of a World's history, checked once more."""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import click

from demarkus_base.tlog.notes import Note, NoteError
from demarkus_operator.api.conditions import ConditionType
from demarkus_operator.cli.cluster import Place, asked_for_cluster, cluster_options, operator_namespace_option
from demarkus_operator.cli.options import Failure, Mistake, state_option
from demarkus_operator.cli.source import Source, cluster_source, local_source
from demarkus_operator.local.state import StateFolder
from demarkus_operator.plan.names import witness_record
from demarkus_operator.plan.objects import Manifest
from demarkus_operator.plan.refusal import Refusal
from demarkus_operator.plan.witness import Record, read


@dataclass(frozen=True, slots=True, kw_only=True)
class Finding:
    """What the record says, and every reason not to trust the history."""

    record: Record
    newest: Note | None
    problems: tuple[str, ...]


@click.command()
@click.argument("world")
@click.option(
    "--note",
    "notes",
    multiple=True,
    type=click.Path(path_type=Path, exists=True, dir_okay=False),
    help="A signed note that was kept elsewhere; the record must not contradict it. May be given several times.",
)
@state_option
@click.option("--cluster", is_flag=True, default=asked_for_cluster, help="Ask a cluster instead of this machine.")
@cluster_options
@operator_namespace_option
@click.option("--json", "as_json", is_flag=True, help="Print everything as JSON, the newest signed note with it.")
@click.pass_context
def verify(
    context: click.Context,
    world: str,
    notes: tuple[Path, ...],
    folder: StateFolder,
    cluster: bool,
    place: Place,
    operator_namespace: str,
    as_json: bool,
) -> None:
    """Say what was witnessed of a World's history, and whether anything speaks against it.

    The operator asks every World for a signed note of its history and for the proof that it goes on from the note
    before. Here all notes of its record are checked again. Exit status: 0 nothing speaks against the history, 1
    something does, or nothing was witnessed yet.
    """
    source = cluster_source(place) if cluster else local_source(folder, place)
    found = source.world(world)
    finding = _found(source, found, operator_namespace, [path.read_text() for path in notes])
    if as_json:
        click.echo(json.dumps(_as_json(finding), indent=2))
    else:
        click.echo("\n".join(_lines(found, finding)))
    if finding.problems:
        context.exit(Failure.exit_code)


def _found(source: Source, world: Manifest, operator_namespace: str, notes: Sequence[str]) -> Finding:
    history = (world.get("status") or {}).get("history")
    place = f"World {source.namespace}/{world['metadata']['name']}"
    if not history:
        raise Failure(f"{place} has no history yet")
    seen = source.read(witness_record(operator_namespace, history))
    if seen is None:
        raise Failure(f"nothing was witnessed yet of {place}; the operator asks once the World is ready")
    try:
        record = read(seen, history=history)
    except Refusal as refusal:
        raise Failure(refusal.message) from refusal
    newest = None if record.newest is None else record.opened(record.newest.note)
    problems = (*_told(world), *_contradictions(record), *(_compared(record, newest, text) for text in notes))
    return Finding(record=record, newest=newest, problems=tuple(filter(None, problems)))


def _told(world: Manifest) -> Iterator[str]:
    """What the operator says."""
    for condition in world["status"].get("conditions", ()):
        if condition["type"] == ConditionType.HISTORY_VERIFIED and condition["status"] != "True":
            yield f"{condition['reason']}: {condition['message']}"


def _contradictions(record: Record) -> Iterator[str]:
    """Notes of the record that don't fit together."""
    if record.newest is None:
        yield "no note is in force"
    if record.doubt is not None:
        yield f"{record.doubt.reason} since {record.doubt.time.isoformat()}: {record.doubt.message}"
    later: Note | None = None
    for one in [*filter(None, (record.newest,)), *record.older]:
        try:
            note = record.opened(one.note)
        except NoteError as error:
            yield f"the note of {one.time.isoformat()} is not valid: {error}"
            continue
        if later is not None and (note.origin, note.size > later.size) == (later.origin, True):
            yield f"the note of {one.time.isoformat()} knows {note.size} entries, a later one only {later.size}"
        later = note


def _compared(record: Record, newest: Note | None, text: str) -> str | None:
    """What a note that was kept elsewhere says against the record."""
    try:
        note = record.opened(text)
    except NoteError as error:
        raise Mistake(f"a given note was not signed by a key of this history: {error}") from error
    if newest is None or note.origin != newest.origin:
        return f"a given note is of another life of the history: {note.origin}"
    if note.size > newest.size:
        return f"a given note knows {note.size} entries, the record only {newest.size}"
    known = [record.opened(one.note) for one in [*filter(None, (record.newest,)), *record.older]]
    if any(one.origin == note.origin and one.size == note.size and one.root != note.root for one in known):
        return f"a given note and the record disagree about the first {note.size} entries: the history was forked"
    return None


def _lines(world: Manifest, finding: Finding) -> Iterator[str]:
    record = finding.record
    yield f"World {world['metadata']['namespace']}/{world['metadata']['name']}, history {record.history}"
    if record.newest is not None and finding.newest is not None:
        yield f"  {finding.newest.size} entries witnessed at {record.newest.time.isoformat()}"
    if record.older:
        yield f"  {len(record.older)} older notes, the first of {record.older[-1].time.isoformat()}"
    for lost in record.given_up:
        size = record.opened(lost.note).size
        yield f"  a life of {size} entries was given up, witnessed at {lost.time.isoformat()}"
    for doubt in record.doubts:
        yield f"  a doubt that passed: {doubt.reason} at {doubt.time.isoformat()}: {doubt.message}"
    yield from finding.problems or ("Nothing speaks against it.",)


def _as_json(finding: Finding) -> dict[str, Any]:
    record = finding.record
    newest = (
        {}
        if record.newest is None or finding.newest is None
        else {"entries": finding.newest.size, "time": record.newest.time.isoformat(), "note": record.newest.note}
    )
    return {
        "history": record.history,
        "newest": newest,
        "older": [one.time.isoformat() for one in record.older],
        "problems": list(finding.problems),
        "verified": not finding.problems,
    }
