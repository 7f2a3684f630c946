"""`demarkus token`: a World's capability token, for native clients."""

from __future__ import annotations

import base64
from collections.abc import Callable

import click

from demarkus_operator.cli.cluster import Place, asked_for_cluster, cluster_options, run
from demarkus_operator.cli.options import Failure, Mistake, shown, state_option
from demarkus_operator.cluster.port import NotFound
from demarkus_operator.local import store
from demarkus_operator.local.declared import DEFAULT_NAMESPACE
from demarkus_operator.local.state import StateFolder
from demarkus_operator.plan.names import WorldNames
from demarkus_operator.plan.objects import Manifest, Ref
from demarkus_operator.reconcile.world import world_ref

Read = Callable[[Ref], Manifest | None]


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
    try:
        if cluster:
            data = _token(lambda ref: run(_get(place, ref)), place.namespace, world, name, where="the cluster")
        else:
            namespace = place.given_namespace or DEFAULT_NAMESPACE
            data = _token(lambda ref: store.read(folder.objects, ref), namespace, world, name, where=shown(folder.root))
    except store.StateDamaged as error:
        raise Failure(str(error)) from error
    click.echo(data)


def _token(read: Read, namespace: str, world: str, name: str | None, *, where: str) -> bytes:
    found = read(world_ref(namespace, world))
    if found is None:
        raise Mistake(f"there is no World {namespace}/{world} in {where}")
    names = [entry["name"] for entry in (found.get("status") or {}).get("tokens", ())]
    if name is None and not names:
        raise Mistake(f"World {namespace}/{world} has no tokens; name one in spec.tokens")
    chosen = name or names[0]
    secret = read(WorldNames(namespace, world).token(chosen)) if chosen in names else None
    if secret is None:
        known = f"it has: {', '.join(names)}" if names else "it has none"
        raise Mistake(f"World {namespace}/{world} has no token {chosen}; {known}")
    return base64.b64decode(secret["data"]["token"])


async def _get(place: Place, ref: Ref) -> Manifest | None:
    async with place.port() as port:
        try:
            return await port.get(ref)
        except NotFound:
            return None
