"""`demarkus token`: a World's capability token, for native clients."""

from __future__ import annotations

import base64

import click

from demarkus_operator.cli.cluster import Place, asked_for_cluster, cluster_options
from demarkus_operator.cli.options import Mistake, state_option
from demarkus_operator.cli.source import Source, cluster_source, local_source
from demarkus_operator.local.state import StateFolder
from demarkus_operator.plan.names import WorldNames


@click.command()
@click.argument("world")
@click.argument("name", required=False)
@state_option
@click.option("--cluster", is_flag=True, default=asked_for_cluster, help="Ask a cluster instead of this machine.")
@cluster_options
def token(world: str, name: str | None, folder: StateFolder, cluster: bool, place: Place) -> None:
    """Print the text of the capability token NAME of WORLD; without NAME, of its first.

    Give it to `mark` in DEMARKUS_AUTH rather than as an argument, which everybody on a machine can see.
    """
    source = cluster_source(place) if cluster else local_source(folder, place)
    click.echo(_token(source, world, name))


def _token(source: Source, world: str, name: str | None) -> bytes:
    namespace, found = source.namespace, source.world(world)
    names = [entry["name"] for entry in (found.get("status") or {}).get("tokens", ())]
    if name is None and not names:
        raise Mistake(f"World {namespace}/{world} has no tokens; name one in spec.tokens")
    chosen = name or names[0]
    secret = source.read(WorldNames(namespace, world).token(chosen)) if chosen in names else None
    if secret is None:
        known = f"it has: {', '.join(names)}" if names else "it has none"
        raise Mistake(f"World {namespace}/{world} has no token {chosen}; {known}")
    return base64.b64decode(secret["data"]["token"])
