"""`demarkus token`: a World's capability token, for native clients on this machine."""

from __future__ import annotations

import base64

import click

from demarkus_operator.cli.options import Failure, Mistake, shown, state_option
from demarkus_operator.local import store
from demarkus_operator.local.declared import DEFAULT_NAMESPACE
from demarkus_operator.local.state import StateFolder
from demarkus_operator.plan.names import WorldNames
from demarkus_operator.reconcile.world import world_ref


@click.command()
@click.argument("world")
@click.argument("name", required=False)
@click.option("-n", "--namespace", default=DEFAULT_NAMESPACE, show_default=True, help="The World's namespace.")
@state_option
def token(world: str, name: str | None, namespace: str, folder: StateFolder) -> None:
    """Print the text of the capability token NAME of WORLD; without NAME, of its first.

    Give it to `mark` in DEMARKUS_AUTH rather than as an argument, which everybody on a machine can see.
    """
    try:
        names = _token_names(folder, namespace, world)
        if name is None and not names:
            raise Mistake(f"World {namespace}/{world} has no tokens; name one in spec.tokens")
        chosen = name or names[0]
        secret = store.read(folder.objects, WorldNames(namespace, world).token(chosen))
    except store.StateDamaged as error:
        raise Failure(str(error)) from error
    if chosen not in names or secret is None:
        known = f"it has: {', '.join(names)}" if names else "it has none"
        raise Mistake(f"World {namespace}/{world} has no token {chosen}; {known}")
    click.echo(base64.b64decode(secret["data"]["token"]))


def _token_names(folder: StateFolder, namespace: str, world: str) -> list[str]:
    found = store.read(folder.objects, world_ref(namespace, world))
    if found is None:
        raise Mistake(f"there is no World {namespace}/{world} in {shown(folder.root)}")
    return [entry["name"] for entry in (found.get("status") or {}).get("tokens", ())]
