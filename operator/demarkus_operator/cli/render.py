"""`demarkus render`: every object that a cluster would get for some manifests."""

from __future__ import annotations

import asyncio
import importlib.metadata
import json
from datetime import UTC, datetime
from pathlib import Path

import click
import yaml

from demarkus_operator.cli.cluster import operator_namespace_option
from demarkus_operator.cli.files import filename_option
from demarkus_operator.cli.options import Mistake
from demarkus_operator.cluster.kinds import NAMESPACE, UNIVERSE, WORLD
from demarkus_operator.local import declared
from demarkus_operator.local.manifests import Document, ManifestError, read
from demarkus_operator.plan.objects import Ref
from demarkus_operator.plan.site import Images, Site
from demarkus_operator.rehearsal.blank import blanked
from demarkus_operator.rehearsal.play import play
from demarkus_operator.rehearsal.stage import Stage
from demarkus_operator.rehearsal.steps import refusals_of, steps, subjects

SOME_DAY = datetime(2026, 1, 1, tzinfo=UTC)
"""When the rendering takes place: whatever depends on the time is the same in every rendering."""


@click.command()
@filename_option()
@click.option("-n", "--namespace", default=declared.DEFAULT_NAMESPACE, show_default=True, help="For those without one.")
@operator_namespace_option
@click.option("--version", default=importlib.metadata.version("demarkus"), show_default=True, help="The operator's.")
@click.option("--world-image", default=Images().world, show_default=True, help="Image of worlds, without tag.")
@click.option("--broker-image", default=Images().broker, show_default=True, help="Image of gateways, without tag.")
@click.option("--json", "as_json", is_flag=True, help="A List in JSON instead of YAML.")
def render(
    paths: tuple[Path, ...],
    namespace: str,
    operator_namespace: str,
    version: str,
    world_image: str,
    broker_image: str,
    as_json: bool,
) -> None:
    """Print every object that a cluster would get for some manifests; no cluster is asked.

    Two renderings are equal, so that they can be compared and judged by other tools. What the operator would generate
    is left out: Secrets have no data, identifiers are words. A rendering is to be read, not to be applied.
    """
    site = Site(
        operator_namespace=operator_namespace, version=version, images=Images(world=world_image, broker=broker_image)
    )
    try:
        documents = read(paths)
        objects, refusals = asyncio.run(_rendered(documents, namespace, site))
    except ManifestError as error:
        raise Mistake(str(error)) from error
    if as_json:
        click.echo(json.dumps({"apiVersion": "v1", "kind": "List", "items": objects}, indent=2))
    else:
        click.echo("---\n".join(map(_yaml, objects)), nl=False)
    if refusals:
        raise Mistake("\n".join(refusals))


async def _rendered(
    documents: tuple[Document, ...], namespace: str, site: Site
) -> tuple[list[dict[str, object]], list[str]]:
    wanted = declared.judged(documents, before={}, namespace=namespace, one_universe=False)
    stage = Stage(None, now=SOME_DAY)
    await declared.bring_in(stage, wanted)
    given = {Ref.of(one) for one in wanted}
    refs = [ref for ref in given if ref.kind in (WORLD.kind, UNIVERSE.kind)]
    await play(stage, refs, site=site, now=SOME_DAY)
    made = [stage.now(step.ref) for step in steps(stage) if step.ref not in given and step.ref.kind != NAMESPACE.kind]
    refusals = [text for one in subjects(stage) for text in refusals_of(one)]
    return blanked(one for one in made if one is not None), refusals


def _yaml(one: object) -> str:
    return yaml.dump(one, Dumper=_Dumper, sort_keys=False, width=120)


class _Dumper(yaml.SafeDumper):
    """Texts of several lines are written as such; nothing is abbreviated by aliases."""

    def ignore_aliases(self, data: object) -> bool:
        return True


def _text(dumper: yaml.SafeDumper, text: str) -> yaml.ScalarNode:
    return dumper.represent_scalar("tag:yaml.org,2002:str", text, style="|" if "\n" in text else None)


_Dumper.add_representer(str, _text)
