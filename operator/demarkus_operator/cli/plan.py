"""`demarkus plan`: what the operator of a cluster would write, compared with what is there."""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import click

from demarkus_operator.cli.cluster import Place, cluster_options, operator_namespace_option, run, site_of
from demarkus_operator.cli.files import filename_option
from demarkus_operator.cli.options import Mistake
from demarkus_operator.cluster.kinds import NAMESPACE, UNIVERSE, WORLD
from demarkus_operator.cluster.port import NotFound, Port
from demarkus_operator.local import declared
from demarkus_operator.local.manifests import Document, ManifestError, read
from demarkus_operator.plan.objects import Manifest, Ref
from demarkus_operator.reconcile.resync import listing
from demarkus_operator.rehearsal.play import play
from demarkus_operator.rehearsal.stage import Stage
from demarkus_operator.rehearsal.steps import Action, Step, refusals_of, steps, subjects

DIFFERENT = 4


@click.command()
@filename_option(required=False, otherwise="As if it had been applied; without it, what the cluster has.")
@cluster_options
@operator_namespace_option
@click.option("--json", "as_json", is_flag=True, help="Print everything as JSON.")
@click.pass_context
def plan(context: click.Context, paths: tuple[Path, ...], place: Place, operator_namespace: str, as_json: bool) -> None:
    """Show what the operator of a cluster would write, for some manifests or for what the cluster has. Nothing is
    written.

    It takes the rights to read what the operator reads. What is in Secrets is never shown. Exit status: 0 nothing
    would be written, 4 something would.
    """
    try:
        documents = read(paths) if paths else ()
    except ManifestError as error:
        raise Mistake(str(error)) from error
    stage = run(_rehearsed(documents, place, operator_namespace))
    found = list(steps(stage))
    shown = subjects(stage)
    refusals = [text for subject in shown for text in refusals_of(subject)]
    if as_json:
        click.echo(json.dumps(_as_json(found, shown), indent=2))
    else:
        click.echo("\n".join(_lines(found, refusals)))
    if refusals:
        context.exit(Mistake.exit_code)
    if found:
        context.exit(DIFFERENT)


async def _rehearsed(documents: Sequence[Document], place: Place, operator_namespace: str) -> Stage:
    async with place.port() as port:
        site = await site_of(port, operator_namespace)
        stage = Stage(port, now=datetime.now(UTC))
        refs = await (_given(documents, stage, place) if documents else _there(port, place))
        await play(stage, refs, site=site, now=datetime.now(UTC))
        return stage


async def _given(documents: Sequence[Document], stage: Stage, place: Place) -> list[Ref]:
    """The subjects of some manifests, as if these had been applied. Raises Mistake."""
    try:
        wanted = declared.judged(documents, before={}, namespace=place.namespace, one_universe=False)
        before = {Ref.of(one): await _found(stage, Ref.of(one)) for one in wanted}
        old = {ref: found for ref, found in before.items() if found is not None}
        declared.judged(documents, before=old, namespace=place.namespace, one_universe=False)
    except ManifestError as error:
        raise Mistake(str(error)) from error
    for one in wanted:
        await stage.apply(one)
    return [Ref.of(one) for one in wanted if one["kind"] != NAMESPACE.kind]


async def _found(stage: Stage, ref: Ref) -> Manifest | None:
    try:
        return await stage.get(ref)
    except NotFound:
        return None


async def _there(port: Port, place: Place) -> list[Ref]:
    namespaces = () if place.all_namespaces else (place.namespace,)
    return [Ref.of(one) for one in await listing(port, namespaces)]


def _lines(found: Sequence[Step], refusals: Sequence[str]) -> Iterator[str]:
    for step in found:
        yield f"{step.action:<7} {step.ref}"
        for field in step.fields:
            yield from (f"          {line}" for line in field.lines())
    if found:
        yield ""
    yield from refusals
    counts = (f"{sum(step.action is action for step in found)} to {action}" for action in Action)
    yield ", ".join(counts) if found else "Nothing would be written."


def _as_json(found: Sequence[Step], shown: Sequence[Manifest]) -> dict[str, Any]:
    return {
        "steps": [
            {
                "action": step.action,
                "kind": step.ref.kind,
                "namespace": step.ref.namespace,
                "name": step.ref.name,
                "fields": [{"path": f.path, "before": f.before, "after": f.after} for f in step.fields],
            }
            for step in found
        ],
        "subjects": [
            {
                "kind": one["kind"],
                "namespace": one["metadata"]["namespace"],
                "name": one["metadata"]["name"],
                "conditions": (one.get("status") or {}).get("conditions", []),
            }
            for one in shown
            if one["kind"] in (WORLD.kind, UNIVERSE.kind)
        ],
    }
